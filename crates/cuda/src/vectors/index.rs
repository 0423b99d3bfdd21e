//! The vectors of a build side on a device, and the probe batches that it makes ready.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::Framing;
use super::condition::{PowerSum, ROWS_UNCHECKED, halves_scale, vector_test};
use super::near_blocks::{NearBlocks, ROWS_OF_TASK};
use super::sorted::{PackedPoints, PointSigner, SortedPoints};
use crate::fault::Fault;
use crate::host_verify::keep_matches;
use crate::kernels::{Appended, NearRanges, Positions, TaskList, VectorCondition, VectorSides};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate};
use crate::scheduler::Scheduler;
use crate::tiled_index::{Batch, BatchOf, Build, OnHost, TiledIndex};
use crate::wait::wait;
use crate::worker::{Capacity, Comparison, WORKERS, Workers};
use similarity_engine::condition;
use similarity_engine::vectors::decision::Decision;
use similarity_engine::vectors::frame::Frame;
use similarity_engine::vectors::points::{Points, Vectors};
use similarity_engine::vectors::reach::Reach;
use similarity_engine::{BuildContext, Cancel, Counts, KeyColumn, Pairs, PrepareContext, Prepared};
use similarity_measures::VectorMeasure;

/// Numbers of probe rows that are made ready at once.
const NUMBERS_AT_ONCE: usize = 1 << 26;

/// A build side's vectors on a device, ready for probing with one predicate.
#[derive(Debug)]
pub(crate) struct VectorIndex {
    build: Build<SortedPoints, NearBlocks>,
    query: condition::VectorCondition,
    decision: Decision,
    condition: VectorCondition,
    framing: Framing,
    in_halves: bool,
    /// Where the device only filters: by what.
    powers: Option<PowerSum>,
    /// The rows on the host: where the device only filters, and where other inputs probe it, for those of a batch that
    /// no filter tells apart.
    host: Option<Arc<Points>>,
    /// Threads that decide what the device has filtered.
    threads: usize,
}

/// The rows of a probe batch, where the host compares some.
impl OnHost for Option<Points> {
    fn len(&self) -> usize {
        self.as_ref().map_or(0, |points| points.unfilterable.len())
    }
}

impl VectorIndex {
    /// Brings the vectors of `keys` to the device; none for a condition, or for vectors, that there are no kernels for.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build, a
    /// device that fails.
    pub(crate) fn try_new(
        budget: &Budget,
        query: condition::VectorCondition,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        // sums that overflow are DataFusion's to decide
        let stock = matches!(query.measure, VectorMeasure::CosineDistance | VectorMeasure::InnerProduct);
        if stock && query.undecided_from.is_none() {
            return Ok(None);
        }
        budget.metrics.keys_are_ready();
        (context.reserve)(Vectors::memory_of(&keys.values))?;
        let points = Points::try_new(&query, keys, None, &context.preparing())?;
        context.cancel.check()?;
        let Some(reach) = Reach::of(&query, points.dimension) else { return Ok(None) };
        let condition = vector_test(&query, &reach, points.dimension);
        if points.dimension == 0 || !points.unfilterable.is_empty() {
            return Ok(None);
        }
        let frame = Frame::of(&points, query.measure);
        let norm = frame.typical_norm(&points, query.measure);
        if !reach.is_coarse(norm) {
            return Ok(None);
        }
        let halves = halves_scale(&condition, frame.typical_largest(&points), norm);
        let halves = halves.filter(|_| budget.device.has_tensor_cores());
        let condition = VectorCondition { scale: halves.unwrap_or(1.0), ..condition };
        let (grouped, self_join, in_halves) = (keys.groups.is_some(), context.self_join, halves.is_some());
        let stream = budget.device.stream()?;
        let framing = Framing::try_new(budget, &stream, &frame, &points, grouped)?;
        let packed = PackedPoints { points: &points, grouped };
        let signer = PointSigner { framing: &framing, condition, in_halves };
        let vectors = SortedPoints::try_new(budget, &stream, &packed, &signer)?;
        let workers = Workers::try_new(budget, Capacity::of(budget, ROWS_OF_TASK, WORKERS))?;
        let rows = points.filterable.len();
        let of_numbers = NUMBERS_AT_ONCE / condition.dimension.max(1) as usize;
        let build = Build {
            budget: budget.clone(),
            unmatchable: vectors.unmatchable,
            side: vectors,
            self_join: None,
            steps: Scheduler::new(workers),
            rows_at_once: budget.rows_at_once(rows).min(of_numbers).max(1),
        };
        let powers = PowerSum::of(&query, points.dimension);
        let host = (!self_join || powers.is_some()).then(|| Arc::new(points));
        let (decision, threads) = (Decision::new(query), context.probe_threads);
        let mut index = Self { build, query, decision, condition, framing, in_halves, powers, host, threads };
        if self_join {
            index.build.self_join = Some(index.near(&stream, None)?);
        }
        Ok(Some(index))
    }

    /// Which build blocks are near each block of `probe`, or of the build side itself.
    fn near(&self, stream: &Arc<CudaStream>, probe: Option<&SortedPoints>) -> Result<NearBlocks, Fault> {
        let Build { budget, side, .. } = &self.build;
        let blocks = probe.unwrap_or(side).blocks();
        let buffer = || budget.buffer(stream, blocks as usize);
        let mut ranges = NearRanges { firsts: buffer()?, ends: buffer()?, counts: buffer()? };
        let mut near = NearBlocks::of(blocks, self.condition.dimension);
        if blocks > 0 && side.count > 0 {
            let sides = self.sides(stream, probe);
            budget.device.kernels().vectors()?.reach(stream, &sides, blocks, &mut ranges)?;
            budget.download(stream, &ranges.firsts, &mut near.firsts)?;
            budget.download(stream, &ranges.ends, &mut near.ends)?;
            budget.download(stream, &ranges.counts, &mut near.counts)?;
            wait(stream)?;
        }
        Ok(near)
    }

