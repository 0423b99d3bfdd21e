//! Some points of a leaf of the probe side on their way through the build side.
//!
//! The sums of the filter say how far a neighbour may be: as far as the k-th least sum so far, allowing for rounding.
//! In few dimensions, where a sum costs no more than keeping it, that is all that is learnt first, and the leaves that
//! had any near sum are seen again in the end. In more, what may be a neighbour is kept at once.

use std::ops::Range;

use super::super::blocks::{Leaf, LeafOf};
use super::super::kernel::{ABREAST, MANY_ABREAST, sums_abreast};
use super::super::lanes::LANES;
use super::super::lanes::Real;
use super::super::lanes::{self, Lanes, Plain, Task, bits};
use super::super::metric::Metric;
use super::super::reach::Reach;
use super::super::search::{box_sum, centre_sums};
use super::super::slack::Slack;
use super::collected::Collected;
use super::kept::Kept;
use super::ranked::NearestBlocks;
use super::ranking::Ranking;
use super::tops::Tops;
use crate::Cancel;
use crate::nearest::Best;

/// Dimensions up to which leaves are seen again.
const FEW_DIMENSIONS: usize = 8;
/// Leaves whose nearest others are visited before all are, where there are no boxes.
const NEAREST_LEAVES: usize = 8;

/// What one walk after the other needs memory for.
#[derive(Debug)]
pub(super) struct Scratch<R> {
    tops: Tops<R>,
    /// What may be a neighbour, for each lane.
    kept: [Kept<R>; LANES],
    /// Leaves with near sums, where they are seen again.
    near: Vec<u32>,
    collected: Collected,
    ranking: Ranking,
    /// Nodes to be visited, and the sums of gaps to them.
    nodes: Vec<(R, u32)>,
}

impl<R: Real> Default for Scratch<R> {
    fn default() -> Self {
        let kept = std::array::from_fn(|_| Kept::new(0));
        let (tops, collected, ranking) = (Tops::default(), Collected::default(), Ranking::default());
        Self { tops, kept, near: Vec::new(), collected, ranking, nodes: Vec::new() }
    }
}

/// What a walk without boxes knows of leaves.
pub(super) struct Centres<R> {
    /// The sum of each leaf's centre with that of the walk's leaf.
    sums: Option<Vec<R>>,
    /// The leaves that it has visited.
    visited: Vec<usize>,
}

/// Which balls are too far for a walk.
#[derive(Clone, Copy)]
struct Far<R> {
    /// Reach of a neighbour.
    reach: Reach,
    /// A sum within which no centre is too far, whatever its ball: most are, so that little is computed for each.
    surely_near: R,
    /// The norm of points up to which that holds.
    norm: f64,
}

/// Some points of a leaf on their way through the build side.
pub(super) struct Walk<'a, R, M> {
    index: &'a NearestBlocks<R, M>,
    pub(super) probe: LeafOf<'a, R>,
    /// The lanes of the leaf that are searched, a bit each; their bests in turn.
    lanes: u16,
    best: &'a mut [Best<i64>],
    pub(super) scratch: Scratch<R>,
    /// Neighbours wanted.
    wanted: usize,
    /// What sums are compared with: nothing is within that of a lane that is not searched.
    limits: [R; LANES],
    slack: Slack<R>,
    /// Balls that are too far; `None` since the limits have changed.
    far: Option<Far<R>>,
    /// The points met so far have no larger one.
    norm: f64,
    pub(super) candidates: usize,
    pub(super) verified: usize,
}

impl<'a, R: Real, M: Metric> Walk<'a, R, M> {
    /// `positions` are of one leaf, ascending.
    pub(super) fn new(
        index: &'a NearestBlocks<R, M>,
        probe: LeafOf<'a, R>,
        positions: &[u32],
        best: &'a mut [Best<i64>],
        mut scratch: Scratch<R>,
    ) -> Self {
        let Leaf { first, norm, .. } = *probe.points();
        let lanes = positions.iter().fold(0, |lanes, position| lanes | 1 << (position - first));
        let wanted = best.first().map_or(1, |best| best.wanted().rows);
        scratch.kept.iter_mut().for_each(|kept| kept.restart(wanted));
        scratch.tops.restart(if wanted <= Tops::<R>::MOST { wanted } else { 0 });
        let limits = std::array::from_fn(|lane| if lanes >> lane & 1 == 1 { R::INFINITY } else { beyond_all() });
        Self {
            index,
            probe,
            lanes,
            best,
            scratch,
            wanted,
            limits,
            slack: Slack::of(index.measure, M::SUM, probe.blocks.dimension, norm),
            far: None,
            norm,
            candidates: 0,
            verified: 0,
        }
    }

