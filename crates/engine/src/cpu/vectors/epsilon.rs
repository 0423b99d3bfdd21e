//! All pairs within reach: the index of a build side, and the probe batches that it makes ready.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Result, internal_err};

use super::bands::{self, VectorBands};
use super::blocks::has_boxes;
use super::blocks::{Blocks, LeafOf};
use super::build_tree::Role;
use super::decision::Decision;
use super::frame::Frame;
use super::kernel::{near, near_two};
use super::lanes::LANES;
use super::lanes::Real;
use super::metric::{Chebyshev, Euclidean, Halves, Manhattan, Metric, Products};
use super::points::{Points, Vectors};
use super::reach::{Reach, Sum};
use super::search::{Found, leaves_near};
use super::sorted::Side;
use crate::access_path::AccessPath;
use crate::condition::VectorCondition;
use crate::cpu::kind::IndexKind;
use crate::stored::{Sink, Source, Store, Stored};
use crate::{
    BuildContext, Cancel, Counts, Cursor, DynPairIndex, Erased, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs,
    PrepareContext, Prepared, Probe,
};
use similarity_measures::VectorMeasure;

/// Indexes the vectors of `keys` for `condition`.
///
/// # Errors
/// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build.
pub fn build(condition: VectorCondition, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<DynPairIndex>> {
    (context.reserve)(Vectors::memory_of(&keys.values))?;
    let points = Points::try_new(&condition, keys, None, &context.preparing())?;
    let forced = context.overrides.path([(AccessPath::HashBands, ())]).is_some();
    let bands = context.recall.and_then(|recall| bands::chosen(&condition, &points, recall, forced, context));
    if let Some(bands) = bands {
        return Ok(Box::new(Erased(VectorBands::try_new(condition, bands, points, context)?)));
    }
    Ok(match condition.measure {
        VectorMeasure::L1 => with_metric::<Manhattan>(condition, points, context)?,
        VectorMeasure::Linf => with_metric::<Chebyshev>(condition, points, context)?,
        VectorMeasure::InnerProduct => with_metric::<Products>(condition, points, context)?,
        _ => with_metric::<Euclidean>(condition, points, context)?,
    })
}

/// Whether a join by this measure that may miss pairs may use bands of projections.
pub fn has_bands(measure: VectorMeasure) -> bool {
    matches!(measure, VectorMeasure::L2 | VectorMeasure::Cosine | VectorMeasure::CosineDistance)
}

fn with_metric<M: Metric>(
    condition: VectorCondition,
    points: Points,
    context: &BuildContext<'_>,
) -> Result<Box<DynPairIndex>> {
    let frame = Frame::of(&points, condition.measure);
    let reach = Reach::of(&condition, points.dimension);
    let norm = frame.typical_norm(&points, condition.measure);
    let dimension = points.dimension;
    Ok(match reach {
        Some(reach) if !reach.is_coarse(norm) => {
            Box::new(Erased(EpsilonIndex::<f64, M>::try_new(condition, Some(reach), frame, points, context)?))
        }
        Some(reach) if !has_boxes(dimension) && reach.suits_halves::<f32>(norm) => {
            Box::new(Erased(EpsilonIndex::<f32, Halves>::try_new(condition, Some(reach), frame, points, context)?))
        }
        _ => Box::new(Erased(EpsilonIndex::<f32, M>::try_new(condition, reach, frame, points, context)?)),
    })
}

/// Reads the index of points that [`build`] has made for the same condition.
///
/// # Errors
/// Bytes that are no such index.
pub fn load(
    condition: VectorCondition,
    source: &mut Source<'_>,
    context: &BuildContext<'_>,
) -> Result<Box<DynPairIndex>> {
    match condition.measure {
        VectorMeasure::L1 => load_with_metric::<Manhattan>(condition, source, context),
        VectorMeasure::Linf => load_with_metric::<Chebyshev>(condition, source, context),
        VectorMeasure::InnerProduct => load_with_metric::<Products>(condition, source, context),
        _ => load_with_metric::<Euclidean>(condition, source, context),
    }
}

/// Reads the bands that [`build`] has made for the same condition.
///
/// # Errors
/// Bytes that are no such index.
pub fn load_bands(
    condition: VectorCondition,
    source: &mut Source<'_>,
    context: &BuildContext<'_>,
) -> Result<Box<DynPairIndex>> {
    Ok(Box::new(Erased(VectorBands::load(condition, source, context)?)))
}

fn load_with_metric<M: Metric>(
    condition: VectorCondition,
    source: &mut Source<'_>,
    context: &BuildContext<'_>,
) -> Result<Box<DynPairIndex>> {
    let (is_double, sum) = (bool::load(source)?, Sum::load(source)?);
    Ok(match (is_double, sum) {
        (true, _) => Box::new(Erased(EpsilonIndex::<f64, M>::load(condition, source, context)?)),
        (false, Sum::Halves) => Box::new(Erased(EpsilonIndex::<f32, Halves>::load(condition, source, context)?)),
        (false, _) => Box::new(Erased(EpsilonIndex::<f32, M>::load(condition, source, context)?)),
    })
}

/// A build side's vectors, ready for probing.
#[derive(Debug)]
struct EpsilonIndex<R, M> {
    condition: VectorCondition,
    decision: Decision,
    /// Reach of a match; `None` where no pair is near enough.
    reach: Option<Reach>,
    frame: Frame,
    side: Side<R>,
    /// Whether it probes itself.
    self_join: bool,
    info: IndexInfo,
    density: Density,
    metric: PhantomData<fn() -> M>,
}

impl<R: Real, M: Metric> Store for EpsilonIndex<R, M> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Points.store(sink)?;
        R::IS_DOUBLE.store(sink)?;
        M::SUM.store(sink)?;
        let Self { reach, frame, side, info, .. } = self;
        reach.store(sink)?;
        frame.store(sink)?;
        side.store(sink)?;
        info.store(sink)
    }
}

