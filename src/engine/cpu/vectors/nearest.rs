//! The nearest rows of a build side for each row of a probe side.
//!
//! The points of a leaf of the probe side are searched together: the leaves of the build side come nearest first, by their
//! boxes or, in many dimensions, by the centres of their balls, until none is nearer than the worst neighbour so far of any of
//! them. The filter passes what may be as near as that, and the measure's own arithmetic ranks.
//!
//! Source: Hjaltason and Samet, Distance browsing in spatial databases (TODS 1999), for a leaf of queries at once.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;

use datafusion::common::{Result, internal_err};

use super::blocks::Blocks;
use super::frame::Frame;
use super::kernel::{LANES, near};
use super::metric::{Chebyshev, Euclidean, Manhattan, Metric, Real};
use super::points::Points;
use super::reach::Reach;
use super::search::{box_sum, centre_sums};
use super::side::Side;
use crate::engine::nearest::{Best, NearestIndex, Neighbour, float_key, float_of};
use crate::engine::{BuildContext, Cancel, Counts, KeyColumn, PreparedProbe};
use crate::measure::VectorMeasure;
use crate::predicate::{Bounds, VectorTest};

/// Makes the vectors of `keys`, each row with a rank, ready for being ranked by `measure`, one of this crate's own.
///
/// # Errors
/// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build.
pub fn build(
    measure: VectorMeasure,
    keys: &KeyColumn,
    ranks: Vec<u32>,
    context: &BuildContext<'_>,
) -> Result<Box<dyn NearestIndex>> {
    (context.reserve)(keys.values.get_array_memory_size())?;
    let points = Points::try_new(&any(measure), keys, None, context.cancel)?;
    match measure {
        VectorMeasure::L1 => with_metric::<Manhattan>(measure, points, ranks, context),
        VectorMeasure::Linf => with_metric::<Chebyshev>(measure, points, ranks, context),
        VectorMeasure::L2 | VectorMeasure::Cosine => with_metric::<Euclidean>(measure, points, ranks, context),
        other => internal_err!("{} ranks by no index", other.name()),
    }
}

/// Every score.
fn any(measure: VectorMeasure) -> VectorTest {
    VectorTest { measure, bounds: Bounds::everything(), undecided_from: None }
}

fn with_metric<M: Metric>(
    measure: VectorMeasure,
    points: Points,
    ranks: Vec<u32>,
    context: &BuildContext<'_>,
) -> Result<Box<dyn NearestIndex>> {
    let frame = Frame::of(&points, measure);
    let norm = frame.typical_norm(&points, measure);
    // a neighbour is about as far as n^(1/d) points abreast are from each other
    let abreast = (points.regular.len() as f64).powf((points.dimension.max(1) as f64).recip());
    Ok(match norm < 1e15 && abreast < MOST_ABREAST {
        true => Box::new(NearestBlocks::<f32, M>::try_new(measure, frame, points, ranks, context)?),
        false => Box::new(NearestBlocks::<f64, M>::try_new(measure, frame, points, ranks, context)?),
    })
}

/// Points side by side that single precision tells apart well.
const MOST_ABREAST: f64 = (1u32 << 18) as f64;

/// A build side's vectors, ready for being ranked.
#[derive(Debug)]
struct NearestBlocks<R, M> {
    measure: VectorMeasure,
    frame: Frame,
    side: Side<R>,
    /// By row.
    ranks: Vec<u32>,
    metric: PhantomData<fn() -> M>,
}

impl<R: Real, M: Metric> NearestBlocks<R, M> {
    fn try_new(
        measure: VectorMeasure,
        frame: Frame,
        points: Points,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let side = Side::try_new(&any(measure), &frame, points, context)?;
        Ok(Self { measure, frame, side, ranks, metric: PhantomData })
    }

    /// A score as an integer, less being better.
    fn key(&self, score: f64) -> i64 {
        if self.measure.is_distance() { float_key(score) } else { !float_key(score) }
    }

