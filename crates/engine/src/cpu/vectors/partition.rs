//! The order of points in which near ones follow each other.

use super::blocks::MOST_FOR_BOXES;
use super::clusters::{Clustering, Told, tell_apart};
use super::kernel::nearest_of;
use super::lanes::LANES;
use super::lanes::Real;
use crate::BuildContext;
use crate::parallel::{both, in_parallel};

/// Places in order, and where parts of them end that no leaf reaches across.
pub(super) struct Parts {
    pub(super) places: Vec<u32>,
    pub(super) ends: Vec<u32>,
    /// Centres of the parts, one after the other, where these are clusters.
    pub(super) centres: Vec<f32>,
}

/// What is told apart before points are ordered by a tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum Parting {
    /// Nothing.
    None,
    /// Points that are nearest to the same of some evenly drawn ones.
    Pivots,
    /// Points of the same cluster.
    Clusters(Clustering),
}

/// Where a node of so many points is divided: all leaves but the last are full.
pub(super) fn halved(points: usize) -> usize {
    points.div_ceil(LANES) / 2 * LANES
}

/// The places of the points of each group, ascending by group, in the order of their tree, part by part.
pub(super) fn arrange<R: Real>(
    points: &[R],
    dimension: usize,
    groups: &[u32],
    parting: Parting,
    context: &BuildContext<'_>,
) -> Vec<(u32, Parts)> {
    let mut places: Vec<u32> = (0..groups.len() as u32).collect();
    places.sort_by_key(|&place| groups[place as usize]);
    let mut placed: Vec<R::Placed> = Vec::with_capacity(places.len());
    let points = Arrangement { points, dimension, context };
    let runs = places.chunk_by_mut(|&a, &b| groups[a as usize] == groups[b as usize]);
    runs.map(|run| {
        let whole = [run.len() as u32];
        let Told { ends, centres } = points.parts(run, parting);
        placed.clear();
        placed.extend(run.iter().map(|&place| R::ZERO.at(place)));
        let (mut rest, mut start) = (placed.as_mut_slice(), 0);
        for &end in if ends.is_empty() { &whole } else { ends.as_slice() } {
            let (part, later) = std::mem::take(&mut rest).split_at_mut((end - start) as usize);
            points.halve(part, context.threads);
            (rest, start) = (later, end);
        }
        (
            groups[run[0] as usize],
            Parts { places: placed.iter().map(|&placed| R::place(placed)).collect(), ends, centres },
        )
    })
    .collect()
}

/// About where the pivots of sorted places change, so that all leaves but the last are full: the few points that come
/// to others then cost less than lanes without a point.
fn ends_of_parts(places: &[(u32, u32)]) -> Vec<u32> {
    let mut ends = Vec::new();
    let mut end = 0;
    for part in places.chunk_by(|(a, _), (b, _)| a == b) {
        end += part.len();
        let rounded = (end + LANES / 2) / LANES * LANES;
        if ends.last().is_none_or(|&last| (last as usize) < rounded) && rounded > 0 && rounded < places.len() {
            ends.push(rounded as u32);
        }
    }
    ends.push(places.len() as u32);
    ends
}

struct Arrangement<'a, R> {
    /// Points by place.
    points: &'a [R],
    dimension: usize,
    context: &'a BuildContext<'a>,
}

/// Dimensions up to which points are told apart by one of them.
const FEW_DIMENSIONS: usize = MOST_FOR_BOXES;
/// How many points of a node say how it is divided.
const SAMPLED: usize = 32;
/// Fewer points are not told apart by pivots.
const FEWEST_FOR_PIVOTS: usize = 1024;
/// How many points a pivot has on average.
const A_PIVOT: usize = 128;
/// Nodes of fewer points are not worth a thread.
const FEWEST_FOR_THREADS: usize = 1 << 14;