    /// Offers the neighbours of the boxes under `root`, nearer ones first.
    pub(super) fn by_boxes(&mut self, root: u32, cancel: &Cancel) {
        lanes::run(ByBoxes { walk: self, root, cancel });
    }

    /// Visits the leaves with the nearest centres.
    pub(super) fn nearest_leaves(&mut self, leaves: Range<usize>) -> Centres<R> {
        let Some(sums) = centre_sums::<R, M>(&self.index.side.blocks, self.probe) else {
            return Centres { sums: None, visited: Vec::new() };
        };
        let mut order: Vec<usize> = leaves.collect();
        let by_sum = |a: &usize, b: &usize| sums[*a].get().total_cmp(&sums[*b].get());
        if order.len() > NEAREST_LEAVES {
            order.select_nth_unstable_by(NEAREST_LEAVES, by_sum);
            order.truncate(NEAREST_LEAVES);
        }
        order.iter().for_each(|&leaf| lanes::run(Visit { walk: self, leaf }));
        Centres { sums: Some(sums), visited: order }
    }

    /// Visits a leaf that it has not visited, unless its ball is too far.
    pub(super) fn visit_unless_far(&mut self, leaf: usize, centres: &Centres<R>) {
        if centres.visited.contains(&leaf) {
            return;
        }
        let build = &self.index.side.blocks;
        if let Some(sums) = &centres.sums
            && let (Some(radius), Some(self_join)) = (build.radius(leaf), self.probe.blocks.radius(self.probe.leaf))
        {
            let norms = (self.norm, build.leaves[leaf].norm);
            let Far { reach, surely_near, .. } = self.far(norms.0.max(norms.1), self_join);
            if sums[leaf].exceeds(surely_near)
                && sums[leaf].exceeds(reach.around(radius + self_join).of_points::<R>(norms))
            {
                return;
            }
        }
        lanes::run(Visit { walk: self, leaf });
    }

    /// Which balls are too far, among points with norms up to `norm`, for a leaf in a ball of the radius `self_join`.
    fn far(&mut self, norm: f64, self_join: f64) -> Far<R> {
        match self.far {
            Some(far) if norm <= far.norm => far,
            _ => {
                let (measure, build) = (self.index.measure, &self.index.side.blocks);
                let reach = Reach::of_sum(measure, M::SUM, build.dimension, self.farthest(), (norm, norm));
                // a limit never falls where a radius or a norm rises
                let surely_near = reach.around(build.least_radius() + self_join).of_points((0.0, 0.0));
                *self.far.insert(Far { reach, surely_near, norm })
            }
        }
    }

    /// The largest sum of a neighbour so far.
    fn farthest(&self) -> R {
        let worst = if self.has_tops() { self.scratch.tops.last::<Plain<R>>().numbers() } else { self.worst() };
        let lanes = worst.into_iter().enumerate().filter(|(lane, _)| self.lanes >> lane & 1 == 1);
        lanes.fold(R::ZERO, |most, (_, sum)| if sum > most { sum } else { most })
    }

    /// Offers what is left.
    pub(super) fn finish(&mut self) {
        lanes::run(Finish { walk: self });
    }

    /// A sum that no neighbour of a lane exceeds but for rounding, where there are more than can be held as tops.
    fn worst(&self) -> [R; LANES] {
        std::array::from_fn(|lane| self.scratch.kept[lane].worst())
    }

    fn has_tops(&self) -> bool {
        self.wanted <= Tops::<R>::MOST
    }

    /// Whether leaves are seen again.
    fn sees_again(&self) -> bool {
        self.has_tops() && self.index.side.blocks.dimension <= FEW_DIMENSIONS
    }

