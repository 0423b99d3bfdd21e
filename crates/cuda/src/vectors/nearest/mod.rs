//! Nearest joins of vectors on a device.
//!
//! The rows of both sides are arranged as for an epsilon join. What is asked of the filter is another distance for each
//! row: that of the worst of its neighbours so far (`rounds`). The measure's own arithmetic scores what the filter lets
//! pass, in double precision, in the order of the elements, on the device. Rows of a probe batch that no filter tells
//! apart are scored on the host (`ranking`). A build side that the device has no memory for is searched part by part
//! (`out_of_core`), whatever part is there first (`shared_slot`).

mod out_of_core;
mod ranking;
mod rounds;
mod shared_slot;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::error::Result;

use self::out_of_core::OutOfCoreIndex;
use self::ranking::{NUMBERS_AT_ONCE, Part, Ranking};
pub use self::rounds::FEW_DIMENSIONS;
use super::sorted::SortedPoints;
use crate::fault::Fault;
use crate::memory::Budget;
use crate::nearest::{NearestOnDevice, OnHost, Ranked, Searching};
use crate::replicate::{Copying, Replicate};
use similarity_engine::accelerator::DynDeviceNearest;
use similarity_engine::nearest::{Best, Wanted};
use similarity_engine::vectors::points::Points;
use similarity_engine::{BuildContext, Cancel, Erased, IndexInfo, KeyColumn, PrepareContext};
use similarity_measures::VectorMeasure;

/// Makes the vectors of `keys`, each row with a rank, ready for being ranked on the device, all at once or part by
/// part; none for what there are no kernels for.
///
/// # Errors
/// Errors of [`Ranking::try_new`].
pub(crate) fn build_nearest(
    budget: &Budget,
    measure: VectorMeasure,
    keys: &KeyColumn,
    ranking: (&[u32], Wanted),
    context: &BuildContext<'_>,
) -> Result<Option<Box<DynDeviceNearest>>, Fault> {
    let Some(ranking) = Ranking::try_new(budget, measure, keys, ranking, context)?.map(Arc::new) else {
        return Ok(None);
    };
    match VectorsOnDevice::try_new(&ranking) {
        Err(Fault::Memory) => Ok(Some(Box::new(Erased(OutOfCoreIndex::try_new(&ranking, context)?)))),
        index => Ok(Some(Box::new(Erased(index?)))),
    }
}

/// A build side's vectors on a device, ready for being ranked by one measure.
type NearestVectors = NearestOnDevice<VectorsOnDevice>;

/// The vectors of a build side.
#[derive(Debug)]
struct VectorsOnDevice {
    ranking: Arc<Ranking>,
    all: Part,
}

impl OnHost for Points {
    fn rows(&self) -> &[u32] {
        &self.unfilterable.rows
    }
}

impl VectorsOnDevice {
    /// Brings all rows to the device.
    ///
    /// # Errors
    /// Too little memory there, a device that fails.
    fn try_new(ranking: &Arc<Ranking>) -> Result<NearestVectors, Fault> {
        let all = ranking.bring(&ranking.budget.device.stream()?, &ranking.host, 0)?;
        NearestOnDevice::try_new(Self { ranking: Arc::clone(ranking), all })
    }
}

impl Ranked for VectorsOnDevice {
    type Side = SortedPoints;
    type OnHost = Points;

    fn budget(&self) -> &Budget {
        &self.ranking.budget
    }

    fn own(&self) -> Option<(&SortedPoints, &Points)> {
        Some((&self.all.vectors, &self.ranking.host))
    }

    fn info(&self) -> IndexInfo {
        let Ranking { budget, host, .. } = self.ranking.as_ref();
        let rows_at_once = budget.rows_at_once(host.filterable.len());
        IndexInfo {
            path: self.ranking.describe(),
            bytes: self.ranking.memory(),
            unmatchable: host.unmatchable,
            rows_at_once: rows_at_once.min(NUMBERS_AT_ONCE / host.dimension).max(1),
            ..IndexInfo::default()
        }
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Self { ranking: self.ranking.replicate(to)?, all: self.all.replicate(to)? })
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<(SortedPoints, Points, usize), Fault> {
        let points = self.ranking.probe_points(keys, context)?;
        let vectors = self.ranking.arrange(&self.ranking.budget.device.stream()?, &points)?;
        let unmatchable = points.unmatchable;
        Ok((vectors, points, unmatchable))
    }

    fn search(
        &self,
        stream: &Arc<CudaStream>,
        probe: Searching<'_, SortedPoints, Points>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        self.ranking.search(stream, (probe.side, &self.all), positions, best, cancel)
    }

    fn search_on_host(&self, points: &Points, at: usize, best: &mut Best<i64>, cancel: &Cancel) -> usize {
        self.ranking.score_unfilterable(points, at, best, cancel)
    }
}
