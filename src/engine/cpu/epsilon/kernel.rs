//! All pairs of two leaves, sixteen points each, by the filter's arithmetic.

use std::marker::PhantomData;
use std::ops::Range;

use super::lanes::{self, Lanes, Task};
use super::metric::{Metric, Real};

/// Points of a leaf.
pub(super) const LANES: usize = 16;
/// Points of one leaf that are compared at once, so that what is read of the other serves all of them.
const ABREAST: usize = 4;
/// Dimensions after which sums are looked at.
const STRIDE: usize = 8;

/// For each point of `a` among `rows` the points of `b` whose sum is not beyond `limit`, a bit each; those of points
/// beside `rows` may be anything.
///
/// Both leaves have their numbers dimension by dimension, sixteen each. A sum that is NaN is not beyond any limit.
pub(super) fn near<R: Real, M: Metric>(a: &[R], b: &[R], rows: Range<usize>, limit: R) -> [u16; LANES] {
    lanes::run(Near::<R, M> { a, b, rows, limit, metric: PhantomData })
}

struct Near<'a, R, M> {
    a: &'a [R],
    b: &'a [R],
    rows: Range<usize>,
    limit: R,
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for Near<'_, R, M> {
    type Result = [u16; LANES];

    #[inline(always)]
    fn run<L: Lanes<R>>(self) -> [u16; LANES] {
        let mut masks = [0; LANES];
        for first in (self.rows.start / ABREAST * ABREAST..self.rows.end).step_by(ABREAST) {
            if let Some(sums) = self.sums::<L>(first) {
                masks[first..].iter_mut().zip(sums).for_each(|(mask, sums)| *mask = sums.within(self.limit));
            }
        }
        masks
    }
}

impl<R: Real, M: Metric> Near<'_, R, M> {
    /// The sums of some points of `a` with all of `b`, none where all are beyond the limit.
    #[inline(always)]
    fn sums<L: Lanes<R>>(&self, first: usize) -> Option<[L; ABREAST]> {
        let mut sums = [L::splat(R::ZERO); ABREAST];
        for (a, b) in self.a.chunks(STRIDE * LANES).zip(self.b.chunks(STRIDE * LANES)) {
            for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
                let b = L::load(b);
                for (sum, &a) in sums.iter_mut().zip(&a[first..first + ABREAST]) {
                    *sum = M::add(*sum, L::splat(a), b);
                }
            }
            if M::RISES && sums[0].least(sums[1]).least(sums[2].least(sums[3])).within(self.limit) == 0 {
                return None;
            }
        }
        Some(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::Plain;
    use super::super::metric::{Chebyshev, Euclidean, Manhattan, Products};
    use super::*;

    fn leaf(seed: usize, dimension: usize) -> Vec<f32> {
        (0..dimension * LANES).map(|at| ((at * 37 + seed * 101) % 64) as f32 / 8.0).collect()
    }

    /// The numbers are such that no sum rounds.
    fn agrees<M: Metric>(dimension: usize, limit: f32) {
        let (a, b) = (leaf(1, dimension), leaf(2, dimension));
        let masks = near::<f32, M>(&a, &b, 0..LANES, limit);
        for (one, mask) in masks.iter().enumerate() {
            let sums = (0..dimension).fold(Plain::splat(0.0), |sum, k| {
                M::add(sum, Plain::splat(a[k * LANES + one]), Plain::load(&b[k * LANES..]))
            });
            assert_eq!(*mask, sums.within(limit), "{dimension} {one}");
        }
        let some = near::<f32, M>(&a, &b, 5..6, limit);
        assert_eq!(some[5], masks[5]);
    }

    #[test]
    fn every_pair_by_its_sum() {
        for dimension in [1, 2, 3, 8, 9, 33] {
            let d = dimension as f32;
            agrees::<Manhattan>(dimension, 2.5 * d);
            agrees::<Euclidean>(dimension, 9.0 * d);
            agrees::<Chebyshev>(dimension, 4.0);
            agrees::<Products>(dimension, -16.0 * d);
        }
        assert_eq!(near::<f32, Euclidean>(&[], &[], 0..LANES, 0.0), [u16::MAX; LANES]);
    }

    #[test]
    fn what_is_not_a_number_is_near() {
        let (mut a, b) = (vec![1e30f32; LANES], vec![f32::NAN; LANES]);
        a[3] = f32::INFINITY;
        assert_eq!(near::<f32, Euclidean>(&a, &b, 0..LANES, f32::INFINITY), [u16::MAX; LANES]);
    }
}
