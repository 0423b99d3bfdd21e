//! Rankings by how many conditions hold, on a device.
//!
//! ```text
//! build_side  --> rows group by group, by rank: a column of places for each condition
//! probe_side  --> what rows accept, and the build positions of their group
//! counting    --> which rows of a block accept a place, a bit each, and what build rows make of these bits
//! ```
//!
//! All rows of a group have a score, so that nothing is left for the host.

mod build_side;
mod counting;
mod probe_side;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use self::build_side::CountedColumns;
use self::counting::Counting;
use self::probe_side::CountingSide;
use crate::fault::Fault;
use crate::kernels::MOST_CONDITIONS;
use crate::memory::Budget;
use crate::nearest::{self, NearestOnDevice, Ranked, Searching};
use crate::replicate::{Copying, Replicate};
use similarity_engine::accelerator::DynDeviceNearest;
use similarity_engine::access_path::AccessPath;
use similarity_engine::match_count::MatchCount;
use similarity_engine::nearest::Best;
use similarity_engine::{BuildContext, Cancel, Erased, IndexInfo, KeyColumn, PrepareContext};

/// Whether there are kernels for so many conditions.
pub(crate) fn ranks_by(count: &MatchCount) -> bool {
    (1..=MOST_CONDITIONS).contains(&count.conditions)
}

/// Makes the rows of `keys`, each with a rank, ready for being ranked on the device by `count`; none where no row has a
/// group.
///
/// # Errors
/// Keys of other conditions, a refused reservation, a cancelled build, a device that fails.
pub(crate) fn build_nearest(
    budget: &Budget,
    count: &MatchCount,
    keys: &KeyColumn,
    ranks: &[u32],
    context: &BuildContext<'_>,
) -> Result<Option<Box<DynDeviceNearest>>, Fault> {
    let columns = CountedColumns::try_new(budget, count, (keys, ranks), context)?;
    let unmatchable = keys.values.len() - columns.count as usize;
    if columns.count == 0 {
        return Ok(None);
    }
    let ranked = RowsByCount { budget: budget.clone(), conditions: count.conditions, columns, unmatchable };
    Ok(Some(Box::new(Erased(NearestOnDevice::try_new(ranked)?))))
}

/// The rows of a build side, ready for being ranked.
#[derive(Debug)]
struct RowsByCount {
    budget: Budget,
    conditions: usize,
    columns: CountedColumns,
    /// Rows without a group.
    unmatchable: usize,
}

impl Ranked for RowsByCount {
    type Side = CountingSide;
    type OnHost = ();

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn own(&self) -> Option<(&CountingSide, &())> {
        None
    }

    fn info(&self) -> IndexInfo {
        let rows = self.columns.count as usize;
        let (path, device) = (AccessPath::ConditionColumns, &self.budget.device);
        IndexInfo {
            path: format!("{path} ({}) over {rows} rows ({device})", self.conditions),
            bytes: self.columns.held(),
            unmatchable: self.unmatchable,
            rows_at_once: self.budget.rows_at_once(rows),
            ..IndexInfo::default()
        }
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Self {
            budget: to.budget.clone(),
            conditions: self.conditions,
            columns: self.columns.replicate(to)?,
            unmatchable: self.unmatchable,
        })
    }

    fn bring(&self, keys: &KeyColumn, _: &PrepareContext<'_>) -> Result<(CountingSide, (), usize), Fault> {
        let side = CountingSide::try_new(&self.budget, &self.columns, keys)?;
        let unmatchable = side.unmatchable;
        Ok((side, (), unmatchable))
    }

    fn search(
        &self,
        stream: &Arc<CudaStream>,
        probe: Searching<'_, CountingSide, ()>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let counting = Counting::new(&self.columns, probe.side, stream);
        nearest::search(&self.budget, stream, &counting, positions, (best, 0), cancel)
    }

    fn search_on_host(&self, (): &(), _: usize, _: &mut Best<i64>, _: &Cancel) -> usize {
        0
    }
}
