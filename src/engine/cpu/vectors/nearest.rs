//! The nearest rows of a build side for each row of a probe side.
//!
//! The points of a leaf of the probe side are searched together. With boxes, the nearer part of a node is visited first, and
//! what is farther than the worst neighbour so far of any of them is passed over. Without, the leaves with the nearest centres
//! come first, and then all others in order, for several leaves of the probe side at once.
//!
//! Neighbours are found by the sums of the filter: what may be as near as the k-th sum, allowing for rounding (`reach`), is
//! kept, and in the end the measure's own arithmetic ranks what is left.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;

use datafusion::common::{Result, internal_err};

use super::blocks::Blocks;
use super::frame::Frame;
use super::kernel::{LANES, near_sums};
use super::metric::{Chebyshev, Euclidean, Manhattan, Metric, Real};
use super::points::Points;
use super::reach::Reach;
use super::search::{box_sum, centre_sums};
use super::side::Side;
use crate::engine::nearest::{Best, NearestIndex, Neighbour, float_key};
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
        let side = Side::try_new(&any(measure), &frame, points, None, context)?;
        Ok(Self { measure, frame, side, ranks, metric: PhantomData })
    }

    /// A score as an integer, less being better.
    fn key(&self, score: f64) -> i64 {
        if self.measure.is_distance() { float_key(score) } else { !float_key(score) }
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
        let side = Side::<R>::try_new(&any(self.measure), &self.frame, points, Some(&self.side), &context)?;
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
        let mut spare: Vec<Kept<R>> = Vec::new();
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
            let some = self.abreast(blocks, &positions[done..]);
            let mut walks = Vec::new();
            let (mut positions, mut best) = (&positions[done..done + some], &mut best[done..done + some]);
            while let [first, ..] = positions {
                let leaf = blocks.leaf_of(*first as usize);
                let end = blocks.leaves[leaf].first + blocks.leaves[leaf].len;
                let own = positions.iter().take_while(|&&position| position < end).count();
                let (now, later) = std::mem::take(&mut best).split_at_mut(own);
                let kept = spare.pop().unwrap_or_default();
                walks.push(Walk::<R, M>::new(self, blocks, leaf, &positions[..own], now, kept));
                (positions, best) = (&positions[own..], later);
            }
            self.run(&mut walks, cancel);
            for mut walk in walks {
                walk.finish();
                counts.candidates += walk.candidates;
                counts.verified += walk.verified;
                spare.push(walk.kept);
            }
            done += some;
        }
        Ok(counts)
    }
}

/// Leaves whose nearest others are visited before all are, where there are no boxes.
const NEAREST_LEAVES: usize = 8;

impl<R: Real, M: Metric> NearestBlocks<R, M> {
    /// How many of `positions` are searched at once: those of one group, where leaves are visited in order.
    fn abreast(&self, probe: &Blocks<R>, positions: &[u32]) -> usize {
        let regular = |position: &&u32| (**position as usize) < probe.len();
        let leaf = |position: u32| probe.leaf_of(position as usize);
        let first = leaf(positions[0]);
        let together = |position: u32| match self.side.blocks.width {
            0 => probe.group_of(leaf(position)) == probe.group_of(first),
            _ => leaf(position) == first,
        };
        positions.iter().take_while(regular).take_while(|position| together(**position)).count()
    }