    /// How far a neighbour may be that is as good as `worst`.
    fn reach(&self, worst: i64) -> Option<Reach> {
        let bounds = match self.measure.is_distance() {
            true => Bounds::at_most(float_of(worst), true),
            false => Bounds::at_least(float_of(!worst), true),
        };
        Reach::of(&VectorTest { bounds, ..any(self.measure) }, self.side.blocks.dimension)
    }

    fn offer(&self, row: u32, build: &[f64], probe: &[f64], best: &mut Best<i64>) {
        if let Some(score) = self.measure.score(build, probe) {
            best.offer(Neighbour { score: self.key(score), rank: self.ranks[row as usize], row });
        }
    }

    /// Offers all loose rows of a group, and where `all` is set the regular ones, too.
    fn offer_one_by_one(&self, group: u32, vector: &[f64], all: bool, best: &mut Best<i64>) -> usize {
        let Side { blocks, loose, .. } = &self.side;
        for at in (0..loose.len()).filter(|&at| loose.groups[at] == group) {
            self.offer(loose.rows[at], loose.vector(at, blocks.dimension), vector, best);
        }
        let positions = if all { blocks.positions_of(group) } else { 0..0 };
        let compared = loose.len() + positions.len();
        positions.for_each(|position| self.offer(blocks.rows[position], blocks.vector(position), vector, best));
        compared
    }
}

impl<R: Real, M: Metric> NearestIndex for NearestBlocks<R, M> {
    fn describe(&self) -> String {
        self.side.describe()
    }

    fn memory(&self) -> usize {
        self.side.memory() + self.ranks.capacity() * size_of::<u32>()
    }

    fn unmatchable(&self) -> usize {
        self.side.unmatchable
    }

    fn prepare(&self, keys: &KeyColumn) -> Result<Box<dyn PreparedProbe>> {
        let cancel = Cancel::default();
        let dimension = (!self.side.is_empty()).then_some(self.side.blocks.dimension);
        let points = Points::try_new(&any(self.measure), keys, dimension, &cancel)?;
        if self.side.is_empty() {
            return Ok(Box::new(PreparedPoints::<R> { side: None, order: Vec::new(), rows: keys.values.len() }));
        }
        let context = BuildContext { threads: 1, own: false, probe_rows: None, cancel: &cancel, reserve: &|_| Ok(()) };
        let side = Side::<R>::try_new(&any(self.measure), &self.frame, points, &context)?;
        let order = side.blocks.rows.iter().chain(&side.loose.rows).copied().collect();
        Ok(Box::new(PreparedPoints { side: Some(side), order, rows: keys.values.len() }))
    }

    fn order<'a>(&self, probe: &'a dyn PreparedProbe) -> Result<&'a [u32]> {
        Ok(&PreparedPoints::<R>::of(probe)?.order)
    }

    fn nearest(
        &self,
        probe: &dyn PreparedProbe,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let mut counts = Counts::default();
        let Some(probe) = &PreparedPoints::<R>::of(probe)?.side else { return Ok(counts) };
        let blocks = &probe.blocks;
        let mut done = 0;
        while done < positions.len() && !cancel.is_cancelled() {
            let position = positions[done] as usize;
            if position >= blocks.len() {
                let at = position - blocks.len();
                let group = probe.loose.groups[at];
                counts.candidates += self.offer_one_by_one(group, probe.loose(at), true, &mut best[done]);
                done += 1;
                continue;
            }
            let leaf = blocks.leaf_of(position);
            let end = blocks.leaves[leaf].first + blocks.leaves[leaf].len;
            let some = positions[done..].iter().take_while(|&&position| position < end).count();
            let mut walk = Walk::new(self, blocks, leaf, &positions[done..done + some], &mut best[done..done + some]);
            walk.run(cancel);
            counts.candidates += walk.candidates;
            counts.verified += walk.verified;
            done += some;
        }
        Ok(counts)
    }
}

