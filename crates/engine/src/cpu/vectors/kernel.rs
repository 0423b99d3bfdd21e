//! All pairs of two leaves, sixteen points each, by the filter's arithmetic.

use std::marker::PhantomData;

use super::lanes::{self, LANES, Lanes, Real, Task};
use super::metric::{Euclidean, Metric};

/// Points of one leaf that are compared at once, so that what is read of the other serves all of them.
pub(super) const ABREAST: usize = 4;
/// Points of one leaf that are compared at once where a register has sixteen numbers: so many that no multiply-add
/// waits for another one.
pub(super) const MANY_ABREAST: usize = 8;

/// Points of `b`, a bit each, whose sum is not beyond their limit, for each point of `a` among `rows`, a bit each. Bits
/// of points beside `rows` may be anything.
///
/// Both leaves have their numbers dimension by dimension, sixteen each. A sum that is NaN is not beyond any limit.
pub(super) fn near<R: Real, M: Metric>(a: &[R], b: &[R], rows: u16, limits: &[R; LANES]) -> [u16; LANES] {
    lanes::run(Near::<R, M> { a, b, rows, limits, metric: PhantomData })
}

/// Points that are near (see [`near`]) in two leaves that follow each other in `b`: what is read of `a` serves both.
pub(super) fn near_two<R: Real, M: Metric>(a: &[R], b: &[R], rows: u16, limits: [&[R; LANES]; 2]) -> [[u16; LANES]; 2] {
    let (first, second) = b.split_at(a.len());
    lanes::run(NearTwo::<R, M> { a, b: [first, second], rows, limits, metric: PhantomData })
}

struct NearTwo<'a, R, M> {
    a: &'a [R],
    b: [&'a [R]; 2],
    rows: u16,
    limits: [&'a [R; LANES]; 2],
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for NearTwo<'_, R, M> {
    type Result = [[u16; LANES]; 2];

    #[inline(always)]
    fn run<L: Lanes<R>>(self) -> [[u16; LANES]; 2] {
        let mut masks = [[0; LANES]; 2];
        let limits = [L::load(self.limits[0]), L::load(self.limits[1])];
        for first in (0..LANES).step_by(ABREAST) {
            if self.rows >> first & ((1 << ABREAST) - 1) == 0 {
                continue;
            }
            if let Some([one, two]) = self.sums::<L>(first, limits) {
                for at in 0..ABREAST {
                    masks[0][first + at] = one[at].within(limits[0]);
                    masks[1][first + at] = two[at].within(limits[1]);
                }
            }
        }
        masks
    }
}

impl<R: Real, M: Metric> NearTwo<'_, R, M> {
    /// The sums of some points of `a` with all of both leaves, none where all are beyond their limits.
    #[inline(always)]
    fn sums<L: Lanes<R>>(&self, first: usize, limits: [L; 2]) -> Option<[[L; ABREAST]; 2]> {
        let [mut one, mut two, mut three, mut four] = [L::splat(R::ZERO); ABREAST];
        let [mut five, mut six, mut seven, mut eight] = [L::splat(R::ZERO); ABREAST];
        let stride = stride::<M>();
        let b = self.b[0].chunks(stride).zip(self.b[1].chunks(stride));
        for (mut a, (mut b, mut c)) in self.a.chunks(stride).zip(b) {
            if M::STARTS {
                let (x, y) = (L::load(b), L::load(c));
                let start = &a[first..first + ABREAST];
                one = one.plus(x.plus(L::splat(start[0])));
                five = five.plus(y.plus(L::splat(start[0])));
                two = two.plus(x.plus(L::splat(start[1])));
                six = six.plus(y.plus(L::splat(start[1])));
                three = three.plus(x.plus(L::splat(start[2])));
                seven = seven.plus(y.plus(L::splat(start[2])));
                four = four.plus(x.plus(L::splat(start[3])));
                eight = eight.plus(y.plus(L::splat(start[3])));
                (a, b, c) = (&a[LANES..], &b[LANES..], &c[LANES..]);
            }
            for (a, (b, c)) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES).zip(c.chunks_exact(LANES))) {
                let (b, c) = (L::load(b), L::load(c));
                let a = &a[first..first + ABREAST];
                let (x, y) = (L::splat(a[0]), L::splat(a[1]));
                one = M::add(one, x, b);
                five = M::add(five, x, c);
                two = M::add(two, y, b);
                six = M::add(six, y, c);
                let (x, y) = (L::splat(a[2]), L::splat(a[3]));
                three = M::add(three, x, b);
                seven = M::add(seven, x, c);
                four = M::add(four, y, b);
                eight = M::add(eight, y, c);
            }
            if M::RISES
                && one.least(two).least(three.least(four)).within(limits[0]) == 0
                && five.least(six).least(seven.least(eight)).within(limits[1]) == 0
            {
                return None;
            }
        }
        Some([[one, two, three, four], [five, six, seven, eight]])
    }
}