impl<R: Real> Arrangement<'_, R> {
    fn point(&self, place: u32) -> &[R] {
        &self.points[place as usize * self.dimension..(place as usize + 1) * self.dimension]
    }

    /// Sorts places by their parts; without parts, nothing is told.
    fn parts(&self, places: &mut [u32], parting: Parting) -> Told {
        let all = self.points.len() / self.dimension.max(1);
        match parting {
            Parting::Clusters(clustering) if clustering.clusters(places.len(), all) > 0 => {
                let count = clustering.clusters(places.len(), all);
                tell_apart(self.points, self.dimension, places, count, self.context)
            }
            Parting::Pivots | Parting::Clusters(_) if places.len() >= FEWEST_FOR_PIVOTS => {
                Told { ends: self.part(places), centres: Vec::new() }
            }
            _ => Told::default(),
        }
    }

    /// Sorts places by the nearest of some evenly drawn points, and returns where the parts end that go together.
    fn part(&self, places: &mut [u32]) -> Vec<u32> {
        let count = (places.len() / A_PIVOT).max(1).next_multiple_of(LANES);
        let drawn: Vec<u32> = (0..count).map(|n| places[n * places.len() / count]).collect();
        let mut pivots = vec![0f32; count * self.dimension];
        for (n, &place) in drawn.iter().enumerate() {
            let first = n / LANES * LANES * self.dimension + n % LANES;
            self.point(place).iter().enumerate().for_each(|(k, &x)| pivots[first + k * LANES] = x.get() as f32);
        }
        let size = LANES * self.dimension;
        let stretch = places.len().div_ceil(self.context.threads.max(1));
        let mut by_pivot: Vec<(u32, u32)> = places.iter().map(|&place| (0, place)).collect();
        let nearest = |stretch: &mut [(u32, u32)]| {
            let mut point = vec![0f32; self.dimension];
            for (pivot, place) in stretch.iter_mut().take_while(|_| !self.context.cancel.is_cancelled()) {
                self.point(*place).iter().zip(&mut point).for_each(|(&x, to)| *to = x.get() as f32);
                *pivot = nearest_of(&point, pivots.chunks_exact(size)) as u32;
            }
            Ok(())
        };
        // nothing in it fails
        let _ = in_parallel(by_pivot.chunks_mut(stretch), nearest);
        by_pivot.sort_unstable();
        places.iter_mut().zip(&by_pivot).for_each(|(to, (_, place))| *to = *place);
        ends_of_parts(&by_pivot)
    }

    /// Divides a node until its parts are leaves.
    fn halve(&self, placed: &mut [R::Placed], threads: usize) {
        if placed.len() <= LANES || self.dimension == 0 || self.context.cancel.is_cancelled() {
            return;
        }
        self.number(placed);
        let middle = halved(placed.len());
        // equal numbers are told apart by their places, so that the order is always the same
        placed.select_nth_unstable(middle);
        let (left, right) = placed.split_at_mut(middle);
        if threads > 1 && left.len() >= FEWEST_FOR_THREADS {
            both(|| self.halve(left, threads / 2), || self.halve(right, threads - threads / 2));
        } else {
            self.halve(left, 1);
            self.halve(right, 1);
        }
    }

    /// Gives each place the number by which its node is divided.
    fn number(&self, placed: &mut [R::Placed]) {
        let count = placed.len().min(SAMPLED);
        let sample: Vec<&[R]> = (0..count).map(|n| self.point(R::place(placed[n * placed.len() / count]))).collect();
        if self.dimension <= FEW_DIMENSIONS {
            let widest = self.widest(&sample);
            for placed in placed {
                let place = R::place(*placed);
                *placed = self.points[place as usize * self.dimension + widest].at(place);
            }
        } else {
            let direction = between_far_points(&sample);
            for placed in placed {
                let place = R::place(*placed);
                *placed = product(self.point(place), &direction).at(place);
            }
        }
    }

    fn widest(&self, sample: &[&[R]]) -> usize {
        let spread = |k: usize| {
            let mean = sample.iter().map(|point| point[k].get()).sum::<f64>() / sample.len() as f64;
            sample.iter().map(|point| (point[k].get() - mean).abs()).sum::<f64>()
        };
        let spreads: Vec<f64> = (0..self.dimension).map(spread).collect();
        (0..self.dimension).max_by(|&a, &b| spreads[a].total_cmp(&spreads[b])).unwrap_or(0)
    }
}

/// The direction from one of two points that are far apart to the other.
fn between_far_points<R: Real>(sample: &[&[R]]) -> Vec<R> {
    let squares = |a: &[R], b: &[R]| a.iter().zip(b).map(|(x, y)| (x.get() - y.get()).powi(2)).sum::<f64>();
    let farthest = |from: &[R]| {
        let others = sample.iter().copied();
        others.max_by(|a, b| squares(a, from).total_cmp(&squares(b, from))).unwrap_or(sample[0])
    };
    let one = farthest(sample[0]);
    let other = farthest(one);
    one.iter().zip(other).map(|(x, y)| x.minus(*y)).collect()
}

fn product<R: Real>(a: &[R], b: &[R]) -> R {
    // eight sums side by side; the order of the points needs no particular rounding
    let mut sums = [R::ZERO; 8];
    let (a_rest, b_rest) = (a.chunks_exact(8).remainder(), b.chunks_exact(8).remainder());
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for lane in 0..8 {
            sums[lane] = sums[lane].plus(a[lane].times(b[lane]));
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(R::ZERO, |sum, (x, y)| sum.plus(x.times(*y)));
    sums.into_iter().fold(rest, R::plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_order<R: Real>() {
        let numbers = [f64::NEG_INFINITY, -1.5, -1e-30, -0.0, 0.0, 1e-30, 2.0, f64::INFINITY];
        let placed: Vec<R::Placed> = numbers.iter().flat_map(|&x| [0, 7, u32::MAX].map(|at| R::of(x).at(at))).collect();
        assert!(placed.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(placed.iter().zip([0, 7, u32::MAX].into_iter().cycle()).all(|(&placed, at)| R::place(placed) == at));
    }

    #[test]
    fn numbers_with_places_are_in_the_order_of_both() {
        in_order::<f32>();
        in_order::<f64>();
    }

    #[test]
    fn parts_end_where_leaves_do() {
        let ends = |sizes: &[usize]| {
            let keys = sizes.iter().enumerate().flat_map(|(key, &size)| std::iter::repeat_n(key as u32, size));
            ends_of_parts(&keys.zip(0..).collect::<Vec<_>>())
        };
        assert_eq!(ends(&[5]), [5]);
        assert_eq!(ends(&[32, 16, 7]), [32, 48, 55]);
        assert_eq!(ends(&[23, 2, 100]), [16, 32, 125], "the nearest multiple of sixteen");
        assert_eq!(ends(&[3, 4, 2, 3, 30]), [16, 42], "small ones go together");
        assert_eq!(ends(&[40, 6]), [46], "nothing is left for the last one");
    }
}