/// Some points of a leaf on their way through the build side.
struct Walk<'a, R, M> {
    index: &'a NearestBlocks<R, M>,
    probe: &'a Blocks<R>,
    leaf: usize,
    /// Which of `best` each lane of the leaf has.
    places: [Option<usize>; LANES],
    best: &'a mut [Best<i64>],
    /// How far the neighbours of each lane may be; none, as long as any are wanted.
    reaches: [Option<Reach>; LANES],
    /// What sums of points with norms up to `norm` are compared with.
    limits: [R; LANES],
    norm: f64,
    candidates: usize,
    verified: usize,
}

impl<'a, R: Real, M: Metric> Walk<'a, R, M> {
    /// `positions` are of one leaf, ascending.
    fn new(
        index: &'a NearestBlocks<R, M>,
        probe: &'a Blocks<R>,
        leaf: usize,
        positions: &[u32],
        best: &'a mut [Best<i64>],
    ) -> Self {
        let mut places = [None; LANES];
        let mut limits = [R::ZERO.minus(R::INFINITY); LANES];
        for (place, &position) in positions.iter().enumerate() {
            let lane = (position - probe.leaves[leaf].first) as usize;
            (places[lane], limits[lane]) = (Some(place), R::INFINITY);
        }
        let reaches = [None; LANES];
        Self { index, probe, leaf, places, best, reaches, limits, norm: 0.0, candidates: 0, verified: 0 }
    }

    fn run(&mut self, cancel: &Cancel) {
        let group = self.probe.group_of(self.leaf);
        for lane in 0..LANES {
            if let Some(place) = self.places[lane] {
                let compared = self.index.offer_one_by_one(group, self.vector(lane), false, &mut self.best[place]);
                self.candidates += compared;
                self.shrink(lane);
            }
        }
        let build = &self.index.side.blocks;
        let nodes = build.nodes_of(group);
        if nodes.is_empty() {
            return;
        }
        if build.width == 0 {
            self.by_centres(build.leaves_of(nodes), cancel);
        } else {
            self.by_boxes(nodes.start, cancel);
        }
    }

