//! How many clusters are visited, so that a sample shows the recall that is asked for.
//!
//! Probe rows are drawn, each as likely as any other. Their exact neighbours are found, and the place of the cluster of
//! each of them among those that its row would visit. That tells the recall for any number of clusters. The numbers are
//! tried from the largest one down, as long as the sample shows the recall for them: the first one that would miss it
//! is passed with a probability of at most one in a hundred, and no smaller one is tried before. More rows are drawn
//! while what they may save is more than what they cost.

use similarity_measures::random::Random;

use super::super::blocks::Blocks;
use super::super::build_tree::Role;
use super::super::frame::Frame;
use super::super::lanes::{LANES, Real};
use super::super::metric::{Metric, side_by_side};
use super::super::points::Points;
use super::super::sorted::Side;
use super::approximate::{Approximate, ROWS_FOR_EACH};
use super::ranked::NearestBlocks;
use crate::condition::VectorCondition;
use crate::error::Result;
use crate::nearest::Best;
use crate::parallel::in_parallel;
use crate::recall::shown_by;
use crate::{BuildContext, PrepareContext};

/// Rows that are drawn at most, where fewer may show the recall.
const MOST_DRAWN: usize = 2048;
/// Rows that are drawn at once, at least.
const FEWEST_AT_ONCE: usize = 64;
/// Each number of clusters that is tried is so much of the one before.
const STEP: f64 = 0.9;
/// A search in clusters is taken where it compares less than so much of what an exact one does.
const WORTHWHILE: f64 = 0.7;

/// The neighbours of a drawn row: how many clusters have to be visited until each of them is found.
type Depths = Vec<usize>;

/// A number of clusters, for one side that is searched for.
pub(super) struct Calibration<'a, R, M> {
    pub(super) index: &'a NearestBlocks<R, M>,
    pub(super) probe: &'a Side<R>,
    pub(super) approximate: &'a Approximate,
    pub(super) context: PrepareContext<'a>,
}

/// Numbers of clusters.
struct Tried {
    /// The least one that is shown to reach the recall.
    shown: Option<usize>,
    /// The least one that reaches it in the sample.
    hoped: usize,
}

