//! Clusters of points: those that are nearest to the same centre, by k-means.
//!
//! Neighbours of a point are mostly in the clusters whose centres are near it, so that a search that may miss some
//! visits these alone. Distances from centres are computed for sixteen points at a time, as those of leaves are.

use std::marker::PhantomData;
use std::ops::Range;

use similarity_measures::random::Random;

use super::kernel::{ABREAST, MANY_ABREAST, sums_abreast};
use super::lanes::{self, LANES, Lanes, Real, Task, bits};
use super::metric::{Halves, Metric, depth, side_by_side};
use crate::BuildContext;
use crate::parallel::each_in_parallel;
use crate::stored::stored;

/// Dimensions below which boxes exclude more than clusters do.
const FEWEST_DIMENSIONS: usize = 16;
/// The fewest rows of a group that has clusters.
const FEWEST_ROWS: usize = 4096;
/// The fewest rows that a cluster has on average.
const FEWEST_A_CLUSTER: usize = 64;
/// Points that the centre of a cluster is computed from, on average.
const SAMPLED_A_CLUSTER: usize = 128;
/// How often centres are moved. More rounds move them by little.
const ROUNDS: usize = 8;
/// The share of all rows that a search visits, times the root of the number of clusters: about that of SIFT vectors at
/// a recall of 0.95.
const VISITED: f64 = 0.6;
/// The time of a distance to a centre, when clusters are found, in that of a distance to a row that is visited.
const CENTRE: f64 = 0.35;

/// Number of clusters by which a side is told apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clustering {
    /// Rows that are expected to be searched for.
    pub(super) probe_rows: usize,
}

impl Clustering {
    /// Whether points of so many dimensions may have clusters.
    pub(super) fn suits(dimension: usize) -> bool {
        dimension >= FEWEST_DIMENSIONS
    }

    /// The clusters of a group of `rows` rows among `all`, 0 where they are too few.
    ///
    /// To find the clusters of all rows takes `rows * clusters` distances to centres, and each search visits a share of
    /// the rows that falls with the root of the number of clusters. The sum is least for this number.
    pub(super) fn clusters(self, rows: usize, all: usize) -> usize {
        if rows < FEWEST_ROWS {
            return 0;
        }
        let probe_rows = self.probe_rows as f64 * rows as f64 / all as f64;
        let best = (VISITED / (2.0 * CENTRE) * probe_rows).powf(2.0 / 3.0) as usize;
        best.clamp(LANES, rows / FEWEST_A_CLUSTER).next_multiple_of(LANES)
    }

    /// Bytes that are held while `rows` rows are told apart.
    pub(super) fn memory(self, rows: usize, dimension: usize) -> usize {
        let count = self.clusters(rows, rows);
        let sampled = rows.min(count * SAMPLED_A_CLUSTER) * depth::<Halves>(dimension) * size_of::<f32>();
        rows * size_of::<(u32, u32)>() + sampled + 3 * count * dimension * size_of::<f64>()
    }
}

/// The clusters of a group of the build side.
#[derive(Debug)]
pub(super) struct Clusters<R> {
    pub(super) group: u32,
    /// The leaves of each.
    pub(super) leaves: Vec<Range<u32>>,
    /// Their centres, sixteen after the other, as points of a leaf.
    centres: Vec<R>,
}

stored!(Clusters<R> [R: Real] { group, leaves, centres });

impl<R: Real> Clusters<R> {
    /// Clusters with these leaves and centres, one centre after the other.
    pub(super) fn new<M: Metric>(group: u32, leaves: Vec<Range<u32>>, centres: &[f32], dimension: usize) -> Self {
        let centres: Vec<R> = centres.iter().map(|&x| R::of(f64::from(x))).collect();
        Self { group, leaves, centres: side_by_side::<R, M>(centres.chunks_exact(dimension), dimension) }
    }

    /// How many clusters there are.
    pub(super) fn len(&self) -> usize {
        self.leaves.len()
    }

    /// The sums of each centre with the sixteen points of a leaf.
    pub(super) fn sums<M: Metric>(&self, points: &[R]) -> Vec<[R; LANES]> {
        let mut sums = vec![[R::ZERO; LANES]; self.centres.len() / points.len().max(1) * LANES];
        lanes::run(Sums::<R, M> { points, centres: &self.centres, sums: &mut sums, metric: PhantomData });
        sums.truncate(self.len());
        sums
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.centres.capacity() * size_of::<R>() + self.leaves.capacity() * size_of::<Range<u32>>()
    }
}