    fn run(&self, walks: &mut [Walk<'_, R, M>], cancel: &Cancel) {
        let Some(first) = walks.first() else { return };
        let build = &self.side.blocks;
        let group = first.probe.group_of(first.leaf);
        walks.iter_mut().for_each(|walk| walk.offer_loose(group));
        let nodes = build.nodes_of(group);
        if nodes.is_empty() {
            return;
        }
        if build.width > 0 {
            walks.iter_mut().for_each(|walk| walk.by_boxes(nodes.start, cancel));
            return;
        }
        let leaves = build.leaves_of(nodes);
        let mut nearest: Vec<Nearest<R>> = walks.iter_mut().map(|walk| walk.nearest_leaves(leaves.clone())).collect();
        // each leaf is fetched once for all walks
        for leaf in leaves {
            if cancel.is_cancelled() {
                return;
            }
            for (walk, nearest) in walks.iter_mut().zip(&mut nearest) {
                walk.visit_unless_far(leaf, nearest);
            }
        }
    }
}

/// For each lane the sums and positions of what may be a neighbour.
type Kept<R> = [Vec<(R, u32)>; LANES];

/// What a walk without boxes knows of leaves.
struct Nearest<R> {
    /// The sum of each leaf's centre with that of the walk's leaf.
    sums: Option<Vec<R>>,
    /// The leaves that it has visited.
    visited: Vec<usize>,
}

/// Some points of a leaf on their way through the build side.
struct Walk<'a, R, M> {
    index: &'a NearestBlocks<R, M>,
    probe: &'a Blocks<R>,
    leaf: usize,
    /// Which of `best` each lane of the leaf has.
    places: [Option<usize>; LANES],
    best: &'a mut [Best<i64>],
    kept: Kept<R>,
    /// How many are kept of a lane before it is looked which of them are too far.
    full: [usize; LANES],
    /// The sum of the worst neighbour so far of each lane; none, as long as any are wanted.
    worst: [Option<R>; LANES],
    /// What sums of points with norms up to `norm` are compared with.
    limits: [R; LANES],
    norm: f64,
    /// How far the neighbours of any lane may be; none, as long as one takes any.
    reach: Option<Reach>,
    /// The sum of gaps to a box that this is.
    box_limit: f64,
    sums: [[R; LANES]; LANES],
    candidates: usize,
    verified: usize,
}

impl<'a, R: Real, M: Metric> Walk<'a, R, M> {
    /// `positions` are of one leaf, ascending; `kept` is empty.
    fn new(
        index: &'a NearestBlocks<R, M>,
        probe: &'a Blocks<R>,
        leaf: usize,
        positions: &[u32],
        best: &'a mut [Best<i64>],
        kept: Kept<R>,
    ) -> Self {
        let mut walk = Self {
            index,
            probe,
            leaf,
            places: [None; LANES],
            best,
            kept,
            full: [usize::MAX; LANES],
            worst: [None; LANES],
            limits: [R::ZERO.minus(R::INFINITY); LANES],
            norm: probe.leaves[leaf].norm,
            reach: None,
            box_limit: f64::INFINITY,
            sums: [[R::ZERO; LANES]; LANES],
            candidates: 0,
            verified: 0,
        };
        for (place, &position) in positions.iter().enumerate() {
            let lane = (position - probe.leaves[leaf].first) as usize;
            (walk.places[lane], walk.limits[lane]) = (Some(place), R::INFINITY);
            walk.full[lane] = walk.best[place].wanted().rows;
        }
        walk
    }

    fn offer_loose(&mut self, group: u32) {
        for lane in 0..LANES {
            if let Some(place) = self.places[lane] {
                let vector = self.vector(lane);
                self.candidates += self.index.offer_one_by_one(group, vector, false, &mut self.best[place]);
            }
        }
    }