impl<R: Real, M: Metric> EpsilonIndex<R, M> {
    fn load(condition: VectorCondition, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<Self> {
        Ok(Self {
            condition,
            decision: Decision::new(condition),
            reach: Stored::load(source)?,
            frame: Stored::load(source)?,
            side: Stored::load(source)?,
            self_join: context.self_join,
            info: Stored::load(source)?,
            density: Density::default(),
            metric: PhantomData,
        })
    }

    fn try_new(
        condition: VectorCondition,
        reach: Option<Reach>,
        frame: Frame,
        points: Points,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let reach = reach.map(|reach| reach.by(M::SUM));
        let side = Side::try_new::<M>(&condition, &frame, points, Role::Build(None), context)?;
        let decision = Decision::new(condition);
        let info = IndexInfo {
            undecided: side.undecided,
            self_join_len: side.blocks.len() + side.unfilterable.len(),
            ..side.info()
        };
        Ok(Self {
            condition,
            decision,
            reach,
            frame,
            side,
            self_join: context.self_join,
            info,
            density: Density::default(),
            metric: PhantomData,
        })
    }

    /// The pairs of some leaves' points, from the cursor on, with all near ones.
    fn probe_leaves(&self, probe: &Side<R>, cursor: &mut Cursor, work: &mut Work<'_>) {
        let (build, blocks) = (&self.side.blocks, &probe.blocks);
        let Some(reach) = &self.reach else {
            cursor.next = cursor.end.min(blocks.len());
            return;
        };
        let limit = reach.of_boxes::<R>((build.corner, blocks.corner));
        let mut abreast: Vec<Abreast> = Vec::new();
        // in few dimensions what a leaf reaches is another leaf's as well by chance only
        let most_leaves = if build.width == 0 { MOST_ABREAST } else { 1 };
        let mut candidates = 0;
        while abreast.len() < most_leaves && cursor.next < cursor.end.min(blocks.len()) {
            let leaf = blocks.leaf_of(cursor.next);
            let nodes = match self.self_join {
                true => build.nodes_from(leaf),
                false => build.nodes_of(blocks.group_of(leaf)),
            };
            let mut found = work.spare.pop().unwrap_or_default();
            work.done += leaves_near::<R, M>(build, nodes, LeafOf { blocks, leaf }, limit, &mut found);
            let near: usize = found.iter().map(|(_, bits)| bits.count_ones() as usize * LANES).sum();
            let first = cursor.next - blocks.leaves[leaf].first as usize;
            let len = blocks.leaves[leaf].len as usize;
            // what one step may yield is bounded, by what the steps so far have yielded
            let fit = self.density.most_candidates().saturating_sub(candidates) / near.max(1);
            if fit < LANES && !abreast.is_empty() {
                work.spare.push(found);
                break;
            }
            let end = len.min(first + fit.max(FEW_POINTS)).min(first + cursor.end - cursor.next);
            candidates += (end - first) * near;
            let rows = (((1u32 << end) - 1) & !((1u32 << first) - 1)) as u16;
            abreast.push(Abreast { leaf, rows, found, next: 0 });
            cursor.next += end - first;
        }
        let matched = work.out.len();
        while let Some(sixteen) = abreast.iter().filter_map(Abreast::next).min() {
            if work.cancel.is_cancelled() {
                break;
            }
            for probe in &mut abreast {
                if probe.next() == Some(sixteen) {
                    self.pair_sixteen(reach, blocks, probe, work);
                    probe.next += 1;
                }
            }
        }
        self.density.add(candidates, work.out.len() - matched);
        work.spare.extend(abreast.into_iter().map(|probe| probe.found));
    }

    /// The pairs of a leaf's points with those of the next sixteen leaves, as far as they are near.
    fn pair_sixteen(&self, reach: &Reach, blocks: &Blocks<R>, probe: &Abreast, work: &mut Work<'_>) {
        let build = &self.side.blocks;
        let (sixteen, bits) = probe.found[probe.next];
        let leaf = &blocks.leaves[probe.leaf];
        let mut rows = [probe.rows; LANES];
        if let (Some((centres, limits)), Some(lanes)) =
            (build.balls(sixteen as usize, reach, leaf.norm), blocks.lanes(leaf))
        {
            work.done += probe.rows.count_ones() as usize * LANES;
            let masks = near::<R, M>(lanes, centres, probe.rows, &limits);
            rows = transposed(masks, probe.rows);
        }
        let first = sixteen as usize * LANES;
        let wanted = |lane: usize| if bits >> lane & 1 == 1 { rows[lane] } else { 0 };
        for lane in (0..LANES).step_by(2) {
            let both = [wanted(lane), wanted(lane + 1)];
            if both[0] != 0
                && both[1] != 0
                && build.width == 0
                && let (Some(one), Some(two)) = (blocks.lanes(leaf), build.lanes_of_two(first + lane))
            {
                let limits = [0, 1].map(|at| {
                    let norm = build.leaves[first + lane + at].norm;
                    [reach.of_points((leaf.norm, norm)); LANES]
                });
                let masks = near_two::<R, M>(one, two, both[0] | both[1], [&limits[0], &limits[1]]);
                for at in 0..2 {
                    self.decide(LeafOf { blocks, leaf: probe.leaf }, both[at], first + lane + at, &masks[at], work);
                }
                continue;
            }
            for at in (0..2).filter(|&at| both[at] != 0) {
                self.pair_leaves(reach, LeafOf { blocks, leaf: probe.leaf }, both[at], first + lane + at, work);
            }
        }
    }

    /// The pairs of some points of a leaf with those of a leaf of the build side.
    fn pair_leaves(&self, reach: &Reach, probe: LeafOf<'_, R>, rows: u16, other: usize, work: &mut Work<'_>) {
        let build = &self.side.blocks;
        let (a, b) = (probe.points(), &build.leaves[other]);
        let masks = match (probe.blocks.lanes(a), build.lanes(b)) {
            (Some(one), Some(other)) => near::<R, M>(one, other, rows, &[reach.of_points((a.norm, b.norm)); LANES]),
            _ => [u16::MAX; LANES],
        };
        self.decide(probe, rows, other, &masks, work);
    }

    /// Decides the pairs that the filter has left of some points of a leaf with those of another.
    fn decide(&self, probe: LeafOf<'_, R>, mut rows: u16, other: usize, masks: &[u16; LANES], work: &mut Work<'_>) {
        let build = &self.side.blocks;
        let (a, b) = (probe.points(), &build.leaves[other]);
        let candidates = rows.count_ones() as usize * b.len as usize;
        work.counts.candidates += candidates;
        work.done += candidates;
        let present = u16::MAX >> (LANES - b.len as usize);
        while rows != 0 {
            let row = rows.trailing_zeros() as usize;
            rows &= rows - 1;
            let mut mask = masks[row] & present;
            if self.self_join && probe.leaf == other {
                // those behind it
                mask &= (u32::from(u16::MAX) << (row + 1)) as u16;
            }
            let position = a.first as usize + row;
            let vector = probe.blocks.vector(position);
            work.counts.verified += mask.count_ones() as usize;
            while mask != 0 {
                let candidate = b.first as usize + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if self.decision.holds(build.vector(candidate), vector) {
                    work.out.push(build.rows[candidate], probe.blocks.rows[position]);
                }
            }
        }
    }

    /// The pairs of an unfilterable row of the build side with the filterable rows of a probe side.
    fn pair_unfilterable_build(&self, at: usize, probe: &Side<R>, work: &mut Work<'_>) {
        let (row, vector) = (self.side.unfilterable.rows[at], self.side.unfilterable(at));
        self.with_filterable(&probe.blocks, self.side.unfilterable.groups[at], vector, work, |other| (row, other));
    }

    /// The pairs of an unfilterable row of a probe side with all rows of the build side; in a self-join with those
    /// unfilterable ones that come after it.
    fn pair_unfilterable_probe(&self, at: usize, probe: &Side<R>, work: &mut Work<'_>) {
        let (row, group, vector) = (probe.unfilterable.rows[at], probe.unfilterable.groups[at], probe.unfilterable(at));
        self.with_filterable(&self.side.blocks, group, vector, work, |other| (other, row));
        let first = if self.self_join { at + 1 } else { 0 };
        for other in first..self.side.unfilterable.len() {
            if self.side.unfilterable.groups[other] == group
                && self.decision.may_hold(self.side.unfilterable(other), vector)
            {
                work.out.push(self.side.unfilterable.rows[other], row);
            }
        }
        work.count(self.side.unfilterable.len() - first.min(self.side.unfilterable.len()));
    }

    fn with_filterable(
        &self,
        blocks: &Blocks<R>,
        group: u32,
        vector: &[f64],
        work: &mut Work<'_>,
        pair: impl Fn(u32) -> (u32, u32),
    ) {
        let positions = blocks.positions_of(group);
        work.count(positions.len());
        for position in positions {
            if self.decision.may_hold(blocks.vector(position), vector) {
                let (build, probe) = pair(blocks.rows[position]);
                work.out.push(build, probe);
            }
        }
    }
}

/// What one call does.
struct Work<'a> {
    cancel: &'a Cancel,
    out: &'a mut Pairs,
    counts: Counts,
    /// Pairs compared and boxes looked at.
    done: usize,
    /// Lists to be used again.
    spare: Vec<Found>,
}

