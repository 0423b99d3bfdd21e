//! Rankings of sets on a device.
//!
//! The device finds the neighbours that share a token with a probe row: it counts the entries of an index of all tokens
//! (`inverted_index`, `counts`), or compares signatures of all sets (`rounds`). Either takes the bound of each row from
//! the worst neighbour that it keeps. Where too few share a token, the host adds rows that share none, by their ranks.
//! Probe rows without a known token have only such neighbours.

mod counts;
mod inverted_index;
mod kept;
mod rounds;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use self::counts::CountedSets;
use self::inverted_index::{InvertedIndex, Pays};
use self::kept::SetsOnDevice;
use self::rounds::SetRounds;
use super::build_side::{BuildSide, describe_tiles};
use super::columns::SetColumns;
use super::posting_lists::PostingLists;
use super::sorted::{SortedSets, signature_words};
use crate::fault::Fault;
use crate::kernels::{CounterRoom, SetSigner};
use crate::memory::Budget;
use crate::nearest::{self, NearestOnDevice, OnHost, Ranked, Searching};
use crate::replicate::{Copying, Replicate};
use similarity_engine::accelerator::DynDeviceNearest;
use similarity_engine::nearest::Best;
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
) -> Result<Option<Box<DynDeviceNearest>>, Fault> {
    let index = SetsOnDevice::try_new(budget, (tokenizer, measure), keys, (ranks, CounterRoom::DEFAULT), context)?;
    index.map(erased).transpose()
}

/// The index as drivers know it.
fn erased(index: SetsOnDevice) -> Result<Box<DynDeviceNearest>, Fault> {
    Ok(Box::new(Erased(NearestOnDevice::try_new(index)?)))
}

/// What the host knows of a probe side.
#[derive(Debug)]
struct ProbeRows {
    /// Rows that share no token with any build row.
    rows: Vec<u32>,
    /// Groups by row; none where there are no equality keys.
    groups: Option<Vec<u32>>,
    /// Postings of all tokens, where they are counted.
    postings: Option<u64>,
}

impl OnHost for ProbeRows {
    fn rows(&self) -> &[u32] {
        &self.rows
    }
}

impl ProbeRows {
    fn group(&self, row: u32) -> u32 {
        self.groups.as_ref().map_or(0, |groups| groups[row as usize])
    }
}

impl SetsOnDevice {
    fn try_new(
        budget: &Budget,
        (tokenizer, measure): (Tokenizer, SetMeasure),
        keys: &KeyColumn,
        (ranks, room): (&[u32], CounterRoom),
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        let side = BuildSide::try_new(budget, tokenizer, keys, false, context)?;
        let BuildSide { dictionary, columns, frequencies } = side;
        if columns.rows == 0 {
            return Ok(None);
        }
        (context.reserve)(RowsByRank::size(ranks.len()) + size_of_val(ranks))?;
        let words = signature_words(FINENESS * columns.mean_size());
        let signer = SetSigner { ranks: dictionary.len() as u32, words, are_frequent: false };
        let stream = budget.device.stream()?;
        let sets = SortedSets::try_new(budget, &stream, &columns, &signer)?;
        let pays = Pays::of(&context.overrides);
        let is_worth =
            PostingLists::have_room(budget, columns.tokens) && pays.for_sets(columns.rows, &frequencies, signer.words);
        drop((columns, frequencies));
        context.cancel.check()?;
        let posted = (sets.on_device(&stream), signer.ranks);
        let inverted = is_worth.then(|| InvertedIndex::try_new(budget, &stream, posted, (pays, room))).transpose()?;
        let inverted = inverted.flatten();
        let scored = Arc::new(RowsByRank::of(keys, ranks.to_vec()));
        let ranks = nearest::upload_ranks(budget, &stream, ranks)?;
        let (budget, dictionary) = (budget.clone(), Arc::new(dictionary));
        Ok(Some(Self { budget, tokenizer, measure, dictionary, signer, sets, inverted, scored, ranks }))
    }

    /// What finds neighbours, for EXPLAIN ANALYZE.
    fn path(&self) -> String {
        let tiles = describe_tiles(&self.budget, self.signer.words);
        match &self.inverted {
            None => tiles,
            Some(index) if index.is_forced() => format!("inverted index ({})", self.budget.device),
            Some(_) => format!("inverted index or {tiles}"),
        }
    }
}

impl Ranked for SetsOnDevice {
    type Side = SortedSets;
    type OnHost = ProbeRows;

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn own(&self) -> Option<(&SortedSets, &ProbeRows)> {
        None
    }

    fn info(&self) -> IndexInfo {
        IndexInfo {
            path: self.path(),
            bytes: self.dictionary.memory() + self.scored.memory(),
            unmatchable: self.scored.unmatchable(),
            rows_at_once: self.budget.rows_at_once(self.sets.count as usize),
            ..IndexInfo::default()
        }
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Self {
            budget: to.budget.clone(),
            tokenizer: self.tokenizer,
            measure: self.measure,
            dictionary: Arc::clone(&self.dictionary),
            signer: self.signer,
            sets: self.sets.replicate(to)?,
            inverted: self.inverted.replicate(to)?,
            scored: Arc::clone(&self.scored),
            ranks: self.ranks.replicate(to)?,
        })
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<(SortedSets, ProbeRows, usize), Fault> {
        let ranges = tokenise_probe(self.tokenizer, keys, &self.dictionary, context)?;
        let tables: Vec<_> = ranges.iter().map(|_| Ranks::Below(self.signer.ranks)).collect();
        let columns = SetColumns::pack(ranges, &tables, keys.groups.as_deref())?;
        let sets = SortedSets::try_new(&self.budget, &self.budget.device.stream()?, &columns, &self.signer)?;
        let mut has_tokens = vec![false; keys.values.len()];
        columns.row_numbers().for_each(|row| has_tokens[row as usize] = true);
        let mut rows = scored_rows(keys);
        let unmatchable = has_tokens.len() - rows.len();
        rows.retain(|&row| !has_tokens[row as usize]);
        let shape = (self.sets.count, self.signer.words);
        let postings = self.inverted.as_ref().map(|index| index.postings(&self.budget, &sets, shape)).transpose()?;
        let probe = ProbeRows { rows, groups: keys.groups.clone(), postings: postings.flatten() };
        Ok((sets, probe, unmatchable))
    }

    fn search(
        &self,
        stream: &Arc<CudaStream>,
        Searching { side, on_host, order }: Searching<'_, SortedSets, ProbeRows>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let out = (&mut *best, 0);
        let candidates = match self.inverted.as_ref().zip(on_host.postings) {
            Some((index, postings)) => {
                let counted = CountedSets::new(self, index, side, postings, stream);
                nearest::search(&self.budget, stream, &counted, positions, out, cancel)?
            }
            None => {
                let rounds = SetRounds::new(self, side, stream);
                nearest::search(&self.budget, stream, &rounds, positions, out, cancel)?
            }
        };
        for (&position, best) in positions.iter().zip(best).take_while(|_| !cancel.is_cancelled()) {
            self.scored.offer_disjoint(on_host.group(order[position as usize]), best);
        }
        Ok(candidates)
    }

    fn search_on_host(&self, probe: &ProbeRows, at: usize, best: &mut Best<i64>, _: &Cancel) -> usize {
        self.scored.offer_disjoint(probe.group(probe.rows[at]), best);
        0
    }
}