struct Near<'a, R, M> {
    a: &'a [R],
    b: &'a [R],
    rows: u16,
    limits: &'a [R; LANES],
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for Near<'_, R, M> {
    type Result = [u16; LANES];

    #[inline(always)]
    fn run<L: Lanes<R>>(self) -> [u16; LANES] {
        let mut masks = [0; LANES];
        let limits = L::load(self.limits);
        for first in (0..LANES).step_by(ABREAST) {
            if self.rows >> first & ((1 << ABREAST) - 1) == 0 {
                continue;
            }
            if let Some(sums) = sums_abreast::<R, M, L, ABREAST>(self.a, first, self.b, limits) {
                masks[first..].iter_mut().zip(sums).for_each(|(mask, sums)| *mask = sums.within(limits));
            }
        }
        masks
    }
}

/// Numbers of a leaf after which sums are looked at.
#[inline(always)]
fn stride<M: Metric>() -> usize {
    (M::STRIDE + usize::from(M::STARTS)) * LANES
}

/// The sums of one point, by its numbers, with all of a leaf.
#[inline(always)]
pub(super) fn sums<R: Real, M: Metric, L: Lanes<R>>(point: &[R], leaf: &[R]) -> L {
    let mut sums = L::splat(R::ZERO);
    let strides = point.chunks(stride::<M>() / LANES).zip(leaf.chunks(stride::<M>()));
    for (mut point, mut leaf) in strides {
        if M::STARTS {
            sums = sums.plus(L::load(leaf).plus(L::splat(point[0])));
            (point, leaf) = (&point[1..], &leaf[LANES..]);
        }
        for (&x, b) in point.iter().zip(leaf.chunks_exact(LANES)) {
            sums = M::add(sums, L::splat(x), L::load(b));
        }
    }
    sums
}

/// The sums of `ROWS` points from `first` on of one leaf with all of `b`, none where all are beyond their limits.
#[inline(always)]
pub(super) fn sums_abreast<R: Real, M: Metric, L: Lanes<R>, const ROWS: usize>(
    a: &[R],
    first: usize,
    b: &[R],
    limits: L,
) -> Option<[L; ROWS]> {
    let mut sums = [L::splat(R::ZERO); ROWS];
    for (mut a, mut b) in a.chunks(stride::<M>()).zip(b.chunks(stride::<M>())) {
        if M::STARTS {
            let (x, start) = (L::load(b), &a[first..first + ROWS]);
            for row in 0..ROWS {
                sums[row] = sums[row].plus(x.plus(L::splat(start[row])));
            }
            (a, b) = (&a[LANES..], &b[LANES..]);
        }
        for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
            let b = L::load(b);
            let a = &a[first..first + ROWS];
            for row in 0..ROWS {
                sums[row] = M::add(sums[row], L::splat(a[row]), b);
            }
        }
        if M::RISES {
            let mut least = sums[0];
            for sum in &sums[1..] {
                least = least.least(*sum);
            }
            if least.within(limits) == 0 {
                return None;
            }
        }
    }
    Some(sums)
}

/// The number of the point that is nearest to `point` among points in blocks of sixteen.
pub(super) fn nearest_of<'a>(point: &[f32], blocks: impl Iterator<Item = &'a [f32]>) -> usize {
    lanes::run(Nearest { point, blocks })
}

struct Nearest<'a, I> {
    point: &'a [f32],
    blocks: I,
}