/// A leaf of the probe side on its way through the build side.
struct Abreast {
    leaf: usize,
    /// A bit for each of its points that is probed.
    rows: u16,
    /// The leaves within reach.
    found: Found,
    /// The first of these that is not done.
    next: usize,
}

impl Abreast {
    fn next(&self) -> Option<u32> {
        self.found.get(self.next).map(|(sixteen, _)| *sixteen)
    }
}

/// How many of the candidates so far were matches.
#[derive(Debug, Default)]
struct Density {
    candidates: AtomicUsize,
    matched: AtomicUsize,
}

impl Density {
    fn add(&self, candidates: usize, matched: usize) {
        self.candidates.fetch_add(candidates, Ordering::Relaxed);
        self.matched.fetch_add(matched, Ordering::Relaxed);
    }

    /// How many candidates a step may have: those that will yield about [`MOST_MATCHES`].
    fn most_candidates(&self) -> usize {
        let (candidates, matched) = (self.candidates.load(Ordering::Relaxed), self.matched.load(Ordering::Relaxed));
        let most = (MOST_MATCHES as u128 * candidates as u128 / matched.max(1) as u128) as usize;
        most.clamp(FEWEST_CANDIDATES, MOST_CANDIDATES)
    }
}

/// Each of sixteen rows' bits of columns as each column's bits of `rows`.
fn transposed(masks: [u16; LANES], rows: u16) -> [u16; LANES] {
    let mut columns = [0; LANES];
    for (row, mask) in masks.into_iter().enumerate().filter(|(row, _)| rows >> row & 1 == 1) {
        for (lane, column) in columns.iter_mut().enumerate() {
            *column |= (mask >> lane & 1) << row;
        }
    }
    columns
}