/// The places of points in the order of their clusters.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Where each cluster ends; none is empty.
    pub(super) ends: Vec<u32>,
    /// Their centres, one after the other.
    pub(super) centres: Vec<f32>,
}

/// Sorts `places` of `points` by clusters, `count` of them at most. The order is always the same.
pub(super) fn tell_apart<R: Real>(
    points: &[R],
    dimension: usize,
    places: &mut [u32],
    count: usize,
    context: &BuildContext<'_>,
) -> Told {
    let points = Narrow { points, dimension };
    let centres = points.centres(places, count, context);
    let by = Centres::of(&centres, dimension);
    let share = places.len().div_ceil(context.threads.max(1)).next_multiple_of(LANES);
    let mut by_cluster: Vec<(u32, u32)> = places.iter().map(|&place| (0, place)).collect();
    each_in_parallel(by_cluster.chunks_mut(share), |share| {
        let mut places = [0; LANES];
        for sixteen in share.chunks_mut(LANES).take_while(|_| !context.cancel.is_cancelled()) {
            sixteen.iter().zip(&mut places).for_each(|(&(_, place), to)| *to = place);
            let nearest = by.nearest(&points.side_by_side(&places[..sixteen.len()]));
            sixteen.iter_mut().zip(nearest).for_each(|((cluster, _), nearest)| *cluster = nearest);
        }
    });
    by_cluster.sort_unstable();
    places.iter_mut().zip(&by_cluster).for_each(|(to, (_, place))| *to = *place);
    let mut told = Told::default();
    let mut end = 0;
    for cluster in by_cluster.chunk_by(|(a, _), (b, _)| a == b) {
        end += cluster.len() as u32;
        told.ends.push(end);
        told.centres.extend_from_slice(&centres[cluster[0].0 as usize * dimension..][..dimension]);
    }
    told
}

/// Points in single precision.
#[derive(Clone, Copy)]
struct Narrow<'a, R> {
    /// Points by place.
    points: &'a [R],
    dimension: usize,
}

impl<R: Real> Narrow<'_, R> {
    fn point(&self, place: u32) -> impl Iterator<Item = f32> {
        self.points[place as usize * self.dimension..][..self.dimension].iter().map(|x| x.get() as f32)
    }

    /// Some points as leaves.
    fn side_by_side(&self, places: &[u32]) -> Vec<f32> {
        let size = depth::<Halves>(self.dimension) * LANES;
        let mut leaves = Vec::with_capacity(places.len().div_ceil(LANES) * size);
        for sixteen in places.chunks(LANES) {
            let points: Vec<f32> = sixteen.iter().flat_map(|&place| self.point(place)).collect();
            leaves.extend(side_by_side::<f32, Halves>(points.chunks_exact(self.dimension), self.dimension));
        }
        leaves
    }

    /// The centres of `count` clusters, one after the other, by the algorithm of Lloyd over a sample.
    fn centres(&self, places: &[u32], count: usize, context: &BuildContext<'_>) -> Vec<f32> {
        let sample = drawn(places, places.len().min(count * SAMPLED_A_CLUSTER), 0);
        let mut centres: Vec<f32> = drawn(&sample, count, 1).iter().flat_map(|&place| self.point(place)).collect();
        let leaves = self.side_by_side(&sample);
        for _ in 0..ROUNDS {
            let nearest = Centres::of(&centres, self.dimension).nearest_of_all(&leaves, context);
            if context.cancel.is_cancelled() {
                break;
            }
            self.move_centres(&mut centres, sample.iter().copied().zip(nearest));
        }
        centres
    }

    /// Moves each centre to the mean of its points; one without points stays where it is.
    fn move_centres(&self, centres: &mut [f32], nearest: impl Iterator<Item = (u32, u32)>) {
        let mut sums = vec![0.0; centres.len()];
        let mut counts = vec![0u32; centres.len() / self.dimension];
        for (place, cluster) in nearest {
            let sums = &mut sums[cluster as usize * self.dimension..][..self.dimension];
            sums.iter_mut().zip(self.point(place)).for_each(|(sum, x)| *sum += f64::from(x));
            counts[cluster as usize] += 1;
        }
        let all = centres.chunks_exact_mut(self.dimension).zip(sums.chunks_exact(self.dimension));
        for ((centre, sums), &count) in all.zip(&counts).filter(|(_, count)| **count > 0) {
            centre.iter_mut().zip(sums).for_each(|(x, sum)| *x = (sum / f64::from(count)) as f32);
        }
    }
}