    fn vector(&self, lane: usize) -> &'a [f64] {
        self.probe.vector(self.probe.leaves[self.leaf].first as usize + lane)
    }

    /// The nearest box first.
    fn by_boxes(&mut self, root: u32, cancel: &Cancel) {
        let build = &self.index.side.blocks;
        let own = (self.probe, self.leaf);
        let mut frontier = BinaryHeap::from([Reverse((0u64, root))]);
        while let Some(Reverse((sum, node))) = frontier.pop() {
            if f64::from_bits(sum) > self.box_limit() || cancel.is_cancelled() {
                break;
            }
            if let Some(leaf) = build.nodes[node as usize].leaf {
                self.visit(leaf as usize);
                continue;
            }
            let limit = self.box_limit();
            for child in [node + 1, build.nodes[node as usize + 1].skip] {
                // sums are not negative, so that they are in the order of their bits
                let sum = box_sum::<R, M>(build, child, own).get().max(0.0);
                if sum <= limit {
                    frontier.push(Reverse((sum.to_bits(), child)));
                }
            }
        }
    }

    /// The largest sum of gaps to a box that may have a neighbour.
    fn box_limit(&self) -> f64 {
        let corners = (self.index.side.blocks.corner, self.probe.corner);
        let lanes = (0..LANES).filter(|&lane| self.places[lane].is_some());
        let limit = |lane: usize| match &self.reaches[lane] {
            Some(reach) => reach.of_boxes::<R>(corners).get(),
            None => f64::INFINITY,
        };
        lanes.map(limit).fold(0.0, f64::max)
    }

    /// The leaf with the nearest centre first.
    fn by_centres(&mut self, leaves: std::ops::Range<usize>, cancel: &Cancel) {
        let build = &self.index.side.blocks;
        let (Some(sums), Some(own)) =
            (centre_sums::<R, M>(build, (self.probe, self.leaf)), self.probe.radius(self.leaf))
        else {
            leaves.take_while(|_| !cancel.is_cancelled()).for_each(|leaf| self.visit(leaf));
            return;
        };
        let mut order: Vec<(u64, u32)> =
            leaves.map(|leaf| (sums[leaf].get().max(0.0).to_bits(), leaf as u32)).collect();
        order.sort_unstable();
        for (sum, leaf) in order {
            if cancel.is_cancelled() {
                return;
            }
            let radius = build.radius(leaf as usize).unwrap_or(f64::INFINITY) + own;
            if f64::from_bits(sum) <= self.ball_limit(radius, build.leaves[leaf as usize].norm) {
                self.visit(leaf as usize);
            }
        }
    }

    /// The largest sum of centres whose balls, with radii that sum up to `radius`, have neighbours.
    fn ball_limit(&self, radius: f64, norm: f64) -> f64 {
        let norms = (norm, self.probe.leaves[self.leaf].norm);
        let lanes = (0..LANES).filter(|&lane| self.places[lane].is_some());
        let limit = |lane: usize| match &self.reaches[lane] {
            Some(reach) => reach.around(radius).of_points::<R>(norms).get(),
            None => f64::INFINITY,
        };
        lanes.map(limit).fold(0.0, f64::max)
    }

    /// Offers what of a leaf may be as near as the neighbours so far.
    fn visit(&mut self, leaf: usize) {
        let build = &self.index.side.blocks;
        let (a, b) = (&self.probe.leaves[self.leaf], &build.leaves[leaf]);
        let present = u16::MAX >> (LANES - b.len as usize);
        if b.norm.max(a.norm) > self.norm {
            self.norm = b.norm.max(a.norm);
            (0..LANES).for_each(|lane| self.set_limit(lane));
        }
        let masks = match (build.lanes(b), self.probe.lanes(a)) {
            (Some(rows), Some(lanes)) => near::<R, M>(rows, lanes, present, &self.limits),
            _ => [u16::MAX; LANES],
        };
        self.candidates += b.len as usize * self.best.len();
        for (row, &mask) in masks.iter().enumerate().take(b.len as usize) {
            let position = b.first as usize + row;
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 == 1) {
                let Some(place) = self.places[lane] else { continue };
                self.verified += 1;
                let (row, vector) = (build.rows[position], self.vector(lane));
                self.index.offer(row, build.vector(position), vector, &mut self.best[place]);
                self.shrink(lane);
            }
        }
    }

    /// Takes note of the worst neighbour so far of a lane.
    fn shrink(&mut self, lane: usize) {
        let worst = self.places[lane].and_then(|place| self.best[place].worst());
        if let Some(worst) = worst {
            self.reaches[lane] = self.index.reach(worst);
            self.set_limit(lane);
        }
    }

    fn set_limit(&mut self, lane: usize) {
        if let (Some(reach), Some(_)) = (&self.reaches[lane], self.places[lane]) {
            self.limits[lane] = reach.of_points((self.norm, self.norm));
        }
    }
}

/// A batch of the probe side.
struct PreparedPoints<R> {
    /// None where the build side has no rows.
    side: Option<Side<R>>,
    /// The rows of the blocks, then the loose ones.
    order: Vec<u32>,
    rows: usize,
}

impl<R: Real> PreparedPoints<R> {
    fn of(probe: &dyn PreparedProbe) -> Result<&Self> {
        match probe.as_any().downcast_ref() {
            Some(prepared) => Ok(prepared),
            None => internal_err!("a nearest join was given a probe batch that it did not prepare"),
        }
    }
}

impl<R: Real> PreparedProbe for PreparedPoints<R> {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn unmatchable(&self) -> usize {
        self.side.as_ref().map_or(self.rows, |side| side.unmatchable)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
