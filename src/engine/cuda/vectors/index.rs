//! The vectors of a build side on a device, and the probe batches that it makes ready.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::physical_plan::metrics::MetricValue;

use super::ROWS_UNCHECKED;
use super::arranged::Arranged;
use super::columns::Framing;
use super::near::{Near, ROWS_OF_TASK};
use super::test::{halves_scale, vector_test};
use crate::engine::cuda::DeviceIndex;
use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::{Appended, Task, VectorSides, VectorTest};
use crate::engine::cuda::memory::{Budget, Buffer};
use crate::engine::cuda::steps::{Cut, Steps};
use crate::engine::cuda::worker::{Capacity, Comparison, WORKERS, Workers};
use crate::engine::vectors::decision::Decision;
use crate::engine::vectors::frame::Frame;
use crate::engine::vectors::points::Points;
use crate::engine::vectors::reach::Reach;
use crate::engine::{
    BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PrepareContext, PreparedProbe, Probe,
};
use crate::measure::VectorMeasure;
use crate::predicate;

/// Numbers of probe rows that are made ready at once.
const NUMBERS_AT_ONCE: usize = 1 << 26;

/// A build side's vectors on a device, ready for probing with one predicate.
#[derive(Debug)]
pub(in crate::engine::cuda) struct VectorIndex {
    budget: Budget,
    query: predicate::VectorTest,
    decision: Decision,
    test: VectorTest,
    framing: Framing,
    in_halves: bool,
    vectors: Arranged,
    unmatchable: usize,
    /// Where other inputs probe it: the rows on the host, for those of a batch that no filter tells apart.
    host: Option<Points>,
    /// Of a self-join.
    own: Option<Near>,
    steps: Steps,
    rows_at_once: usize,
}

/// The vectors of a probe batch on the device.
struct PreparedVectors {
    vectors: Arranged,
    near: Near,
    /// The rows on the host, where some are loose.
    host: Option<Points>,
    unmatchable: usize,
    undecided: bool,
}

/// Rows of a side that are compared with all of the other on the host.
fn loose_rows(points: &Option<Points>) -> usize {
    points.as_ref().map_or(0, |points| points.loose.len())
}

impl VectorIndex {
    /// Brings the vectors of `keys` to the device; none for a condition, or for vectors, that there are no kernels for.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build, a device
    /// that fails.
    pub(in crate::engine::cuda) fn try_new(
        budget: &Budget,
        query: predicate::VectorTest,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        // sums that overflow are DataFusion's to decide
        let stock = matches!(query.measure, VectorMeasure::CosineDistance | VectorMeasure::InnerProduct);
        if stock && query.undecided_from.is_none() {
            return Ok(None);
        }
        (context.reserve)(keys.values.get_array_memory_size())?;
        let points = Points::try_new(&query, keys, None, (context.threads, context.cancel))?;
        if context.cancel.is_cancelled() {
            return Err(exec_datafusion_err!("the build of a vector index was cancelled").into());
        }
        let Some(reach) = Reach::of(&query, points.dimension) else { return Ok(None) };
        let Some(test) = vector_test(&query, &reach, points.dimension) else { return Ok(None) };
        if points.dimension == 0 || points.loose.len() > 0 {
            return Ok(None);
        }
        let frame = Frame::of(&points, query.measure);
        let norm = frame.typical_norm(&points, query.measure);
        if !reach.is_coarse(norm) {
            return Ok(None);
        }
        let halves = halves_scale(&test, frame.typical_largest(&points), norm);
        let halves = halves.filter(|_| budget.device.has_tensor_cores());
        let test = VectorTest { scale: halves.unwrap_or(1.0), ..test };
        Self::arrange(budget, query, (test, halves.is_some()), &frame, points, (keys.groups.is_some(), context.own))
            .map(Some)
    }