impl<R: Real, M: Metric> Calibration<'_, R, M> {
    /// How many clusters each row visits; `None` where an exact search is taken.
    ///
    /// # Errors
    /// A cancelled query.
    pub(super) fn visited(&self) -> Result<Option<usize>> {
        let rows = self.clustered_rows();
        if !self.approximate.asked.is_shown_among(rows) {
            return Ok(None);
        }
        let fewest = self.approximate.asked.recall.fewest_shown();
        let most = (rows / ROWS_FOR_EACH).min(MOST_DRAWN.max(2 * fewest));
        let points = self.drawn(rows, most)?;
        let (mut depths, mut compared): (Vec<Depths>, usize) = (Vec::new(), 0);
        loop {
            let at_once = if depths.is_empty() { fewest + fewest / 4 } else { depths.len() / 2 };
            let end = most.min(depths.len() + at_once.max(FEWEST_AT_ONCE));
            compared += self.add_depths(points.part(depths.len()..end), &mut depths)?;
            let exact = compared as f64 / depths.len() as f64;
            let Tried { shown, hoped } = self.tried(&depths);
            let cost = shown.map_or(exact, |clusters| self.cost(clusters).min(exact));
            let saved = rows as f64 * (cost - self.cost(hoped).min(cost));
            if end == most || saved / 2.0 < (depths.len() / 2).max(FEWEST_AT_ONCE) as f64 * exact {
                let taken = shown.filter(|&clusters| self.cost(clusters) < WORTHWHILE * exact);
                taken.iter().for_each(|&clusters| self.count(&depths, clusters));
                return Ok(taken);
            }
        }
    }

    /// Rows of the probe side that have a group with clusters.
    fn clustered_rows(&self) -> usize {
        let groups = self.index.side.blocks.clusters.iter().map(|clusters| clusters.group);
        groups.map(|group| self.probe.blocks.positions_of(group).len()).sum()
    }

    /// So many of these rows.
    fn drawn(&self, rows: usize, count: usize) -> Result<Points> {
        let (build, probe) = (&self.index.side.blocks, &self.probe.blocks);
        let places: Vec<_> = build.clusters.iter().map(|c| (c.group, probe.positions_of(c.group))).collect();
        let (mut random, mut numbers, mut groups) = (Random::new(0, 0), Vec::new(), Vec::new());
        for _ in 0..count {
            let mut at = (random.uniform() * rows as f64) as usize;
            for (group, positions) in &places {
                if at < positions.len() {
                    numbers.extend_from_slice(probe.vector(positions.start + at));
                    groups.push(*group);
                    break;
                }
                at -= positions.len();
            }
        }
        Points::of_numbers(numbers, groups, probe.dimension)
    }

    /// Adds the depths of drawn points, and returns how many pairs were compared.
    fn add_depths(&self, points: Points, depths: &mut Vec<Depths>) -> Result<usize> {
        let Self { index, context, .. } = self;
        let every = VectorCondition::every_score(index.measure);
        let by = BuildContext::new(context.threads, context.cancel, &|_| Ok(()));
        let side = Side::try_new::<M>(&every, &index.frame, points, Role::Probe(&index.side), &by)?;
        let positions: Vec<u32> = (0..side.blocks.len() as u32).collect();
        let mut best: Vec<Best<i64>> = positions.iter().map(|_| Best::new(self.approximate.asked.wanted)).collect();
        let share = positions.len().div_ceil(context.threads.max(1)).next_multiple_of(LANES);
        let shares = positions.chunks(share).zip(best.chunks_mut(share));
        let of_share = |(positions, best): (&[u32], &mut [Best<i64>])| {
            let counts = index.search(&side, positions, best, context.cancel);
            let found = positions.iter().zip(best).map(|(&at, best)| self.depths(&side.blocks, at, best));
            Ok((counts.candidates, found.collect::<Vec<_>>()))
        };
        let mut compared = 0;
        for (candidates, found) in in_parallel(shares, of_share)? {
            compared += candidates;
            depths.extend(found);
        }
        context.cancel.check()?;
        Ok(compared)
    }

    /// The depths of a point's neighbours.
    fn depths(&self, sample: &Blocks<R>, position: u32, best: &mut Best<i64>) -> Depths {
        let index = self.index;
        let mut neighbours = Vec::new();
        best.take_into(&mut neighbours);
        let group = sample.group_of(sample.leaf_of(position as usize));
        let Some(clusters) = index.side.blocks.clusters_of(group) else { return Vec::new() };
        let sums = clusters.sums::<M>(&of_point::<R, M>(&index.frame, sample.vector(position as usize)));
        let mut order: Vec<R::Placed> = sums.iter().zip(0..).map(|(sums, cluster)| sums[0].at(cluster)).collect();
        order.sort_unstable();
        let mut depths = vec![0; order.len()];
        order.iter().zip(1..).for_each(|(&cluster, depth)| depths[R::place(cluster) as usize] = depth);
        // rows without a cluster are compared with all
        let depth = |row: u32| self.approximate.cluster_of(row).map_or(0, |cluster| depths[cluster as usize]);
        neighbours.iter().map(|neighbour| depth(neighbour.row)).collect()
    }

    /// About how many rows a row is compared with that visits so many clusters.
    fn cost(&self, visited: usize) -> f64 {
        let build = &self.index.side.blocks;
        let clusters: usize = build.clusters.iter().map(|clusters| clusters.len()).sum();
        let of_each = build.len() as f64 / clusters.max(1) as f64;
        visited as f64 * of_each + clusters as f64 / build.clusters.len().max(1) as f64
    }

    fn tried(&self, depths: &[Depths]) -> Tried {
        let all = self.index.side.blocks.clusters.iter().map(|clusters| clusters.len()).max().unwrap_or(1);
        let (mut tried, mut goes_on) = (Tried { shown: None, hoped: all }, true);
        let mut clusters = all;
        while clusters > 0 {
            let shares = shares(depths, clusters);
            goes_on &= self.approximate.asked.recall.is_shown_by(&shares);
            if goes_on {
                tried.shown = Some(clusters);
            }
            if shares.iter().sum::<f64>() < self.approximate.asked.recall.share() * shares.len() as f64 {
                break;
            }
            tried.hoped = clusters;
            clusters = ((clusters as f64 * STEP) as usize).min(clusters - 1);
        }
        tried
    }

    fn count(&self, depths: &[Depths], clusters: usize) {
        let neighbours: usize = depths.iter().map(Vec::len).sum();
        let found = depths.iter().flatten().filter(|&&depth| depth <= clusters).count();
        self.approximate.counters.neighbours.add(neighbours);
        self.approximate.counters.found.add(found);
        self.approximate.counters.shown.add((shown_by(&shares(depths, clusters)) * neighbours as f64) as usize);
    }
}

/// The share of the neighbours of each row that are found in so many clusters.
fn shares(depths: &[Depths], clusters: usize) -> Vec<f64> {
    let share = |depths: &Depths| {
        let found = depths.iter().filter(|&&depth| depth <= clusters).count();
        if depths.is_empty() { 1.0 } else { found as f64 / depths.len() as f64 }
    };
    depths.iter().map(share).collect()
}

/// A vector as the only point of a leaf.
fn of_point<R: Real, M: Metric>(frame: &Frame, vector: &[f64]) -> Vec<R> {
    let mut point = vec![R::ZERO; vector.len()];
    frame.place(vector, &mut point);
    side_by_side::<R, M>(std::iter::once(point.as_slice()), vector.len())
}