/// So many of `places`, one of each stretch of them.
fn drawn(places: &[u32], count: usize, stream: u64) -> Vec<u32> {
    let mut random = Random::new(0, stream);
    let first = |stretch: usize| stretch * places.len() / count;
    let one = |stretch: usize| {
        let stretch = first(stretch)..first(stretch + 1);
        places[stretch.start + (random.bits() % stretch.len() as u64) as usize]
    };
    (0..count).map(one).collect()
}

/// Centres in leaves.
struct Centres {
    leaves: Vec<f32>,
    /// Numbers of a leaf.
    size: usize,
    count: usize,
}

impl Centres {
    /// Centres that stand one after the other.
    fn of(centres: &[f32], dimension: usize) -> Self {
        let size = depth::<Halves>(dimension) * LANES;
        let count = centres.len() / dimension;
        Self { leaves: side_by_side::<f32, Halves>(centres.chunks_exact(dimension), dimension), size, count }
    }

    /// The nearest centre of each point of a leaf.
    fn nearest(&self, points: &[f32]) -> [u32; LANES] {
        lanes::run(Nearest { centres: self, points })
    }

    /// The nearest centre of each point of all `leaves`.
    fn nearest_of_all(&self, leaves: &[f32], context: &BuildContext<'_>) -> Vec<u32> {
        let share = leaves.len().div_ceil(self.size).div_ceil(context.threads.max(1)).max(1) * self.size;
        let nearest = |leaves: &[f32]| -> Vec<u32> {
            let leaves = leaves.chunks_exact(self.size).take_while(|_| !context.cancel.is_cancelled());
            leaves.flat_map(|leaf| self.nearest(leaf)).collect()
        };
        each_in_parallel(leaves.chunks(share), nearest).concat()
    }
}

struct Nearest<'a> {
    centres: &'a Centres,
    points: &'a [f32],
}

impl Task<f32> for Nearest<'_> {
    type Result = [u32; LANES];

    #[inline(always)]
    fn run<L: Lanes<f32>>(self) -> [u32; LANES] {
        match L::REGISTERS {
            1 => self.abreast::<L, MANY_ABREAST>(),
            _ => self.abreast::<L, ABREAST>(),
        }
    }
}

impl Nearest<'_> {
    #[inline(always)]
    fn abreast<L: Lanes<f32>, const ROWS: usize>(self) -> [u32; LANES] {
        let (mut nearest, mut least) = ([0; LANES], [f32::INFINITY; LANES]);
        for (leaf, centres) in self.centres.leaves.chunks_exact(self.centres.size).enumerate() {
            for first in (0..LANES).step_by(ROWS) {
                let limits = L::load(&least);
                let Some(sums) = sums_abreast::<f32, Halves, L, ROWS>(centres, first, self.points, limits) else {
                    continue;
                };
                let present = self.centres.count.saturating_sub(leaf * LANES + first);
                for (row, sums) in sums.into_iter().enumerate().take(present) {
                    let nearer = sums.within(limits);
                    let sums = sums.numbers();
                    for lane in bits(nearer) {
                        // another one of these may be nearer
                        if sums[lane] < least[lane] {
                            (nearest[lane], least[lane]) = ((leaf * LANES + first + row) as u32, sums[lane]);
                        }
                    }
                }
            }
        }
        nearest
    }
}

struct Sums<'a, R, M> {
    points: &'a [R],
    centres: &'a [R],
    sums: &'a mut [[R; LANES]],
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for Sums<'_, R, M> {
    type Result = ();

    #[inline(always)]
    fn run<L: Lanes<R>>(self) {
        let limits = L::splat(R::INFINITY);
        let leaves = self.centres.chunks_exact(self.points.len()).zip(self.sums.chunks_exact_mut(LANES));
        for (centres, sums) in leaves {
            for (first, sums) in (0..LANES).step_by(ABREAST).zip(sums.chunks_exact_mut(ABREAST)) {
                let found = sums_abreast::<R, M, L, ABREAST>(centres, first, self.points, limits);
                if let Some(found) = found {
                    sums.iter_mut().zip(found).for_each(|(to, sums)| *to = sums.numbers());
                }
            }
        }
    }
}