    fn arrange(
        budget: &Budget,
        query: predicate::VectorTest,
        (test, in_halves): (VectorTest, bool),
        frame: &Frame,
        points: Points,
        (grouped, own): (bool, bool),
    ) -> Result<Self, Fault> {
        let stream = budget.device.stream()?;
        let framing = Framing::try_new(budget, &stream, frame, &points, grouped)?;
        let vectors = Arranged::try_new(budget, &stream, (&points, grouped), &framing, (&test, in_halves))?;
        let workers = Workers::try_new(budget, Capacity::of(budget, ROWS_OF_TASK, WORKERS))?;
        let rows = points.regular.len();
        let mut index = Self {
            budget: budget.clone(),
            query,
            decision: Decision::new(query),
            test,
            framing,
            in_halves,
            vectors,
            unmatchable: points.unmatchable,
            host: (!own).then_some(points),
            own: None,
            steps: Steps::new(workers),
            rows_at_once: budget.rows_at_once(rows),
        };
        if own {
            index.own = Some(index.near(&stream, None)?);
        }
        Ok(index)
    }

    /// Which build blocks are near each block of `probe`, or of the build side itself.
    fn near(&self, stream: &Arc<CudaStream>, probe: Option<&Arranged>) -> Result<Near, Fault> {
        let blocks = probe.unwrap_or(&self.vectors).blocks();
        let buffer = || self.budget.buffer(stream, blocks as usize);
        let (mut firsts, mut ends, mut counts) = (buffer()?, buffer()?, buffer()?);
        let mut near = Near::of(blocks, self.test.dimension);
        if blocks > 0 && self.vectors.count > 0 {
            let sides = self.sides(stream, probe);
            self.budget.device.vectors()?.reach(stream, &sides, blocks, (&mut firsts, &mut ends, &mut counts))?;
            self.budget.download(stream, &firsts, &mut near.firsts)?;
            self.budget.download(stream, &ends, &mut near.ends)?;
            self.budget.download(stream, &counts, &mut near.counts)?;
            stream.synchronize()?;
        }
        Ok(near)
    }

    fn sides(&self, stream: &CudaStream, probe: Option<&Arranged>) -> VectorSides {
        VectorSides {
            probe: probe.unwrap_or(&self.vectors).on_device(stream),
            build: self.vectors.on_device(stream),
            test: self.test,
            own: probe.is_none(),
        }
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<PreparedVectors, Fault> {
        let dimension = self.test.dimension as usize;
        let points = Points::try_new(&self.query, keys, Some(dimension), (context.threads, context.cancel))?;
        context.check()?;
        let stream = self.budget.device.stream()?;
        let by = (&self.test, self.in_halves);
        let vectors = Arranged::try_new(&self.budget, &stream, (&points, keys.groups.is_some()), &self.framing, by)?;
        let near = self.near(&stream, Some(&vectors))?;
        let decides = |row: &u32| self.query.decides(points.vectors.given(*row as usize));
        Ok(PreparedVectors {
            vectors,
            near,
            unmatchable: points.unmatchable,
            undecided: !points.loose.rows.iter().all(decides),
            host: (points.loose.len() > 0).then_some(points),
        })
    }

    /// Compares some of the probe positions from `cursor` on.
    fn compare(
        &self,
        (probe, near): (Option<&Arranged>, &Near),
        cursor: &mut Cursor,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts, Fault> {
        let comparison = |stream: &CudaStream, range| {
            let sides = self.sides(stream, probe);
            VectorComparison { budget: &self.budget, sides, range }
        };
        self.steps.step((near, probe.unwrap_or(&self.vectors).count), cursor, comparison, cancel, out)
    }

    /// The pairs of a loose row of a probe batch with all rows of the build side, on the host.
    fn compare_loose(&self, probe: &Points, at: usize, cancel: &Cancel, out: &mut Pairs) -> Counts {
        let Some(build) = &self.host else { return Counts::default() };
        let (row, group) = (probe.loose.rows[at], probe.loose.groups[at]);
        let (vector, before) = (probe.vectors.given(row as usize), out.len());
        let mut counts = Counts::default();
        for (at, &other) in build.regular.rows.iter().enumerate() {
            if at % ROWS_UNCHECKED == 0 && cancel.is_cancelled() {
                break;
            }
            if build.regular.groups[at] == group {
                counts.candidates += 1;
                if self.decision.may_hold(build.regular(at), vector) {
                    out.push(other, row);
                }
            }
        }
        counts.verified = counts.candidates;
        counts.matched = out.len() - before;
        counts
    }
}

/// Two sides and the probe positions that count.
struct VectorComparison<'a> {
    budget: &'a Budget,
    sides: VectorSides,
    range: (u32, u32),
}

impl Comparison for VectorComparison<'_> {
    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        (tasks, listed): (&Buffer<Task>, &[Task]),
        candidates: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        self.budget.device.vectors()?.filter(stream, &self.sides, (tasks, listed.len() as u32), self.range, candidates)
    }

    fn verify(
        &self,
        stream: &Arc<CudaStream>,
        candidates: &Appended<'_>,
        pairs: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        self.budget.device.vectors()?.verify(stream, &self.sides, candidates, pairs)
    }
}