    fn vector(&self, lane: usize) -> &'a [f64] {
        self.probe.blocks.vector(self.probe.points().first as usize + lane)
    }

    /// The best of a lane that is searched.
    fn place(&self, lane: usize) -> usize {
        (self.lanes & ((1 << lane) - 1)).count_ones() as usize
    }

    /// Offers unfilterable rows of the build side.
    pub(super) fn offer_unfilterable(&mut self, group: u32) {
        for lane in bits(self.lanes) {
            let (vector, place) = (self.vector(lane), self.place(lane));
            self.candidates += self.index.offer_one_by_one(group, vector, false, &mut self.best[place]);
        }
    }

    /// Offers a point of the build side to a lane.
    fn offer(&mut self, lane: usize, position: usize) {
        let build = &self.index.side.blocks;
        let (vector, place) = (self.vector(lane), self.place(lane));
        self.index.offer(self.index.ties[position], build.vector(position), vector, &mut self.best[place]);
        self.verified += 1;
    }

    fn offer_leaf(&mut self, positions: Range<u32>) {
        for lane in bits(self.lanes) {
            positions.clone().for_each(|position| self.offer(lane, position as usize));
        }
    }

    /// Compares a leaf with as many of its points at once as there are registers for.
    #[inline(always)]
    fn visit<L: Lanes<R>>(&mut self, leaf: usize) {
        match L::REGISTERS {
            1 => self.visit_abreast::<L, MANY_ABREAST>(leaf),
            _ => self.visit_abreast::<L, ABREAST>(leaf),
        }
    }

    /// Learns from a leaf how far neighbours may be; keeps what may be one where leaves are not seen again.
    #[inline(always)]
    fn visit_abreast<L: Lanes<R>, const ROWS: usize>(&mut self, leaf: usize) {
        let build = &self.index.side.blocks;
        let (a, b) = (self.probe.points(), &build.leaves[leaf]);
        self.candidates += b.len as usize * self.best.len();
        let (Some(rows), Some(lanes)) = (build.lanes(b), self.probe.blocks.lanes(a)) else {
            self.offer_leaf(b.first..b.first + b.len);
            return;
        };
        if b.norm > self.norm {
            // somewhat more, so that the next leaf is not beyond it again
            self.norm = b.norm * 1.25;
            self.slack = Slack::of(self.index.measure, M::SUM, build.dimension, self.norm);
            self.set_limits::<L>();
        }
        let (sees_again, has_tops) = (self.sees_again(), self.has_tops());
        let (mut is_near, mut waiting) = (false, None);
        for first in (0..b.len as usize).step_by(ROWS) {
            let limits = L::load(&self.limits);
            let Some(sums) = sums_abreast::<R, M, L, ROWS>(rows, first, lanes, limits) else { continue };
            for (at, sums) in sums.into_iter().enumerate().take(b.len as usize - first) {
                let near = sums.within(limits) & self.lanes;
                if near == 0 {
                    continue;
                }
                is_near = true;
                if has_tops {
                    match waiting.take() {
                        Some(other) => self.scratch.tops.take([other, sums]),
                        None => waiting = Some(sums),
                    }
                }
                if !sees_again {
                    self.keep::<L>(near, sums.numbers(), b.first + (first + at) as u32);
                }
            }
            if has_tops {
                if let Some(sums) = waiting.take() {
                    self.scratch.tops.take([sums]);
                }
                self.set_limits::<L>();
            }
        }
        if sees_again && is_near {
            self.scratch.near.push(leaf as u32);
        }
    }

    #[inline(always)]
    fn set_limits<L: Lanes<R>>(&mut self) {
        let worst = if self.has_tops() { self.scratch.tops.last::<L>() } else { L::load(&self.worst()) };
        self.far = None;
        // lanes that are not searched stay where they are
        let beyond = |lane: usize| if self.lanes >> lane & 1 == 1 { R::INFINITY } else { beyond_all() };
        let limits = self.slack.limit(worst);
        self.limits = match self.lanes {
            u16::MAX => limits.numbers(),
            _ => limits.least(L::load(&std::array::from_fn::<R, LANES, _>(beyond))).numbers(),
        };
    }

    #[inline(always)]
    fn keep<L: Lanes<R>>(&mut self, near: u16, sums: [R; LANES], position: u32) {
        for lane in bits(near) {
            let is_full = self.scratch.kept[lane].push(sums[lane], position);
            if is_full && !self.has_tops() {
                self.thin_out::<L>(lane);
            }
        }
    }

    /// Collects what may be neighbours in the leaves that are seen again.
    #[inline(always)]
    fn see_again<L: Lanes<R>>(&mut self) {
        let (build, limits) = (&self.index.side.blocks, self.limits);
        let Scratch { near, collected, .. } = &mut self.scratch;
        collected.make_room(near.len() * LANES);
        // without lanes there was nothing to be near
        let Some(self_join) = self.probe.blocks.lanes(self.probe.points()) else { return };
        for leaf in near.drain(..) {
            let b = &build.leaves[leaf as usize];
            let Some(rows) = build.lanes(b) else { continue };
            let present = u16::MAX >> (LANES as u32 - b.len);
            for lane in bits(self.lanes) {
                let mut sums = L::splat(R::ZERO);
                for (self_join, rows) in self_join.chunks_exact(LANES).zip(rows.chunks_exact(LANES)) {
                    sums = M::add(sums, L::splat(self_join[lane]), L::load(rows));
                }
                collected.add::<R, L>(lane, sums.within(L::splat(limits[lane])) & present, b.first);
            }
        }
    }

    /// Collects what was kept and is not too far.
    fn collect_kept(&mut self) {
        let Scratch { kept, collected, .. } = &mut self.scratch;
        collected.make_room(kept.iter().map(Kept::len).max().unwrap_or(0));
        for (lane, (kept, &limit)) in kept.iter_mut().zip(&self.limits).enumerate() {
            kept.drain_within(limit).for_each(|position| collected.push(lane, position));
        }
    }

    /// Offers a lane what was collected for it.
    #[inline(always)]
    fn offer_collected(&mut self, lane: usize) {
        let (vector, place) = (self.vector(lane), self.place(lane));
        let Scratch { collected, ranking, .. } = &mut self.scratch;
        let positions = collected.of(lane);
        self.verified += positions.len();
        self.index.offer_ranked(positions, vector, ranking, &mut self.best[place]);
    }

    /// Forgets what of a lane cannot be a neighbour.
    #[inline(always)]
    fn thin_out<L: Lanes<R>>(&mut self, lane: usize) {
        self.scratch.kept[lane].find_worst(self.wanted);
        self.set_limits::<L>();
        self.scratch.kept[lane].forget_beyond(self.limits[lane]);
    }
}

