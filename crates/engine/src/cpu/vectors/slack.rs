//! How far the filter has to look for what is no farther than a point with a known sum, for many sums at once.

use super::lanes::Lanes;
use super::lanes::Real;
use super::reach::{Sum, product_rounding};
use crate::vectors::precision::Precision;
use similarity_measures::VectorMeasure;

/// Slack: how far a point may be that is as near as one with a known sum. It is [`Reach::of_sum`] and
/// [`Reach::of_points`] for many sums at once.
///
/// Both are straight lines in the distance, but for the root of a sum in the cosine, which is no more than the sum of
/// the roots. The three roundings here and those of the square are within eight of the precision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slack<R> {
    sum: Sum,
    factor: R,
    plus: R,
    /// What a sum may be off, however small.
    least: R,
}

impl<R: Real> Slack<R> {
    /// Slack of points with norms up to `norm`.
    pub(super) fn of(measure: VectorMeasure, sum: Sum, dimension: usize, norm: f64) -> Self {
        let (d, unit) = (dimension as f64, f64::ROUNDING);
        let (wider, by_size) = (1.0 + 4.0 * (d + 8.0) * R::ROUNDING, 4.0 * R::ROUNDING * norm);
        let (scored, by_score) = match measure {
            VectorMeasure::Cosine => (1.0, ((d + 16.0) * 32.0 * unit).sqrt() + (d + 16.0) * 16.0 * unit),
            _ => (1.0 + (d + 64.0) * 8.0 * unit, f64::LEAST),
        };
        let rounding = 1.0 + 8.0 * R::ROUNDING;
        let by_products = if sum == Sum::Halves { product_rounding::<R>(dimension, norm) } else { 0.0 };
        Self {
            sum,
            least: R::above(by_products * rounding + R::LEAST),
            factor: R::above(wider * scored * wider * rounding),
            plus: R::above(((by_size * scored + by_score) * wider + by_size) * rounding + R::LEAST),
        }
    }

    /// The largest sum of a point that is no farther than one with this sum.
    #[inline(always)]
    pub(super) fn limit<L: Lanes<R>>(&self, sums: L) -> L {
        let (factor, plus, least) = (L::splat(self.factor), L::splat(self.plus), L::splat(self.least));
        let sums = sums.plus(least);
        let distance = match self.sum {
            Sum::Squares => sums.root(),
            Sum::Halves => sums.plus(sums).most(L::splat(R::ZERO)).root(),
            _ => return sums.times_plus(factor, plus),
        };
        let distance = distance.times_plus(factor, plus);
        match self.sum {
            Sum::Halves => distance.times(L::splat(R::of(0.5))).times_plus(distance, least),
            _ => distance.times_plus(distance, least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Numbers, Plain};
    use super::super::reach::Reach;
    use super::*;

    #[test]
    fn slack_is_no_less_than_the_reach_of_a_sum() {
        let by = [
            (VectorMeasure::L1, Sum::Distance),
            (VectorMeasure::L2, Sum::Squares),
            (VectorMeasure::L2, Sum::Halves),
            (VectorMeasure::Linf, Sum::Distance),
            (VectorMeasure::Cosine, Sum::Squares),
            (VectorMeasure::Cosine, Sum::Halves),
        ];
        for (measure, kind) in by {
            for (dimension, norm) in [(1, 0.0), (2, 1e-3), (16, 1.0), (128, 40.0), (768, 1e9)] {
                for sum in [0.0f32, 1e-40, 1e-12, 0.3, 2.0, 1e7, 1e30, f32::INFINITY] {
                    let limit = Slack::of(measure, kind, dimension, norm).limit(Plain::splat(sum)).largest();
                    let reach = Reach::of_sum(measure, kind, dimension, sum, (norm, norm));
                    let least: f32 = reach.of_points((norm, norm));
                    assert!(limit >= least, "{measure:?} {kind:?} {dimension} {norm} {sum}: {limit} {least}");
                }
            }
        }
    }
}
