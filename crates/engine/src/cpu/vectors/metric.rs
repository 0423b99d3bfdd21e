//! The filter's arithmetic: sums that are small for vectors that are near, in single or double precision.

use std::fmt::Debug;

use super::lanes::{LANES, Lanes, Numbers, Real, put_lane};
use super::reach::Sum;

/// What is summed up over the dimensions. The smaller the sum, the nearer the vectors. All methods have to be inlined
/// always.
pub(super) trait Metric: Debug + 'static {
    /// What is summed up.
    const SUM: Sum;
    /// Whether a sum never falls from one stride of dimensions to the next, so that one beyond a limit stays there.
    const RISES: bool = true;
    /// Dimensions after which sums are looked at.
    const STRIDE: usize = 8;
    /// Whether the numbers of a point have half the sum of their squares before each stride.
    const STARTS: bool = false;

    /// `sum` with one more dimension.
    fn add<R: Real, L: Lanes<R>>(sum: L, a: L, b: L) -> L;

    /// `sum` with the least that one more dimension can add, where one vector lies between `a.0` and `a.1` and the
    /// other between `b.0` and `b.1`.
    fn add_least<R: Real, N: Numbers<R>>(sum: N, a: (N, N), b: (N, N)) -> N;

    /// The sum of sums over different dimensions.
    #[inline(always)]
    fn all<R: Real, L: Lanes<R>>(sums: L) -> R {
        sums.sum()
    }
}

/// How far intervals are apart, 0 where they overlap.
#[inline(always)]
fn gap<R: Real, N: Numbers<R>>(a: (N, N), b: (N, N)) -> N {
    a.0.minus(b.1).most(b.0.minus(a.1)).most(N::splat(R::ZERO))
}

/// Sums of absolute differences.
#[derive(Debug)]
pub(super) struct Manhattan;
/// Sums of squared differences.
#[derive(Debug)]
pub(super) struct Euclidean;
/// The largest absolute difference.
#[derive(Debug)]
pub(super) struct Chebyshev;
/// Half the sums of squared differences: half the squares of both points less their products, which is half the work.
#[derive(Debug)]
pub(super) struct Halves;
/// Products, subtracted.
#[derive(Debug)]
pub(super) struct Products;

impl Metric for Manhattan {
    const SUM: Sum = Sum::Distance;

    #[inline(always)]
    fn add<R: Real, L: Lanes<R>>(sum: L, a: L, b: L) -> L {
        sum.plus(a.minus(b).magnitude())
    }

    #[inline(always)]
    fn add_least<R: Real, N: Numbers<R>>(sum: N, a: (N, N), b: (N, N)) -> N {
        sum.plus(gap(a, b))
    }
}

impl Metric for Euclidean {
    const SUM: Sum = Sum::Squares;

    #[inline(always)]
    fn add<R: Real, L: Lanes<R>>(sum: L, a: L, b: L) -> L {
        let difference = a.minus(b);
        difference.times_plus(difference, sum)
    }

    #[inline(always)]
    fn add_least<R: Real, N: Numbers<R>>(sum: N, a: (N, N), b: (N, N)) -> N {
        let gap = gap(a, b);
        gap.times_plus(gap, sum)
    }
}

impl Metric for Chebyshev {
    const SUM: Sum = Sum::Distance;

    #[inline(always)]
    fn add<R: Real, L: Lanes<R>>(sum: L, a: L, b: L) -> L {
        a.minus(b).magnitude().most(sum)
    }

    #[inline(always)]
    fn add_least<R: Real, N: Numbers<R>>(sum: N, a: (N, N), b: (N, N)) -> N {
        gap(a, b).most(sum)
    }

    #[inline(always)]
    fn all<R: Real, L: Lanes<R>>(sums: L) -> R {
        sums.largest()
    }
}

impl Metric for Halves {
    const SUM: Sum = Sum::Halves;
    const STRIDE: usize = 32;
    const STARTS: bool = true;

    #[inline(always)]
    fn add<R: Real, L: Lanes<R>>(sum: L, a: L, b: L) -> L {
        a.times_minus(b, sum)
    }

    /// Sum as it is: there are no boxes in as many dimensions as this metric is for.
    #[inline(always)]
    fn add_least<R: Real, N: Numbers<R>>(sum: N, _a: (N, N), _b: (N, N)) -> N {
        sum
    }
}

impl Metric for Products {
    const SUM: Sum = Sum::Products;
    const RISES: bool = false;

    #[inline(always)]
    fn add<R: Real, L: Lanes<R>>(sum: L, a: L, b: L) -> L {
        a.times_minus(b, sum)
    }

    #[inline(always)]
    fn add_least<R: Real, N: Numbers<R>>(sum: N, a: (N, N), b: (N, N)) -> N {
        let one = a.0.times(b.0).most(a.0.times(b.1));
        let other = a.1.times(b.0).most(a.1.times(b.1));
        sum.minus(one.most(other))
    }
}

/// How many numbers a point of `dimension` dimensions has.
pub(super) fn depth<M: Metric>(dimension: usize) -> usize {
    if M::STARTS { dimension + dimension.div_ceil(M::STRIDE) } else { dimension }
}

/// The numbers of a point.
pub(super) fn numbers<R: Real, M: Metric>(point: &[R], numbers: &mut Vec<R>) {
    numbers.clear();
    for stride in point.chunks(M::STRIDE) {
        if M::STARTS {
            numbers.push(R::of(stride.iter().map(|x| x.get() * x.get()).sum::<f64>() / 2.0));
        }
        numbers.extend_from_slice(stride);
    }
}

/// Points as leaves of sixteen; the last leaf may have fewer, and zeros beside them.
pub(super) fn side_by_side<'a, R: Real, M: Metric>(
    points: impl ExactSizeIterator<Item = &'a [R]>,
    dimension: usize,
) -> Vec<R> {
    let size = depth::<M>(dimension) * LANES;
    let mut leaves = vec![R::ZERO; points.len().div_ceil(LANES) * size];
    let mut own = Vec::with_capacity(depth::<M>(dimension));
    for (at, point) in points.enumerate() {
        numbers::<R, M>(point, &mut own);
        put_lane(&mut leaves[at / LANES * size..][..size], at % LANES, &own);
    }
    leaves
}
