//! Rankings of strings on a device.
//!
//! Both sides are arranged as for a join with a bound on the score. The filter takes the bound of each row from the
//! worst neighbour that it keeps (`rounds`). Probe strings that are too long for the device are ranked on the host
//! (`on_host`). A build side that has any is the CPU's.

mod kept;
mod on_host;
mod rounds;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::Array;
use cudarc::driver::CudaStream;

use self::kept::StringsOnDevice;
use self::on_host::LongStrings;
use self::rounds::StringRounds;
use super::build_side::{Arrangement, BuildSide};
use super::columns::{StringColumns, StringPacking};
use super::condition::{LONGEST, is_only_filtered};
use super::long_strings::StringsOnHost;
use super::sorted::SortedStrings;
use crate::fault::Fault;
use crate::memory::Budget;
use crate::nearest::{self, NearestOnDevice, Ranked, Searching};
use crate::replicate::{Copying, Replicate};
use similarity_engine::accelerator::DynDeviceNearest;
use similarity_engine::nearest::Best;
use similarity_engine::views::string_views;
use similarity_engine::{BuildContext, Cancel, Erased, IndexInfo, KeyColumn, PrepareContext};
use similarity_measures::EditMeasure;

/// Whether there are kernels for a ranking by a measure.
pub(crate) fn ranks_by(measure: EditMeasure) -> bool {
    !is_only_filtered(measure)
}

/// Makes the strings of `keys`, each row with a rank, ready for being ranked on the device; none where some are too
/// long for it, or where there are none.
///
/// # Errors
/// Errors of [`BuildSide::try_new`].
pub(crate) fn build_nearest(
    budget: &Budget,
    measure: EditMeasure,
    keys: &KeyColumn,
    ranks: &[u32],
    context: &BuildContext<'_>,
) -> Result<Option<Box<DynDeviceNearest>>, Fault> {
    let index = StringsOnDevice::try_new(budget, measure, keys, ranks, context)?;
    Ok(index.map(|index| Box::new(Erased(index)) as Box<DynDeviceNearest>))
}

impl StringsOnDevice {
    fn try_new(
        budget: &Budget,
        measure: EditMeasure,
        keys: &KeyColumn,
        ranks: &[u32],
        context: &BuildContext<'_>,
    ) -> Result<Option<NearestOnDevice<Self>>, Fault> {
        let stream = budget.device.stream()?;
        let arrangement = Arrangement { most: LONGEST, by_characters: measure.is_jaro() };
        let side = BuildSide::try_new(budget, &stream, keys, arrangement, context)?;
        let Some(side) = side.filter(|side| side.texts.count > 0) else { return Ok(None) };
        (context.reserve)(2 * size_of_val(ranks))?;
        let ranks_on_device = nearest::upload_ranks(budget, &stream, ranks)?;
        let (ranks, groups, threads) = (Arc::from(ranks), keys.groups.as_deref().map(Arc::from), context.threads);
        let ranked = Self { budget: budget.clone(), measure, side, ranks, ranks_on_device, groups, threads };
        NearestOnDevice::try_new(ranked).map(Some)
    }
}

impl Ranked for StringsOnDevice {
    type Side = SortedStrings;
    type OnHost = LongStrings;

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn own(&self) -> Option<(&SortedStrings, &LongStrings)> {
        None
    }

    fn info(&self) -> IndexInfo {
        let BuildSide { values, alphabet, texts, .. } = &self.side;
        let numbers = self.ranks.len() + self.groups.as_ref().map_or(0, |groups| groups.len());
        IndexInfo {
            path: self.side.describe(&self.budget.device),
            bytes: alphabet.memory() + values.get_array_memory_size() + numbers * size_of::<u32>(),
            unmatchable: texts.unmatchable,
            rows_at_once: self.budget.rows_at_once(texts.count as usize),
            ..IndexInfo::default()
        }
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Self {
            budget: to.budget.clone(),
            measure: self.measure,
            side: self.side.replicate(to)?,
            ranks: Arc::clone(&self.ranks),
            ranks_on_device: self.ranks_on_device.replicate(to)?,
            groups: self.groups.clone(),
            threads: self.threads,
        })
    }

    fn bring(
        &self,
        keys: &KeyColumn,
        context: &PrepareContext<'_>,
    ) -> Result<(SortedStrings, LongStrings, usize), Fault> {
        let values = string_views(&keys.values)?;
        let by = StringPacking { alphabet: &self.side.alphabet, most: LONGEST };
        let columns = StringColumns::pack(&values, keys.groups.as_deref(), by, self.threads)?;
        context.cancel.check()?;
        let texts = SortedStrings::try_new(&self.budget, &self.budget.device.stream()?, &columns, &self.side.signer)?;
        let host = StringsOnHost { values, groups: keys.groups.clone().filter(|_| !columns.long.is_empty()) };
        let unmatchable = texts.unmatchable;
        Ok((texts, LongStrings::new(columns.long, host), unmatchable))
    }

    fn search(
        &self,
        stream: &Arc<CudaStream>,
        probe: Searching<'_, SortedStrings, LongStrings>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let rounds = StringRounds::new(self, probe.side);
        nearest::search(&self.budget, stream, &rounds, positions, (best, 0), cancel)
    }

    fn search_on_host(&self, long: &LongStrings, at: usize, best: &mut Best<i64>, cancel: &Cancel) -> usize {
        on_host::rank(self, long, at, best, cancel)
    }
}