impl Index for VectorIndex {
    fn describe(&self) -> String {
        let filter = if self.in_halves { "half precision on tensor cores" } else { "single precision" };
        let (device, dimension) = (&self.budget.device, self.test.dimension);
        format!("blocks along a curve over {dimension} dimensions ({device}, {filter})")
    }

    fn memory(&self) -> usize {
        let rows = |points: &Points| points.regular.memory() + points.vectors.memory();
        self.host.as_ref().map_or(0, rows) + self.own.as_ref().map_or(0, Near::memory)
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.budget.metrics.values()
    }

    fn own_len(&self) -> usize {
        self.vectors.count as usize
    }

    fn own_stretch(&self, start: usize) -> usize {
        self.own.as_ref().map_or(self.own_len(), |near| near.part(start as u32, self.vectors.count) as usize)
    }

    fn rows_at_once(&self) -> usize {
        self.rows_at_once.min(NUMBERS_AT_ONCE / self.test.dimension.max(1) as usize).max(1)
    }

    fn is_shared(&self, _: Option<&dyn PreparedProbe>) -> bool {
        // one launch is better than several small ones
        false
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>> {
        if self.own.is_some() {
            return internal_err!("a vector index was built for a self-join and given another input");
        }
        Ok(Box::new(self.prepare(keys, context)?))
    }

    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        _limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let (side, host) = match (probe, &self.own) {
            (Probe::Own, Some(near)) => ((None, near), None),
            (Probe::Batch(batch), None) => {
                let prepared: &PreparedVectors = batch.of()?;
                ((Some(&prepared.vectors), &prepared.near), prepared.host.as_ref())
            }
            _ => return internal_err!("a vector index was built for the other kind of probe"),
        };
        let regular = side.0.unwrap_or(&self.vectors).count;
        match host.filter(|_| !cursor.is_done() && cursor.next >= regular as usize) {
            Some(points) => {
                let counts = self.compare_loose(points, cursor.next - regular as usize, cancel, out);
                cursor.next += 1;
                Ok(counts)
            }
            None if cursor.is_done() => Ok(Counts::default()),
            None => Ok(self.compare(side, cursor, cancel, out)?),
        }
    }
}

impl DeviceIndex for VectorIndex {
    fn rows(&self, probe: Probe<'_>, positions: Range<usize>) -> Result<Vec<u32>> {
        let side = match probe {
            Probe::Own => &self.vectors,
            Probe::Batch(batch) => &batch.of::<PreparedVectors>()?.vectors,
        };
        let positions = positions.start..positions.end.min(side.count as usize);
        Ok(side.rows(&self.budget, positions)?)
    }
}

impl PreparedProbe for PreparedVectors {
    fn len(&self) -> usize {
        self.vectors.count as usize + loose_rows(&self.host)
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn is_undecided(&self) -> bool {
        self.undecided
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
