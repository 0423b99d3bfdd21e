//! Nearest joins of vectors on a device.
//!
//! The rows of both sides are arranged as for an epsilon join. What is asked of the filter is another distance for each
//! row: that of the worst of its neighbours so far (`search`). The measure's own arithmetic scores what the filter lets
//! pass, in double precision, in the order of the elements, on the device. Rows of a probe batch that no filter tells
//! apart are scored on the host (`ranking`). A build side that the device has no memory for is searched part by part
//! (`out_of_core`), whatever part is there first (`shared_slot`).

mod out_of_core;
mod ranking;
mod search;
mod shared_slot;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::error::{Result, internal_err};
use similarity_engine::metrics::MetricValue;

use self::out_of_core::OutOfCoreIndex;
pub use self::ranking::ranks_by;
use self::ranking::{NUMBERS_AT_ONCE, Part, Ranking};
pub use self::search::FEW_DIMENSIONS;
use self::search::{SEARCHES, positions_at_once};
use super::sorted::SortedPoints;
use crate::fault::Fault;
use crate::kernels::BLOCK;
use crate::memory::Budget;
use crate::object_pool::ObjectPool;
use crate::tiled_index::Side as _;
use similarity_engine::nearest::{Best, DynNearestIndex, NearestIndex, Wanted};
use similarity_engine::vectors::points::Points;
use similarity_engine::{
    BuildContext, Cancel, Counts, Erased, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe,
};
use similarity_measures::VectorMeasure;

/// Stretches of a self-join at least, so that rows of one come out while another one is searched.
const STRETCHES: usize = 4;

/// Makes the vectors of `keys`, each row with a rank, ready for being ranked on the device, all at once or part by
/// part; none for what there are no kernels for.
///
/// # Errors
/// As [`Ranking::try_new`].
pub(crate) fn build_nearest(
    budget: &Budget,
    measure: VectorMeasure,
    keys: &KeyColumn,
    ranking: (&[u32], Wanted),
    context: &BuildContext<'_>,
) -> Result<Option<Box<DynNearestIndex>>, Fault> {
    let Some(ranking) = Ranking::try_new(budget, measure, keys, ranking, context)?.map(Arc::new) else {
        return Ok(None);
    };
    match NearestVectors::try_new(&ranking) {
        Err(Fault::Memory) => Ok(Some(Box::new(Erased(OutOfCoreIndex::try_new(&ranking, context)?)))),
        index => Ok(Some(Box::new(Erased(index?)))),
    }
}

/// A build side's vectors on a device, ready for being ranked by one measure.
#[derive(Debug)]
struct NearestVectors {
    ranking: Arc<Ranking>,
    all: Part,
    /// The row at each position.
    order: Vec<u32>,
    /// Queues of those that search at the same time.
    queues: ObjectPool<Arc<CudaStream>>,
    info: IndexInfo,
}

/// The vectors of a probe batch on the device.
#[derive(Debug)]
struct Batch {
    vectors: SortedPoints,
    /// The row at each position, then the rows on the host.
    order: Vec<u32>,
    unfilterable: Option<Points>,
    unmatchable: usize,
}

impl NearestVectors {
    /// Brings all rows to the device.
    ///
    /// # Errors
    /// Too little memory there, a device that fails.
    fn try_new(ranking: &Arc<Ranking>) -> Result<Self, Fault> {
        let budget = &ranking.budget;
        let all = ranking.bring(&budget.device.stream()?, &ranking.host, 0)?;
        let order = all.vectors.rows(budget, 0..all.vectors.count as usize)?;
        let rows_at_once = budget.rows_at_once(ranking.host.filterable.len());
        let info = IndexInfo {
            path: ranking.describe(),
            bytes: ranking.memory() + order.capacity() * size_of::<u32>(),
            unmatchable: ranking.host.unmatchable,
            undecided: false,
            self_join_len: order.len(),
            rows_at_once: rows_at_once.min(NUMBERS_AT_ONCE / ranking.host.dimension).max(1),
            // one search is better than several small ones
            shared: false,
        };
        Ok(Self { ranking: Arc::clone(ranking), all, order, queues: ObjectPool::new(SEARCHES), info })
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Batch, Fault> {
        let (ranking, points) = (&self.ranking, self.ranking.probe_points(keys, context)?);
        let vectors = ranking.arrange(&ranking.budget.device.stream()?, &points)?;
        let mut order = vectors.rows(&ranking.budget, 0..vectors.count as usize)?;
        order.extend_from_slice(&points.unfilterable.rows);
        let unmatchable = points.unmatchable;
        Ok(Batch { vectors, order, unfilterable: (!points.unfilterable.is_empty()).then_some(points), unmatchable })
    }
}

impl Index for NearestVectors {
    type Batch = Batch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.ranking.budget.metrics.values()
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Batch>> {
        let batch = self.bring(keys, context)?;
        let (len, unmatchable) = (batch.order.len(), batch.unmatchable);
        Ok(Prepared { shared: false, ..Prepared::new(batch, len, unmatchable) })
    }
}

impl NearestIndex for NearestVectors {
    fn positions_at_once(&self, _: Probe<'_, Batch>, wanted: usize) -> Result<usize> {
        Ok(positions_at_once(&self.ranking.budget, wanted))
    }

    fn self_join_stretch(&self, start: usize, wanted: usize) -> usize {
        let (rows, most) = (self.order.len(), positions_at_once(&self.ranking.budget, wanted));
        rows.min(start + most.min(rows.div_ceil(STRETCHES)).next_multiple_of(BLOCK as usize))
    }

    fn order<'a>(&'a self, probe: Probe<'a, Batch>) -> Result<&'a [u32]> {
        match probe {
            Probe::SelfJoin => Ok(&self.order),
            Probe::Batch(batch) => Ok(&batch.order),
        }
    }

    fn nearest(
        &self,
        probe: Probe<'_, Batch>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let ranking = &self.ranking;
        let batch = match probe {
            Probe::SelfJoin => None,
            Probe::Batch(batch) => Some(batch),
        };
        let vectors = batch.map_or(&self.all.vectors, |batch| &batch.vectors);
        let mut counts = Counts::default();
        let Some(wanted) = best.first().map(Best::wanted) else { return Ok(counts) };
        if !ranks_by(ranking.measure, wanted) {
            // no room for so many
            return Err(Fault::Memory.into());
        }
        let on_device = positions.partition_point(|&position| position < vectors.count);
        let (positions, others) = positions.split_at(on_device);
        let (best, best_of_others) = best.split_at_mut(on_device);
        if !positions.is_empty() {
            let new = || ranking.budget.device.stream();
            let sides = (vectors, &self.all);
            counts.candidates +=
                self.queues.with(new, |stream| ranking.search(stream, sides, positions, best, cancel))?;
        }
        if !others.is_empty() {
            let Some(points) = batch.and_then(|batch| batch.unfilterable.as_ref()) else {
                return internal_err!("a position is beyond a probe batch");
            };
            let places = others.iter().map(|&position| (position - vectors.count) as usize);
            counts.candidates += ranking.score_unfilterable(points, places, best_of_others, cancel);
        }
        counts.verified = counts.candidates;
        Ok(counts)
    }
}
