//! Nearest joins of vectors on a device.
//!
//! The rows of both sides are arranged as for an epsilon join. What is asked of the filter is another distance for each row:
//! that of the worst of its neighbours so far (`search`). The measure's own arithmetic scores what the filter lets pass, in
//! double precision, in the order of the elements, on the device. Rows of a probe batch that no filter tells apart are scored
//! on the host.

mod search;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::physical_plan::metrics::MetricValue;

pub use self::search::FEW_DIMENSIONS;
use self::search::{MOST_WANTED, SEARCHES, Search, Sought, positions_at_once};
use super::arranged::Arranged;
use super::columns::Framing;
use super::test::{halves_scale, vector_test};
use crate::engine::cuda::blocks::Side as _;
use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::VectorTest;
use crate::engine::cuda::memory::{Budget, Buffer};
use crate::engine::cuda::pool::Pool;
use crate::engine::cuda::tasks::BLOCK;
use crate::engine::cuda::vectors::ROWS_UNCHECKED;
use crate::engine::nearest::{Best, NearestIndex, Neighbour, Wanted, float_key, prepared};
use crate::engine::vectors::frame::Frame;
use crate::engine::vectors::points::Points;
use crate::engine::vectors::reach::{Reach, Sum};
use crate::engine::{BuildContext, Cancel, Counts, KeyColumn, PrepareContext, PreparedProbe};
use crate::measure::VectorMeasure;
use crate::predicate;

/// Numbers of probe rows that are made ready at once.
const NUMBERS_AT_ONCE: usize = 1 << 26;

/// Stretches of a self-join at least, so that rows of one come out while another one is searched.
const STRETCHES: usize = 4;

/// Whether so many rows are ranked by a measure on a device: not with all that tie.
pub(in crate::engine::cuda) fn ranks_by(measure: VectorMeasure, wanted: Wanted) -> bool {
    use VectorMeasure::{Cosine, L1, L2, Linf};
    matches!(measure, L1 | L2 | Linf | Cosine) && !wanted.ties && wanted.rows <= MOST_WANTED
}

/// A build side's vectors on a device, ready for being ranked by one measure.
#[derive(Debug)]
pub(in crate::engine::cuda) struct NearestVectors {
    budget: Budget,
    measure: VectorMeasure,
    test: VectorTest,
    in_halves: bool,
    framing: Framing,
    side: Side,
    /// What decides between equal scores, by row, on the device and on the host; none where all have the same.
    ranks: Option<(Buffer<u32>, Vec<u32>)>,
    /// The rows on the host, for those of a batch that no filter tells apart.
    host: Points,
    /// Queues of those that search at the same time.
    queues: Pool<Arc<CudaStream>>,
    rows_at_once: usize,
}

/// The vectors of one side on the device.
#[derive(Debug)]
struct Side {
    vectors: Arranged,
    /// The row at each position, then the rows on the host.
    order: Vec<u32>,
    loose: Option<Points>,
    unmatchable: usize,
}

impl Side {
    fn try_new(budget: &Budget, vectors: Arranged, points: &Points) -> Result<Self, Fault> {
        let mut order = vectors.rows(budget, 0..vectors.count as usize)?;
        order.extend_from_slice(&points.loose.rows);
        Ok(Self { vectors, order, loose: None, unmatchable: points.unmatchable })
    }
}