impl Work<'_> {
    fn count(&mut self, pairs: usize) {
        self.counts.candidates += pairs;
        self.counts.verified += pairs;
        self.done += pairs;
    }
}

/// Leaves that are compared with a leaf of the build side one after the other, so that it is fetched once.
const MOST_ABREAST: usize = 16;
/// Points of a leaf that are probed at least, however many candidates they have.
const FEW_POINTS: usize = 4;
/// Matches that a step should not exceed by far.
const MOST_MATCHES: usize = 1 << 16;
/// Candidates of a step before anything is known, and at most.
const FEWEST_CANDIDATES: usize = 1 << 18;
const MOST_CANDIDATES: usize = 1 << 26;

impl<R: Real, M: Metric> Index for EpsilonIndex<R, M> {
    type Batch = Option<PreparedPoints<R>>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Self::Batch>> {
        if self.self_join {
            return internal_err!("an epsilon index was built for a self-join and given another input");
        }
        let empty = self.side.is_empty();
        let dimension = (!empty).then_some(self.side.blocks.dimension);
        let points = Points::try_new(&self.condition, keys, dimension, context)?;
        context.cancel.check()?;
        if empty {
            return Ok(Prepared::new(None, 0, keys.values.len()));
        }
        let context = BuildContext::new(context.threads, context.cancel, &|_| Ok(()));
        let side = Side::<R>::try_new::<M>(&self.condition, &self.frame, points, Role::Probe(&self.side), &context)?;
        let unfilterable_build = self.side.unfilterable.len();
        let len = side.blocks.len() + unfilterable_build + side.unfilterable.len();
        let (undecided, unmatchable) = (side.undecided, side.unmatchable);
        let batch = Some(PreparedPoints { side, unfilterable_build });
        Ok(Prepared { undecided, ..Prepared::new(batch, len, unmatchable) })
    }
}

