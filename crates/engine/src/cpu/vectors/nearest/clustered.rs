//! Neighbours in the clusters whose centres are nearest to a point.
//!
//! ```text
//! points --sums with centres--> (cluster, point), by cluster --sixteen at a time--> leaves of the cluster --> kept
//! ```
//!
//! A cluster is read once for all points that visit it, which stand side by side meanwhile. Each point visits its
//! nearest cluster before any other, so that little is kept of the others. What is kept of a point in all of them is
//! ranked by its score in the end, as it is where every leaf is visited.

use std::ops::Range;

use super::super::blocks::{Blocks, LeafOf};
use super::super::clusters::Clusters;
use super::super::kernel::{ABREAST, MANY_ABREAST, sums_abreast};
use super::super::lanes::{self, LANES, Lanes, Plain, Real, Task, bits};
use super::super::metric::Metric;
use super::super::slack::Slack;
use super::kept::Kept;
use super::ranked::NearestBlocks;
use super::ranking::Ranking;
use super::walk::beyond_all;
use crate::nearest::{Best, Wanted};
use crate::{Cancel, Counts};

/// Points that stand side by side at once, in sixteens: so many that their numbers stay in the cache of a core.
const MOST_PACKS: usize = 16;

/// A search in the clusters of a group.
pub(super) struct Clustered<'a, R, M> {
    pub(super) index: &'a NearestBlocks<R, M>,
    pub(super) clusters: &'a Clusters<R>,
    pub(super) probe: &'a Blocks<R>,
    /// How many clusters a point visits.
    pub(super) visited: usize,
    pub(super) wanted: Wanted,
}

/// A point on its way through its clusters.
#[derive(Debug)]
struct Point<R> {
    /// Where its numbers are.
    leaf: usize,
    lane: usize,
    kept: Kept<R>,
    /// No larger norm has been met, its own included.
    norm: f64,
}

/// A cluster and the number of a point that visits it.
type Visit = (u32, u32);

impl<R: Real, M: Metric> Clustered<'_, R, M> {
    /// Offers each of `best` neighbours of the point at its place of `positions`, which are ascending and of the group.
    pub(super) fn nearest(&self, positions: &[u32], best: &mut [Best<i64>], cancel: &Cancel) -> Counts {
        let mut counts = Counts::default();
        let mut points: Vec<Point<R>> = positions.iter().map(|&position| self.point(position as usize)).collect();
        let (mut first, mut others) = self.visits(&points, cancel);
        for visits in [&mut first, &mut others] {
            visits.sort_unstable();
            for some in visits.chunk_by(|(a, _), (b, _)| a == b).take_while(|_| !cancel.is_cancelled()) {
                let leaves = self.clusters.leaves[some[0].0 as usize].clone();
                for some in some.chunks(MOST_PACKS * LANES).take_while(|_| !cancel.is_cancelled()) {
                    counts.candidates += self.visit(leaves.clone(), some, &mut points, cancel);
                }
            }
        }
        let mut ranking = Ranking::default();
        let searched = points.iter_mut().zip(positions).zip(best);
        for ((point, &position), best) in searched.take_while(|_| !cancel.is_cancelled()) {
            let vector = self.probe.vector(position as usize);
            counts.candidates += self.index.offer_one_by_one(self.clusters.group, vector, false, best);
            let worst = point.kept.find_worst(self.wanted.rows);
            let limit = self.slack(point.norm).limit(Plain::load(&[worst; LANES])).numbers()[0];
            let near: Vec<u32> = point.kept.drain_within(limit).collect();
            counts.verified += near.len();
            self.index.offer_ranked(&near, vector, &mut ranking, best);
        }
        counts
    }

    fn point(&self, position: usize) -> Point<R> {
        let leaf = self.probe.leaf_of(position);
        let first = self.probe.leaves[leaf].first as usize;
        let norm = self.probe.leaves[leaf].norm;
        Point { leaf, lane: position - first, kept: Kept::new(self.wanted.rows), norm }
    }

    /// The nearest cluster of each point, and the others that it visits.
    fn visits(&self, points: &[Point<R>], cancel: &Cancel) -> (Vec<Visit>, Vec<Visit>) {
        let visited = self.visited.min(self.clusters.len());
        let mut first = Vec::with_capacity(points.len());
        let mut others = Vec::with_capacity(points.len() * (visited - 1));
        let mut placed: Vec<R::Placed> = Vec::with_capacity(self.clusters.len());
        let mut number = 0;
        for of_leaf in points.chunk_by(|a, b| a.leaf == b.leaf).take_while(|_| !cancel.is_cancelled()) {
            let leaf = LeafOf { blocks: self.probe, leaf: of_leaf[0].leaf };
            let sums = self.probe.lanes(leaf.points()).map_or(Vec::new(), |lanes| self.clusters.sums::<M>(lanes));
            for point in of_leaf {
                placed.clear();
                placed.extend(sums.iter().zip(0..).map(|(sums, cluster)| sums[point.lane].at(cluster)));
                placed.select_nth_unstable(visited - 1);
                let nearest = &mut placed[..visited];
                nearest.sort_unstable();
                first.push((R::place(nearest[0]), number));
                others.extend(nearest[1..].iter().map(|&cluster| (R::place(cluster), number)));
                number += 1;
            }
        }
        (first, others)
    }

    fn slack(&self, norm: f64) -> Slack<R> {
        Slack::of(self.index.measure, M::SUM, self.probe.dimension, norm)
    }

    /// Lets some points visit the leaves of a cluster, and returns how many pairs were looked at.
    fn visit(&self, leaves: Range<u32>, visits: &[Visit], points: &mut [Point<R>], cancel: &Cancel) -> usize {
        let build = &self.index.side.blocks;
        let of_cluster = &build.leaves[leaves.start as usize..leaves.end as usize];
        let norm = of_cluster.iter().map(|leaf| leaf.norm).fold(0.0, f64::max);
        let rows: usize = of_cluster.iter().map(|leaf| leaf.len as usize).sum();
        let mut packs: Vec<Pack<R>> = visits.chunks(LANES).map(|sixteen| self.pack(sixteen, norm, points)).collect();
        let wanted = self.wanted.rows;
        lanes::run(VisitCluster::<R, M> { search: self, leaves, packs: &mut packs, points, wanted, cancel });
        rows * visits.len()
    }

    /// Up to sixteen points side by side, for points of the build side with norms up to `norm`.
    fn pack(&self, visits: &[Visit], norm: f64, points: &mut [Point<R>]) -> Pack<R> {
        let norm = visits.iter().map(|&(_, point)| points[point as usize].norm).fold(norm, f64::max);
        let slack = self.slack(norm);
        let mut lanes = vec![R::ZERO; self.probe.depth * LANES];
        let (mut numbers, mut worst) = ([0; LANES], [R::INFINITY; LANES]);
        for (lane, &(_, number)) in visits.iter().enumerate() {
            let point = &mut points[number as usize];
            point.norm = norm;
            (numbers[lane], worst[lane]) = (number, point.kept.worst());
            let leaf = self.probe.lanes(&self.probe.leaves[point.leaf]).unwrap_or(&[]);
            let from = leaf.iter().skip(point.lane).step_by(LANES);
            lanes.iter_mut().skip(lane).step_by(LANES).zip(from).for_each(|(to, &x)| *to = x);
        }
        let mut limits = slack.limit(Plain::load(&worst)).numbers();
        limits[visits.len()..].fill(beyond_all());
        Pack { lanes, numbers, used: u16::MAX >> (LANES - visits.len()), limits, slack }
    }
}