impl<'a, I: Iterator<Item = &'a [f32]>> Task<f32> for Nearest<'_, I> {
    type Result = usize;

    #[inline(always)]
    fn run<L: Lanes<f32>>(self) -> usize {
        let (mut nearest, mut least) = (0, f32::INFINITY);
        for (at, block) in self.blocks.enumerate() {
            let sums = sums::<f32, Euclidean, L>(self.point, block);
            // a bit for each that is nearer than the nearest so far
            let mut nearer = sums.within(L::splat(least.next_down()));
            while nearer != 0 {
                let lane = nearer.trailing_zeros() as usize;
                nearer &= nearer - 1;
                let sum = sums.numbers()[lane];
                if sum < least {
                    (nearest, least) = (at * LANES + lane, sum);
                }
            }
        }
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Numbers, Plain};
    use super::super::metric::{Chebyshev, Halves, Manhattan, Products, depth, numbers};
    use super::*;

    fn leaf(seed: usize, dimension: usize) -> Vec<f32> {
        (0..dimension * LANES).map(|at| ((at * 37 + seed * 101) % 64) as f32 / 8.0).collect()
    }

    /// The numbers are such that no sum rounds.
    fn agrees<M: Metric>(dimension: usize, limit: f32) {
        let (a, b) = (leaf(1, dimension), leaf(2, dimension));
        let masks = near::<f32, M>(&a, &b, u16::MAX, &[limit; LANES]);
        for (one, mask) in masks.iter().enumerate() {
            let sums = (0..dimension).fold(Plain::splat(0.0), |sum, k| {
                M::add(sum, Plain::splat(a[k * LANES + one]), Plain::load(&b[k * LANES..]))
            });
            assert_eq!(*mask, sums.within(Plain::splat(limit)), "{dimension} {one}");
        }
        let some = near::<f32, M>(&a, &b, 1 << 5, &[limit; LANES]);
        assert_eq!(some[5], masks[5]);
        let both = [b, leaf(3, dimension)].concat();
        let other = near::<f32, M>(&a, &both[a.len()..], u16::MAX, &[limit + 1.0; LANES]);
        let two = near_two::<f32, M>(&a, &both, u16::MAX, [&[limit; LANES], &[limit + 1.0; LANES]]);
        assert_eq!(two, [masks, other]);
    }

    #[test]
    fn half_squares_by_products() {
        for dimension in [33, 64, 70] {
            let (a, b, c) = (leaf(1, dimension), leaf(2, dimension), leaf(3, dimension));
            let in_halves = |leaf: &[f32]| {
                let (mut lanes, mut self_join) = (vec![0.0; depth::<Halves>(dimension) * LANES], Vec::new());
                for lane in 0..LANES {
                    let point: Vec<f32> = leaf.iter().skip(lane).step_by(LANES).copied().collect();
                    numbers::<f32, Halves>(&point, &mut self_join);
                    self_join.iter().enumerate().for_each(|(k, &x)| lanes[k * LANES + lane] = x);
                }
                lanes
            };
            let (x, y, z) = (in_halves(&a), in_halves(&b), in_halves(&c));
            let limit = dimension as f32 * 8.0;
            let expected = |b: &[f32]| near::<f32, Euclidean>(&a, b, u16::MAX, &[limit; LANES]);
            let found = near::<f32, Halves>(&x, &y, u16::MAX, &[limit / 2.0; LANES]);
            assert_eq!(found, expected(&b));
            assert!(found.iter().any(|mask| *mask != 0 && *mask != u16::MAX));
            let both = [y, z].concat();
            let two = near_two::<f32, Halves>(&x, &both, u16::MAX, [&[limit / 2.0; LANES]; 2]);
            assert_eq!(two, [expected(&b), expected(&c)]);
        }
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
        assert_eq!(near::<f32, Euclidean>(&[], &[], u16::MAX, &[0.0; LANES]), [u16::MAX; LANES]);
    }

    #[test]
    fn what_is_not_a_number_is_near() {
        let (mut a, b) = (vec![1e30f32; LANES], vec![f32::NAN; LANES]);
        a[3] = f32::INFINITY;
        assert_eq!(near::<f32, Euclidean>(&a, &b, u16::MAX, &[f32::INFINITY; LANES]), [u16::MAX; LANES]);
    }
}