/// What no sum is within.
pub(super) fn beyond_all<R: Real>() -> R {
    R::ZERO.minus(R::INFINITY)
}

struct Visit<'w, 'a, R, M> {
    walk: &'w mut Walk<'a, R, M>,
    leaf: usize,
}

impl<R: Real, M: Metric> Task<R> for Visit<'_, '_, R, M> {
    type Result = ();

    #[inline(always)]
    fn run<L: Lanes<R>>(self) {
        self.walk.visit::<L>(self.leaf);
    }
}

struct ByBoxes<'w, 'a, R, M> {
    walk: &'w mut Walk<'a, R, M>,
    root: u32,
    cancel: &'w Cancel,
}

impl<R: Real, M: Metric> Task<R> for ByBoxes<'_, '_, R, M> {
    type Result = ();

    #[inline(always)]
    fn run<L: Lanes<R>>(self) {
        let Self { walk, root, cancel } = self;
        let build = &walk.index.side.blocks;
        let self_join = walk.probe.blocks.bounds(walk.probe.points().node as usize);
        let mut left = std::mem::take(&mut walk.scratch.nodes);
        left.clear();
        left.push((R::ZERO, root));
        while let Some((sum, node)) = left.pop() {
            if L::splat(sum).within(L::load(&walk.limits)) == 0 {
                continue;
            }
            if let Some(leaf) = build.nodes[node as usize].leaf {
                if cancel.is_cancelled() {
                    break;
                }
                walk.visit::<L>(leaf as usize);
                continue;
            }
            let children = [node + 1, build.nodes[node as usize + 1].skip];
            let one = (box_sum::<R, M, L>(build.bounds(children[0] as usize), self_join), children[0]);
            let other = (box_sum::<R, M, L>(build.bounds(children[1] as usize), self_join), children[1]);
            let (near, far) = if other.0 < one.0 { (other, one) } else { (one, other) };
            left.extend([far, near]);
        }
        walk.scratch.nodes = left;
    }
}

struct Finish<'w, 'a, R, M> {
    walk: &'w mut Walk<'a, R, M>,
}

impl<R: Real, M: Metric> Task<R> for Finish<'_, '_, R, M> {
    type Result = ();

    #[inline(always)]
    fn run<L: Lanes<R>>(self) {
        let walk = self.walk;
        if walk.sees_again() {
            walk.see_again::<L>();
        } else {
            for lane in bits(walk.lanes) {
                if !walk.has_tops() && walk.scratch.kept[lane].len() >= walk.wanted {
                    walk.thin_out::<L>(lane);
                }
            }
            walk.collect_kept();
        }
        for lane in bits(walk.lanes) {
            walk.offer_collected(lane);
        }
    }
}