/// Points side by side, which visit the same cluster.
struct Pack<R> {
    /// Their numbers, as those of a leaf.
    lanes: Vec<R>,
    /// Which points they are.
    numbers: [u32; LANES],
    /// Lanes that have a point, a bit each.
    used: u16,
    /// What sums are compared with: nothing is within that of a lane without a point.
    limits: [R; LANES],
    slack: Slack<R>,
}

struct VisitCluster<'v, 'a, R, M> {
    search: &'v Clustered<'a, R, M>,
    leaves: Range<u32>,
    packs: &'v mut [Pack<R>],
    points: &'v mut [Point<R>],
    wanted: usize,
    cancel: &'v Cancel,
}

impl<R: Real, M: Metric> Task<R> for VisitCluster<'_, '_, R, M> {
    type Result = ();

    #[inline(always)]
    fn run<L: Lanes<R>>(self) {
        match L::REGISTERS {
            1 => self.abreast::<L, MANY_ABREAST>(),
            _ => self.abreast::<L, ABREAST>(),
        }
    }
}

impl<R: Real, M: Metric> VisitCluster<'_, '_, R, M> {
    #[inline(always)]
    fn abreast<L: Lanes<R>, const ROWS: usize>(self) {
        let build = &self.search.index.side.blocks;
        for leaf in self.leaves.take_while(|_| !self.cancel.is_cancelled()) {
            let leaf = &build.leaves[leaf as usize];
            let Some(rows) = build.lanes(leaf) else { continue };
            for pack in self.packs.iter_mut() {
                for first in (0..leaf.len as usize).step_by(ROWS) {
                    let limits = L::load(&pack.limits);
                    let Some(sums) = sums_abreast::<R, M, L, ROWS>(rows, first, &pack.lanes, limits) else { continue };
                    for (at, sums) in sums.into_iter().enumerate().take(leaf.len as usize - first) {
                        let near = sums.within(limits) & pack.used;
                        if near == 0 {
                            continue;
                        }
                        let (sums, position) = (sums.numbers(), leaf.first + (first + at) as u32);
                        for lane in bits(near) {
                            let kept = &mut self.points[pack.numbers[lane] as usize].kept;
                            if kept.push(sums[lane], position) {
                                let worst = kept.find_worst(self.wanted);
                                pack.limits[lane] = pack.slack.limit(L::splat(worst)).numbers()[lane];
                                kept.forget_beyond(pack.limits[lane]);
                            }
                        }
                    }
                }
            }
        }
    }
}
