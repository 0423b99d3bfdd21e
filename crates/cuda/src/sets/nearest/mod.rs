//! Rankings of sets on a device.
//!
//! The device finds the neighbours that share a token with a probe row. The filter takes the bound of each row from the
//! worst of them that it keeps (`rounds`). Where too few share one, the host adds rows that share none, by their ranks.
//! Probe rows without a known token have only such neighbours.

mod kept;
mod rounds;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use self::kept::SetsOnDevice;
use self::rounds::SetRounds;
use super::build_side::{BuildSide, describe_tiles};
use super::columns::SetColumns;
use super::sorted::{SortedSets, signature_words};
use crate::fault::Fault;
use crate::kernels::SetSigner;
use crate::memory::Budget;
use crate::nearest::{self, NearestOnDevice, OnHost, Ranked, Searching};
use similarity_engine::nearest::{Best, DynNearestIndex};
use similarity_engine::sets::ranks::Ranks;
use similarity_engine::sets::rows_by_rank::{RowsByRank, scored_rows};
use similarity_engine::sets::tokenise::tokenise_probe;
use similarity_engine::{BuildContext, Cancel, Erased, IndexInfo, KeyColumn, PrepareContext};
use similarity_measures::{SetMeasure, Tokenizer};

/// Signatures are longer than those of joins, as on the CPU: neighbours may have little in common.
const FINENESS: f64 = 2.0;

/// Makes the sets of `keys`, each row with a rank, ready for being ranked on the device; none where no row has a token.
///
/// # Errors
/// Errors of [`BuildSide::try_new`], and a device that fails.
pub(crate) fn build_nearest(
    budget: &Budget,
    (tokenizer, measure): (Tokenizer, SetMeasure),
    keys: &KeyColumn,
    ranks: &[u32],
    context: &BuildContext<'_>,
) -> Result<Option<Box<DynNearestIndex>>, Fault> {
    let index = SetsOnDevice::try_new(budget, (tokenizer, measure), keys, ranks, context)?;
    Ok(index.map(|index| Box::new(Erased(index)) as Box<DynNearestIndex>))
}

/// Probe rows that share no token with any build row, and the groups of all.
#[derive(Debug)]
struct Disjoint {
    rows: Vec<u32>,
    /// Groups by row; none where there are no equality keys.
    groups: Option<Vec<u32>>,
}

impl OnHost for Disjoint {
    fn rows(&self) -> &[u32] {
        &self.rows
    }
}

impl Disjoint {
    fn group(&self, row: u32) -> u32 {
        self.groups.as_ref().map_or(0, |groups| groups[row as usize])
    }
}

impl SetsOnDevice {
    fn try_new(
        budget: &Budget,
        (tokenizer, measure): (Tokenizer, SetMeasure),
        keys: &KeyColumn,
        ranks: &[u32],
        context: &BuildContext<'_>,
    ) -> Result<Option<NearestOnDevice<Self>>, Fault> {
        let BuildSide { dictionary, columns, .. } = BuildSide::try_new(budget, tokenizer, keys, false, context)?;
        if columns.rows == 0 {
            return Ok(None);
        }
        (context.reserve)(RowsByRank::size(ranks.len()) + size_of_val(ranks))?;
        let words = signature_words(FINENESS * columns.mean_size());
        let signer = SetSigner { ranks: dictionary.len() as u32, words };
        let stream = budget.device.stream()?;
        let sets = SortedSets::try_new(budget, &stream, &columns, &signer)?;
        let scored = RowsByRank::of(keys, ranks.to_vec());
        let ranks = nearest::upload_ranks(budget, &stream, ranks)?;
        let budget = budget.clone();
        NearestOnDevice::try_new(Self { budget, tokenizer, measure, dictionary, signer, sets, scored, ranks }).map(Some)
    }
}

impl Ranked for SetsOnDevice {
    type Side = SortedSets;
    type OnHost = Disjoint;

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn own(&self) -> Option<(&SortedSets, &Disjoint)> {
        None
    }

    fn info(&self) -> IndexInfo {
        IndexInfo {
            path: describe_tiles(&self.budget, self.signer.words),
            bytes: self.dictionary.memory() + self.scored.memory(),
            unmatchable: self.scored.unmatchable(),
            rows_at_once: self.budget.rows_at_once(self.sets.count as usize),
            ..IndexInfo::default()
        }
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<(SortedSets, Disjoint, usize), Fault> {
        let ranges = tokenise_probe(self.tokenizer, keys, &self.dictionary, context)?;
        let tables: Vec<_> = ranges.iter().map(|_| Ranks::Below(self.signer.ranks)).collect();
        let columns = SetColumns::pack(ranges, &tables, keys.groups.as_deref())?;
        let sets = SortedSets::try_new(&self.budget, &self.budget.device.stream()?, &columns, &self.signer)?;
        let mut has_tokens = vec![false; keys.values.len()];
        columns.row_numbers().for_each(|row| has_tokens[row as usize] = true);
        let mut rows = scored_rows(keys);
        let unmatchable = has_tokens.len() - rows.len();
        rows.retain(|&row| !has_tokens[row as usize]);
        Ok((sets, Disjoint { rows, groups: keys.groups.clone() }, unmatchable))
    }

    fn search(
        &self,
        stream: &Arc<CudaStream>,
        Searching { side, on_host, order }: Searching<'_, SortedSets, Disjoint>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let rounds = SetRounds::new(self, side);
        let candidates = nearest::search(&self.budget, stream, &rounds, positions, (&mut *best, 0), cancel)?;
        for (&position, best) in positions.iter().zip(best).take_while(|_| !cancel.is_cancelled()) {
            self.scored.offer_disjoint(on_host.group(order[position as usize]), best);
        }
        Ok(candidates)
    }

    fn search_on_host(&self, disjoint: &Disjoint, at: usize, best: &mut Best<i64>, _: &Cancel) -> usize {
        self.scored.offer_disjoint(disjoint.group(disjoint.rows[at]), best);
        0
    }
}