    fn sides(&self, stream: &CudaStream, probe: Option<&SortedPoints>) -> VectorSides {
        VectorSides {
            probe: probe.unwrap_or(&self.build.side).on_device(stream),
            build: self.build.side.on_device(stream),
            condition: self.condition,
            self_join: probe.is_none(),
        }
    }
}

/// Two sides and the probe positions that count.
pub(crate) struct VectorComparison<'a> {
    budget: &'a Budget,
    sides: VectorSides,
    range: Positions,
    powers: Option<PowerSum>,
}

impl Comparison for VectorComparison<'_> {
    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        tasks: TaskList<'_>,
        candidates: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        self.budget.device.kernels().vectors()?.filter(stream, &self.sides, tasks, self.range, candidates)
    }

    fn verify(
        &self,
        stream: &Arc<CudaStream>,
        candidates: &Appended<'_>,
        pairs: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let kernels = self.budget.device.kernels().vectors()?;
        match self.powers {
            Some(PowerSum { power, most }) => {
                kernels.verify_powers(stream, &self.sides, (power, most), candidates, pairs)
            }
            None => kernels.verify(stream, &self.sides, candidates, pairs),
        }
    }
}

impl TiledIndex for VectorIndex {
    type Side = SortedPoints;
    type WorkSplit = NearBlocks;
    type OnHost = Option<Points>;
    type Comparison<'a> = VectorComparison<'a>;

    fn build(&self) -> &Build<SortedPoints, NearBlocks> {
        &self.build
    }

    fn chosen(&self) -> String {
        let filter = if self.in_halves { "half precision on tensor cores" } else { "single precision" };
        let (device, dimension) = (&self.build.budget.device, self.condition.dimension);
        let but = if self.powers.is_some() { ", decided on the cpu" } else { "" };
        format!("blocks along a curve over {dimension} dimensions ({device}, {filter}{but})")
    }

    fn held(&self) -> usize {
        let rows = |points: &Points| points.filterable.memory() + points.vectors.memory();
        self.host.as_deref().map_or(0, rows) + self.build.self_join.as_ref().map_or(0, NearBlocks::memory)
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        to.needs_tensor_cores(self.in_halves)?;
        Ok(Self {
            build: self.build.replicate(to, |near| Ok(near.clone()))?,
            query: self.query,
            decision: self.decision,
            condition: self.condition,
            framing: self.framing.replicate(to)?,
            in_halves: self.in_halves,
            powers: self.powers,
            host: self.host.clone(),
            threads: self.threads,
        })
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<BatchOf<Self>>, Fault> {
        let (budget, dimension) = (&self.build.budget, self.condition.dimension as usize);
        let points = Points::try_new(&self.query, keys, Some(dimension), context)?;
        context.cancel.check()?;
        let stream = budget.device.stream()?;
        let packed = PackedPoints { points: &points, grouped: keys.groups.is_some() };
        let signer = PointSigner { framing: &self.framing, condition: self.condition, in_halves: self.in_halves };
        let side = SortedPoints::try_new(budget, &stream, &packed, &signer)?;
        let cut = self.near(&stream, Some(&side))?;
        let decides = |row: &u32| self.query.decides(points.vectors.given(*row as usize));
        let (unmatchable, undecided) = (points.unmatchable, !points.unfilterable.rows.iter().all(decides));
        let on_host = (!points.unfilterable.is_empty() || self.powers.is_some()).then_some(points);
        Ok(Prepared { undecided, ..Batch { side, cut, on_host }.prepared(unmatchable) })
    }

    fn comparison<'a>(
        &'a self,
        stream: &CudaStream,
        (probe, _): (Option<&SortedPoints>, &NearBlocks),
        range: Positions,
    ) -> VectorComparison<'a> {
        let (budget, sides) = (&self.build.budget, self.sides(stream, probe));
        VectorComparison { budget, sides, range, powers: self.powers }
    }

    fn decide(&self, probe: Option<&BatchOf<Self>>, first: usize, cancel: &Cancel, out: &mut Pairs) {
        let (Some(build), Some(_)) = (&self.host, self.powers) else { return };
        let Some(probe) = probe.map_or(Some(build.as_ref()), |batch| batch.on_host.as_ref()) else { return };
        keep_matches(first, (self.threads, cancel), out, |one, other| {
            self.decision.may_hold(build.vectors.given(one), probe.vectors.given(other))
        });
    }

    /// The pairs of an unfilterable row with all rows of the build side.
    fn compare_on_host(&self, probe: &Option<Points>, at: usize, cancel: &Cancel, out: &mut Pairs) -> Counts {
        let (Some(build), Some(probe)) = (&self.host, probe) else { return Counts::default() };
        let (row, group) = (probe.unfilterable.rows[at], probe.unfilterable.groups[at]);
        let (vector, before) = (probe.vectors.given(row as usize), out.len());
        let mut counts = Counts::default();
        for (at, &other) in build.filterable.rows.iter().enumerate() {
            if at % ROWS_UNCHECKED == 0 && cancel.is_cancelled() {
                break;
            }
            if build.filterable.groups[at] == group {
                counts.candidates += 1;
                if self.decision.may_hold(build.filterable(at), vector) {
                    out.push(other, row);
                }
            }
        }
        counts.verified = counts.candidates;
        counts.matched = out.len() - before;
        counts
    }
}