impl NearestVectors {
    /// Brings the vectors of `keys`, each row with a rank, to the device; none for what there are no kernels for: other
    /// measures than those that rank by an index, ties, rows that no filter tells apart, none at all, vectors that single precision
    /// does not tell apart.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build, a device
    /// that fails.
    pub(in crate::engine::cuda) fn try_new(
        budget: &Budget,
        measure: VectorMeasure,
        keys: &KeyColumn,
        (ranks, wanted): (&[u32], Wanted),
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        let sum = match measure {
            _ if !ranks_by(measure, wanted) => return Ok(None),
            VectorMeasure::L1 | VectorMeasure::Linf => Sum::Distance,
            _ => Sum::Squares,
        };
        (context.reserve)(keys.values.get_array_memory_size())?;
        let query = predicate::VectorTest::every_score(measure);
        let points = Points::try_new(&query, keys, None, (context.threads, context.cancel))?;
        if context.cancel.is_cancelled() {
            return Err(exec_datafusion_err!("the build of a vector index was cancelled").into());
        }
        let frame = Frame::of(&points, measure);
        let norm = frame.typical_norm(&points, measure);
        let has_points = points.regular.len() > 0 && points.dimension > 0;
        if !has_points || points.loose.len() > 0 || !points.suit_single_precision(norm) {
            return Ok(None);
        }
        let gap = frame.typical_gap(&points, measure);
        let reach = Reach::of_sum((measure, sum), points.dimension, gap, (norm, norm));
        let Some(test) = vector_test(&query, &reach, points.dimension) else { return Ok(None) };
        let halves = halves_scale(&test, frame.typical_largest(&points), norm);
        let halves = halves.filter(|_| sum == Sum::Squares && budget.device.has_tensor_cores());
        let test = VectorTest { scale: halves.unwrap_or(1.0), ..test };
        let stream = budget.device.stream()?;
        let grouped = keys.groups.is_some();
        let framing = Framing::try_new(budget, &stream, &frame, &points, grouped)?;
        let by = (&test, halves.is_some());
        let vectors = Arranged::try_new(budget, &stream, (&points, grouped), &framing, by)?;
        let ranks = match ranks.iter().any(|&rank| rank != ranks[0]) {
            true => Some((budget.upload(&stream, ranks)?, ranks.to_vec())),
            false => None,
        };
        let side = Side::try_new(budget, vectors, &points)?;
        let rows = points.regular.len();
        let index = Self {
            budget: budget.clone(),
            measure,
            test,
            in_halves: halves.is_some(),
            framing,
            side,
            ranks,
            host: points,
            queues: Pool::new(SEARCHES),
            rows_at_once: budget.rows_at_once(rows),
        };
        stream.synchronize()?;
        Ok(Some(index))
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Side, Fault> {
        let query = predicate::VectorTest::every_score(self.measure);
        let by = (context.threads, context.cancel);
        let points = Points::try_new(&query, keys, Some(self.host.dimension), by)?;
        context.check()?;
        let stream = self.budget.device.stream()?;
        let by = (&self.test, self.in_halves);
        let vectors = Arranged::try_new(&self.budget, &stream, (&points, keys.groups.is_some()), &self.framing, by)?;
        let side = Side::try_new(&self.budget, vectors, &points)?;
        Ok(Side { loose: (points.loose.len() > 0).then_some(points), ..side })
    }

    fn side<'a>(&'a self, probe: Option<&'a dyn PreparedProbe>) -> Result<&'a Side> {
        match probe {
            None => Ok(&self.side),
            Some(_) => prepared::<Side>(probe),
        }
    }

    /// A score as an integer, less being better.
    fn key(&self, score: f64) -> i64 {
        if self.measure.is_distance() { float_key(score) } else { !float_key(score) }
    }

    /// Offers each of `best` the neighbours of its position, all of which are on the device.
    fn search(&self, probe: &Side, positions: &[u32], best: &mut [Best<i64>], cancel: &Cancel) -> Result<usize, Fault> {
        let (Some(&first), Some(&last), Some(some)) = (positions.first(), positions.last(), best.first()) else {
            return Ok(0);
        };
        let (range, wanted) = (first / BLOCK * BLOCK..last + 1, some.wanted().rows);
        let wider = Reach::wider::<f32>(self.host.dimension);
        let sought = Sought {
            probe: &probe.vectors,
            build: &self.side.vectors,
            test: self.test,
            ranks: self.ranks.as_ref().map(|(ranks, _)| ranks),
            descending: !self.measure.is_distance(),
            rounding: (wider.0 as f32 * (1.0 + f32::EPSILON), wider.1 as f32 * (1.0 + f32::EPSILON)),
        };
        let new = || self.budget.device.stream();
        let found = self.queues.with(new, |stream| {
            let search = Search::try_new(&self.budget, stream, sought, (range.clone(), positions), wanted);
            search.and_then(|search| search.run(cancel)).inspect_err(|_| {
                // what was launched reads columns of others
                let _ = stream.synchronize();
            })
        })?;
        let Some(found) = found else { return Ok(0) };
        for (&position, best) in positions.iter().zip(best) {
            best.offer_ranked(found.of((position - range.start) as usize));
        }
        Ok(found.candidates)
    }

    /// Offers the neighbours of a row of a probe batch that is not on the device.
    fn score_all(&self, probe: &Points, at: usize, best: &mut Best<i64>, cancel: &Cancel) -> usize {
        let (row, group) = (probe.loose.rows[at], probe.loose.groups[at]);
        let vector = probe.vectors.given(row as usize);
        let mut compared = 0;
        for (at, &row) in self.host.regular.rows.iter().enumerate() {
            if at % ROWS_UNCHECKED == 0 && cancel.is_cancelled() {
                break;
            }
            if self.host.regular.groups[at] != group {
                continue;
            }
            compared += 1;
            if let Some(score) = self.measure.score(self.host.regular(at), vector) {
                let rank = self.ranks.as_ref().map_or(0, |(_, ranks)| ranks[row as usize]);
                best.offer(Neighbour { score: self.key(score), rank, row });
            }
        }
        compared
    }
}

impl NearestIndex for NearestVectors {
    fn describe(&self) -> String {
        let filter = if self.in_halves { "half precision on tensor cores" } else { "single precision" };
        let (device, dimension) = (&self.budget.device, self.test.dimension);
        format!("blocks along a curve over {dimension} dimensions ({device}, {filter})")
    }

