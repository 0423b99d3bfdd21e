//! How many clusters are visited, so that a sample shows the recall that is asked for.
//!
//! Probe rows are drawn, each as likely as any other. Their exact neighbours are found, and the place of the cluster of
//! each of them among those that its row would visit. That tells the recall for any number of clusters. The numbers are
//! tried from the largest one down, as long as the sample shows the recall for them: the first one that would miss it
//! is passed with a probability of at most one in a hundred, and no smaller one is tried before.
//!
//! A few rows come first. Where even the number of clusters that they hope for saves nothing, no more are drawn. More
//! rows are drawn later while what they may save is more than what they cost.
//!
//! The sample is bounded, since nobody is asked for its memory: vectors are copied for some rows at a time, and a
//! recall that takes too large a sample is left to an exact search. Nothing depends on the number of threads.

use std::ops::Range;

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
use crate::parallel::each_in_turn;
use crate::recall::shown_by;
use crate::{BuildContext, PrepareContext};

/// Rows that are drawn at most, where fewer may show the recall.
const MOST_DRAWN: usize = 2048;
/// Rows that are drawn at most in any case.
const MOST_EVER: usize = 10_000;
/// Neighbours of all drawn rows, at most.
const MOST_NEIGHBOURS: usize = 1 << 24;
/// Rows that are drawn first, and that are drawn at once, at least.
const FEWEST_AT_ONCE: usize = 64;
/// Rows whose neighbours are found at once, at most.
const MOST_AT_ONCE: usize = 1024;
/// Numbers of their vectors, about.
const NUMBERS_AT_ONCE: usize = 1 << 21;
/// Neighbours of them, about.
const NEIGHBOURS_AT_ONCE: usize = 1 << 20;
/// Parts of these rows, which threads take one after the other.
const PARTS: usize = 16;
/// Each number of clusters that is tried is so much of the one before.
const STEP: f64 = 0.9;
/// A search in clusters is taken where it compares less than so much of what an exact one does.
const WORTHWHILE: f64 = 0.7;

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
        let mut drawing = Drawing::of(&self.index.side.blocks, &self.probe.blocks);
        let rows = drawing.rows;
        let fewest = self.approximate.asked.recall.fewest_shown();
        let in_memory = MOST_EVER.min(MOST_NEIGHBOURS / self.approximate.asked.wanted.rows);
        if !self.approximate.asked.is_shown_among(rows) || fewest > in_memory {
            return Ok(None);
        }
        let most = (rows / ROWS_FOR_EACH).min(MOST_DRAWN.max(2 * fewest)).min(in_memory);
        let (cost, mut sample) = (Cost::of(&self.index.side.blocks), Sample::default());
        loop {
            let next = match sample.len() {
                0 => FEWEST_AT_ONCE,
                drawn if drawn < fewest => fewest + fewest / 4 - drawn,
                drawn => drawn / 2,
            };
            let end = most.min(sample.len() + next.max(FEWEST_AT_ONCE));
            while sample.len() < end {
                let points = drawing.points(self.rows_at_once().min(end - sample.len()))?;
                self.add(points, &mut sample)?;
                // rows that tie may be many
                if sample.depths.len() > MOST_NEIGHBOURS {
                    return Ok(None);
                }
            }
            let exact = sample.compared as f64 / sample.len() as f64;
            let Tried { shown, hoped } = self.tried(&sample);
            if cost.of_visits(hoped) >= WORTHWHILE * exact {
                return Ok(None);
            }
            let so_far = shown.map_or(exact, |clusters| cost.of_visits(clusters).min(exact));
            let saved = rows as f64 * (so_far - cost.of_visits(hoped)).max(0.0);
            let is_settled = saved / 2.0 < (sample.len() / 2).max(FEWEST_AT_ONCE) as f64 * exact;
            if sample.len() == most || sample.len() >= fewest && is_settled {
                let taken = shown.filter(|&clusters| cost.of_visits(clusters) < WORTHWHILE * exact);
                taken.iter().for_each(|&clusters| self.count(&sample, clusters));
                return Ok(taken);
            }
        }
    }

    /// How many drawn rows have their neighbours found at once.
    fn rows_at_once(&self) -> usize {
        let of_numbers = NUMBERS_AT_ONCE / self.probe.blocks.dimension.max(1);
        of_numbers.min(NEIGHBOURS_AT_ONCE / self.approximate.asked.wanted.rows).clamp(LANES, MOST_AT_ONCE)
    }

    /// Adds drawn points to the sample.
    fn add(&self, points: Points, sample: &mut Sample) -> Result<()> {
        let Self { index, context, .. } = self;
        let every = VectorCondition::every_score(index.measure);
        let by = BuildContext::new(context.threads, context.cancel, &|_| Ok(()));
        let side = Side::try_new::<M>(&every, &index.frame, points, Role::Probe(&index.side), &by)?;
        let positions: Vec<u32> = (0..side.blocks.len() as u32).collect();
        let parts: Vec<&[u32]> = positions.chunks(positions.len().div_ceil(PARTS).next_multiple_of(LANES)).collect();
        let of_part = |part: usize| {
            let mut best: Vec<Best<i64>> =
                parts[part].iter().map(|_| Best::new(self.approximate.asked.wanted)).collect();
            let counts = index.search(&side, parts[part], &mut best, context.cancel);
            let mut found = Sample { compared: counts.candidates, ..Sample::default() };
            for (&position, best) in parts[part].iter().zip(&mut best).take_while(|_| !context.cancel.is_cancelled()) {
                found.push(self.depths(&side.blocks, position, best));
            }
            found
        };
        let found = each_in_turn(parts.len(), context.threads, of_part);
        context.cancel.check()?;
        found.into_iter().for_each(|found| sample.append(found));
        Ok(())
    }

    /// How many clusters have to be visited until each of a point's neighbours is found.
    fn depths(&self, sample: &Blocks<R>, position: u32, best: &mut Best<i64>) -> Vec<u32> {
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

    fn tried(&self, sample: &Sample) -> Tried {
        let all = self.index.side.blocks.clusters.iter().map(|clusters| clusters.len()).max().unwrap_or(1);
        let (mut tried, mut goes_on) = (Tried { shown: None, hoped: all }, true);
        let mut clusters = all;
        while clusters > 0 {
            let shares = sample.shares(clusters);
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

    /// Counts neighbours as the recall does: by the mean share of a row, however many neighbours it has.
    fn count(&self, sample: &Sample, clusters: usize) {
        let (neighbours, shares) = (sample.depths.len(), sample.shares(clusters));
        let found = shares.iter().sum::<f64>() / shares.len() as f64;
        self.approximate.counters.neighbours.add(neighbours);
        self.approximate.counters.found.add((found * neighbours as f64).round() as usize);
        self.approximate.counters.shown.add((shown_by(&shares) * neighbours as f64) as usize);
    }
}

/// Rows of a probe side that are drawn one after the other, among those whose group has clusters.
struct Drawing<'a, R> {
    probe: &'a Blocks<R>,
    /// The groups that have clusters, and the positions of their rows.
    places: Vec<(u32, Range<usize>)>,
    /// How many rows these are.
    rows: usize,
    random: Random,
}

impl<'a, R: Real> Drawing<'a, R> {
    fn of(build: &Blocks<R>, probe: &'a Blocks<R>) -> Self {
        let places: Vec<_> = build.clusters.iter().map(|c| (c.group, probe.positions_of(c.group))).collect();
        let rows = places.iter().map(|(_, positions)| positions.len()).sum();
        Self { probe, places, rows, random: Random::new(0, 0) }
    }

    /// The next `count` of them.
    fn points(&mut self, count: usize) -> Result<Points> {
        let mut numbers = Vec::with_capacity(count * self.probe.dimension);
        let mut groups = Vec::with_capacity(count);
        for _ in 0..count {
            let mut at = (self.random.uniform() * self.rows as f64) as usize;
            for (group, positions) in &self.places {
                if at < positions.len() {
                    numbers.extend_from_slice(self.probe.vector(positions.start + at));
                    groups.push(*group);
                    break;
                }
                at -= positions.len();
            }
        }
        Points::of_numbers(numbers, groups, self.probe.dimension)
    }
}

/// About how many rows a row is compared with.
struct Cost {
    /// Centres of its group.
    centres: f64,
    /// Rows of a cluster that it visits.
    of_visit: f64,
}

impl Cost {
    fn of<R>(build: &Blocks<R>) -> Self {
        let (mut count, mut rows, mut squares) = (0.0, 0.0, 0.0);
        for leaves in build.clusters.iter().flat_map(|clusters| &clusters.leaves) {
            let leaves = &build.leaves[leaves.start as usize..leaves.end as usize];
            let len = leaves.iter().map(|leaf| f64::from(leaf.len)).sum::<f64>();
            (count, rows, squares) = (count + 1.0, rows + len, squares + len * len);
        }
        // where there are many rows there are many visits
        Self { centres: count / build.clusters.len().max(1) as f64, of_visit: squares / rows.max(1.0) }
    }

    /// A row that visits so many clusters.
    fn of_visits(&self, visited: usize) -> f64 {
        self.centres + visited as f64 * self.of_visit
    }
}

/// What is known of drawn rows.
#[derive(Debug, Default)]
struct Sample {
    /// How many clusters have to be visited until a neighbour is found, row by row; ascending for each row.
    depths: Vec<u32>,
    /// Where those of each row end.
    ends: Vec<usize>,
    /// Pairs that were compared.
    compared: usize,
}

impl Sample {
    /// How many rows there are.
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, mut depths: Vec<u32>) {
        depths.sort_unstable();
        self.depths.extend(depths);
        self.ends.push(self.depths.len());
    }

    fn append(&mut self, other: Self) {
        let before = self.depths.len();
        self.depths.extend(other.depths);
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.compared += other.compared;
    }

    /// The share of the neighbours of each row that are found in so many clusters.
    fn shares(&self, clusters: usize) -> Vec<f64> {
        let share = |(&start, &end): (&usize, &usize)| {
            let depths = &self.depths[start..end];
            let found = depths.partition_point(|&depth| depth as usize <= clusters);
            if depths.is_empty() { 1.0 } else { found as f64 / depths.len() as f64 }
        };
        std::iter::once(&0).chain(&self.ends).zip(&self.ends).map(share).collect()
    }
}

/// A vector as the only point of a leaf.
fn of_point<R: Real, M: Metric>(frame: &Frame, vector: &[f64]) -> Vec<R> {
    let mut point = vec![R::ZERO; vector.len()];
    frame.place(vector, &mut point);
    side_by_side::<R, M>(std::iter::once(point.as_slice()), vector.len())
}