impl<R: Real, M: Metric> PairIndex for EpsilonIndex<R, M> {
    fn probe(
        &self,
        probe: Probe<'_, Self::Batch>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let (side, unfilterable_build) = match probe {
            Probe::SelfJoin if self.self_join => (&self.side, 0),
            Probe::Batch(Some(batch)) if !self.self_join => (&batch.side, batch.unfilterable_build),
            Probe::Batch(None) if !self.self_join => {
                cursor.next = cursor.end;
                return Ok(Counts::default());
            }
            _ => return internal_err!("an epsilon index was built for the other kind of probe"),
        };
        let before = out.len();
        let mut work = Work { cancel, out, counts: Counts::default(), done: 0, spare: Vec::new() };
        let filterable = side.blocks.len();
        while !cursor.is_done()
            && work.out.len() - before < limit.pairs
            && work.done < limit.work
            && !cancel.is_cancelled()
        {
            if cursor.next < filterable {
                self.probe_leaves(side, cursor, &mut work);
                continue;
            }
            match cursor.next - filterable {
                at if at < unfilterable_build => self.pair_unfilterable_build(at, side, &mut work),
                at => self.pair_unfilterable_probe(at - unfilterable_build, side, &mut work),
            }
            cursor.next += 1;
        }
        work.counts.matched = work.out.len() - before;
        Ok(work.counts)
    }
}

/// A batch: its filterable rows, then the unfilterable rows of the build side for these, then its own unfilterable
/// rows. There is none where the build side has no rows.
#[derive(Debug)]
struct PreparedPoints<R> {
    side: Side<R>,
    unfilterable_build: usize,
}