    fn memory(&self) -> usize {
        let ranks = self.ranks.as_ref().map_or(0, |(_, ranks)| ranks.capacity());
        let rows = self.host.regular.memory() + self.host.vectors.memory();
        rows + (ranks + self.side.order.capacity()) * size_of::<u32>()
    }

    fn unmatchable(&self) -> usize {
        self.side.unmatchable
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.budget.metrics.values()
    }

    fn rows_at_once(&self) -> usize {
        self.rows_at_once.min(NUMBERS_AT_ONCE / self.host.dimension).max(1)
    }

    fn positions_at_once(&self, _: Option<&dyn PreparedProbe>, wanted: usize) -> usize {
        positions_at_once(&self.budget, wanted)
    }

    fn own_stretch(&self, start: usize, rows: usize, wanted: usize) -> usize {
        let stretch =
            positions_at_once(&self.budget, wanted).min(rows.div_ceil(STRETCHES)).next_multiple_of(BLOCK as usize);
        rows.min(start + stretch)
    }

    fn is_shared(&self, _: Option<&dyn PreparedProbe>) -> bool {
        // one search is better than several small ones
        false
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>> {
        Ok(Box::new(self.prepare(keys, context)?))
    }

    fn order<'a>(&'a self, probe: Option<&'a dyn PreparedProbe>) -> Result<&'a [u32]> {
        Ok(&self.side(probe)?.order)
    }

    fn nearest(
        &self,
        probe: Option<&dyn PreparedProbe>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let side = self.side(probe)?;
        let mut counts = Counts::default();
        let Some(wanted) = best.first().map(Best::wanted) else { return Ok(counts) };
        if !ranks_by(self.measure, wanted) {
            // no room for so many
            return Err(Fault::Memory.into());
        }
        let at_once = positions_at_once(&self.budget, wanted.rows) as u32;
        let on_device = positions.partition_point(|&position| position < side.vectors.count);
        let mut done = 0;
        while done < on_device && !cancel.is_cancelled() {
            let end = positions[done] / BLOCK * BLOCK + at_once;
            let some = done + positions[done..on_device].partition_point(|&position| position < end);
            counts.candidates += self.search(side, &positions[done..some], &mut best[done..some], cancel)?;
            done = some;
        }
        for (&position, best) in positions.iter().zip(best).skip(on_device) {
            if cancel.is_cancelled() {
                break;
            }
            let Some(points) = &side.loose else { return internal_err!("a position is beyond a probe batch") };
            counts.candidates += self.score_all(points, (position - side.vectors.count) as usize, best, cancel);
        }
        counts.verified = counts.candidates;
        Ok(counts)
    }
}

impl PreparedProbe for Side {
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