    fn vector(&self, lane: usize) -> &'a [f64] {
        self.probe.vector(self.probe.leaves[self.leaf].first as usize + lane)
    }

    /// The nearer part of a node first.
    fn by_boxes(&mut self, root: u32, cancel: &Cancel) {
        let build = &self.index.side.blocks;
        let own = (self.probe, self.leaf);
        let mut left = vec![(0.0, root)];
        while let Some((sum, node)) = left.pop() {
            if sum > self.box_limit {
                continue;
            }
            if let Some(leaf) = build.nodes[node as usize].leaf {
                if cancel.is_cancelled() {
                    return;
                }
                self.visit(leaf as usize);
                continue;
            }
            let children = [node + 1, build.nodes[node as usize + 1].skip];
            let [one, other] = children.map(|child| (box_sum::<R, M>(build, child, own).get(), child));
            let (near, far) = if other.0 < one.0 { (other, one) } else { (one, other) };
            left.extend([far, near]);
        }
    }

    /// Visits the leaves with the nearest centres.
    fn nearest_leaves(&mut self, leaves: Range<usize>) -> Nearest<R> {
        let Some(sums) = centre_sums::<R, M>(&self.index.side.blocks, (self.probe, self.leaf)) else {
            return Nearest { sums: None, visited: Vec::new() };
        };
        let mut order: Vec<usize> = leaves.collect();
        let by_sum = |a: &usize, b: &usize| sums[*a].get().total_cmp(&sums[*b].get());
        if order.len() > NEAREST_LEAVES {
            order.select_nth_unstable_by(NEAREST_LEAVES, by_sum);
            order.truncate(NEAREST_LEAVES);
        }
        order.iter().for_each(|&leaf| self.visit(leaf));
        Nearest { sums: Some(sums), visited: order }
    }

    fn visit_unless_far(&mut self, leaf: usize, nearest: &Nearest<R>) {
        let build = &self.index.side.blocks;
        if nearest.visited.contains(&leaf) {
            return;
        }
        if let (Some(sums), Some(reach)) = (&nearest.sums, &self.reach)
            && let (Some(radius), Some(own)) = (build.radius(leaf), self.probe.radius(self.leaf))
        {
            let limit: R = reach.around(radius + own).of_points((self.norm, build.leaves[leaf].norm));
            if sums[leaf].exceeds(limit) {
                return;
            }
        }
        self.visit(leaf);
    }

    /// Keeps what of a leaf may be as near as the neighbours so far.
    fn visit(&mut self, leaf: usize) {
        let build = &self.index.side.blocks;
        let (a, b) = (&self.probe.leaves[self.leaf], &build.leaves[leaf]);
        self.candidates += b.len as usize * self.best.len();
        let (Some(rows), Some(lanes)) = (build.lanes(b), self.probe.lanes(a)) else {
            self.offer_all(b.first..b.first + b.len);
            return;
        };
        if b.norm > self.norm {
            self.norm = b.norm;
            (0..LANES).for_each(|lane| self.set_limit(lane));
        }
        let present = u16::MAX >> (LANES - b.len as usize);
        let masks = near_sums::<R, M>(rows, lanes, present, &self.limits, &mut self.sums);
        let mut full = 0u16;
        for (row, mut mask) in masks.into_iter().enumerate().take(b.len as usize) {
            while mask != 0 {
                let lane = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                self.kept[lane].push((self.sums[row][lane], b.first + row as u32));
                full |= u16::from(self.kept[lane].len() >= self.full[lane]) << lane;
            }
        }
        while full != 0 {
            self.thin_out(full.trailing_zeros() as usize);
            full &= full - 1;
        }
    }

    fn offer_all(&mut self, positions: Range<u32>) {
        let build = &self.index.side.blocks;
        for lane in 0..LANES {
            let Some(place) = self.places[lane] else { continue };
            for position in positions.clone() {
                let (row, vector) = (build.rows[position as usize], self.vector(lane));
                self.index.offer(row, build.vector(position as usize), vector, &mut self.best[place]);
            }
            self.verified += positions.len();
        }
    }

    /// Forgets what of a lane cannot be a neighbour.
    fn thin_out(&mut self, lane: usize) {
        let Some(place) = self.places[lane] else { return };
        let wanted = self.best[place].wanted().rows;
        let kept = &mut self.kept[lane];
        if kept.len() < wanted {
            return;
        }
        let (_, worst, _) = kept.select_nth_unstable_by(wanted - 1, |a, b| a.0.get().total_cmp(&b.0.get()));
        self.worst[lane] = Some(worst.0);
        self.set_limit(lane);
        let limit = self.limits[lane];
        let kept = &mut self.kept[lane];
        kept.retain(|(sum, _)| !sum.exceeds(limit));
        self.full[lane] = kept.len() + wanted.max(16);
    }

    fn set_limit(&mut self, lane: usize) {
        let norms = (self.norm, self.norm);
        let (measure, dimension) = (self.index.measure, self.index.side.blocks.dimension);
        let reach = |worst: R| Reach::of_sum(measure, dimension, worst, norms);
        if let Some(worst) = self.worst[lane] {
            self.limits[lane] = reach(worst).of_points(norms);
        }
        let lanes = (0..LANES).filter(|&lane| self.places[lane].is_some());
        // the widest of all, where each has one
        let worst = lanes.map(|lane| self.worst[lane]).reduce(|a, b| match (a?, b?) {
            (a, b) if a < b => Some(b),
            (a, _) => Some(a),
        });
        if let Some(Some(worst)) = worst {
            let reach = reach(worst);
            self.box_limit = reach.of_boxes::<R>((self.index.side.blocks.corner, self.probe.corner)).get();
            self.reach = Some(reach);
        }
    }

    /// Offers what was kept.
    fn finish(&mut self) {
        for lane in 0..LANES {
            self.thin_out(lane);
            let Some(place) = self.places[lane] else { continue };
            let vector = self.vector(lane);
            let build = &self.index.side.blocks;
            for (_, position) in self.kept[lane].drain(..) {
                let row = build.rows[position as usize];
                self.index.offer(row, build.vector(position as usize), vector, &mut self.best[place]);
                self.verified += 1;
            }
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
