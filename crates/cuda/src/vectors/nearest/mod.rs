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

use std::any::Any;
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
use similarity_engine::nearest::{Best, NearestIndex, Wanted, prepared};
use similarity_engine::vectors::points::Points;
use similarity_engine::{BuildContext, Cancel, Counts, KeyColumn, PrepareContext, PreparedProbe};
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
) -> Result<Option<Box<dyn NearestIndex>>, Fault> {
    let Some(ranking) = Ranking::try_new(budget, measure, keys, ranking, context)?.map(Arc::new) else {
        return Ok(None);
    };
    match NearestVectors::try_new(&ranking) {
        Err(Fault::Memory) => Ok(Some(Box::new(OutOfCoreIndex::try_new(&ranking, context)?))),
        index => Ok(Some(Box::new(index?))),
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
    rows_at_once: usize,
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
        Ok(Self {
            order: all.vectors.rows(budget, 0..all.vectors.count as usize)?,
            all,
            queues: ObjectPool::new(SEARCHES),
            rows_at_once: budget.rows_at_once(ranking.host.filterable.len()),
            ranking: Arc::clone(ranking),
        })
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Batch, Fault> {
        let (ranking, points) = (&self.ranking, self.ranking.probe_points(keys, context)?);
        let vectors = ranking.arrange(&ranking.budget.device.stream()?, &points)?;
        let mut order = vectors.rows(&ranking.budget, 0..vectors.count as usize)?;
        order.extend_from_slice(&points.unfilterable.rows);
        let unmatchable = points.unmatchable;
        Ok(Batch { vectors, order, unfilterable: (!points.unfilterable.is_empty()).then_some(points), unmatchable })
    }
}

impl NearestIndex for NearestVectors {
    fn describe(&self) -> String {
        self.ranking.describe()
    }

    fn memory(&self) -> usize {
        self.ranking.memory() + self.order.capacity() * size_of::<u32>()
    }

    fn unmatchable(&self) -> usize {
        self.ranking.host.unmatchable
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.ranking.budget.metrics.values()
    }

    fn rows_at_once(&self) -> usize {
        self.rows_at_once.min(NUMBERS_AT_ONCE / self.ranking.host.dimension).max(1)
    }

    fn positions_at_once(&self, _: Option<&dyn PreparedProbe>, wanted: usize) -> usize {
        positions_at_once(&self.ranking.budget, wanted)
    }

    fn self_join_stretch(&self, start: usize, rows: usize, wanted: usize) -> usize {
        let most = positions_at_once(&self.ranking.budget, wanted);
        rows.min(start + most.min(rows.div_ceil(STRETCHES)).next_multiple_of(BLOCK as usize))
    }

    fn is_shared(&self, _: Option<&dyn PreparedProbe>) -> bool {
        // one search is better than several small ones
        false
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>> {
        Ok(Box::new(self.prepare(keys, context)?))
    }

    fn order<'a>(&'a self, probe: Option<&'a dyn PreparedProbe>) -> Result<&'a [u32]> {
        match probe {
            None => Ok(&self.order),
            Some(_) => Ok(&prepared::<Batch>(probe)?.order),
        }
    }

    fn nearest(
        &self,
        probe: Option<&dyn PreparedProbe>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let (ranking, batch) = (&self.ranking, probe.map(|_| prepared::<Batch>(probe)).transpose()?);
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

impl PreparedProbe for Batch {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
