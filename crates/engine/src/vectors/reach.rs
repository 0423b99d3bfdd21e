//! How far the filter has to look, so that no match is lost to rounding.
//!
//! With u the filter's rounding (2^-24 or 2^-53) and d dimensions: a point is its vector within u |p| in the norm of
//! the metric, a difference within u of itself, and a sum of d terms within (d + 2) u of itself. So the sum of a pair
//! at a distance of e is no more than that of `e (1 + 4 (d + 8) u) + 4 u max(|p|, |q|)`, each term with room to spare.
//! What is lost to underflow is less than the least normal number.
//!
//! Half a square by products, `|p|^2 / 2 + |q|^2 / 2 - p q`, is a sum of no more than 2 d terms that are together no
//! larger than 2 max(|p|, |q|)^2, so that it is within 4 (d + 8) u max(|p|, |q|)^2 of itself. Boxes are rounded
//! outwards, so that they lose nothing by the rounding of points.

use super::precision::Precision;
use crate::condition::VectorCondition;
use crate::stored::{stored, tagged};
use similarity_measures::VectorMeasure;

/// What the sums of a metric are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sum {
    /// Sum of absolute differences, or the largest of them.
    Distance,
    /// Sum of squared differences.
    Squares,
    /// Half of the sum of squared differences, by products.
    Halves,
    /// Sum of products, negated.
    Products,
}

tagged!(Sum { Distance, Squares, Halves, Products });

/// The farthest that a match may lie, in the metric of the filter.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    sum: Sum,
    /// The largest distance, or the negated least product.
    most: f64,
    dimension: usize,
}

stored!(Reach { sum, most, dimension });

impl Reach {
    /// The reach of `condition` over vectors of so many elements, none where nothing matches.
    pub fn of(condition: &VectorCondition, dimension: usize) -> Option<Self> {
        let d = dimension as f64;
        let upper = condition.bounds.upper().map_or(f64::INFINITY, |bound| bound.value);
        let lower = condition.bounds.lower().map_or(f64::NEG_INFINITY, |bound| bound.value);
        // the scores themselves round, in double precision
        let unit = f64::ROUNDING;
        let distance = |most: f64| {
            let most = most * (1.0 + (d + 64.0) * 8.0 * unit) + f64::LEAST;
            (most >= 0.0).then_some(most)
        };
        let angle = |least: f64| {
            (least <= 1.0 + 1e-9).then(|| {
                let squares = (2.0 - 2.0 * least).max(0.0) + (d + 16.0) * 16.0 * unit;
                squares.sqrt() + (d + 16.0) * 8.0 * unit
            })
        };
        let (sum, most) = match condition.measure {
            VectorMeasure::L1 | VectorMeasure::Linf => (Sum::Distance, distance(upper)?),
            VectorMeasure::L2 => (Sum::Squares, distance(upper)?),
            // |x|_2 <= |x|_p for p <= 2, and |x|_2 <= d^(1/2 - 1/p) |x|_p beyond
            VectorMeasure::Lp(p) => {
                let wider = d.powf((0.5 - p.get().recip()).max(0.0)).max(1.0);
                // differences whose power is less than the least normal number may count for nothing
                let uncounted = d.sqrt() * f64::LEAST.powf(p.get().recip()) * (1.0 + 1e-9);
                (Sum::Squares, distance(upper * wider)? + uncounted)
            }
            VectorMeasure::Cosine => (Sum::Squares, angle(lower)?),
            VectorMeasure::CosineDistance => (Sum::Squares, angle(1.0 - upper - 4.0 * unit)?),
            VectorMeasure::InnerProduct => (Sum::Products, -lower),
        };
        Some(Self { sum, most, dimension })
    }

    /// The largest distance of a match, or the negated least product.
    pub fn most(&self) -> f64 {
        self.most
    }

    /// What [`of_points`](Self::of_points) is made of where sums are not in halves: the largest sum, or its root, of
    /// a match of points that do not round, and what comes on top for each unit of the larger norm, or of the norms'
    /// product.
    pub fn line<R: Precision>(&self) -> (f64, f64) {
        let by_term = 4.0 * (self.dimension as f64 + 8.0) * R::ROUNDING;
        let (wider, by_norm) = Self::wider::<R>(self.dimension);
        match self.sum {
            Sum::Products => (self.most, by_term),
            _ => (self.most * wider, by_norm),
        }
    }

    /// Factor by which distances are looked for farther than they are, and the addition for each unit of the larger
    /// norm.
    pub fn wider<R: Precision>(dimension: usize) -> (f64, f64) {
        (1.0 + 4.0 * (dimension as f64 + 8.0) * R::ROUNDING, 4.0 * R::ROUNDING)
    }

    /// Reach by the sums of another metric for the same distance.
    pub fn by(self, sum: Sum) -> Self {
        Self { sum, ..self }
    }

    /// Whether half squares by products tell matches from others nearly as well, among points with norms up to about
    /// `norm`.
    pub fn suits_halves<R: Precision>(&self, norm: f64) -> bool {
        self.sum == Sum::Squares && 64.0 * product_rounding::<R>(self.dimension, norm) <= self.most * self.most / 2.0
    }

    /// The largest sum of a match of two points with norms up to these.
    pub fn of_points<R: Precision>(&self, norms: (f64, f64)) -> R {
        let d = self.dimension as f64;
        let by_size = match self.sum {
            Sum::Products => 4.0 * (d + 8.0) * R::ROUNDING * norms.0 * norms.1,
            _ => 4.0 * R::ROUNDING * norms.0.max(norms.1),
        };
        let by_products = match self.sum {
            Sum::Halves => product_rounding::<R>(self.dimension, norms.0.max(norms.1)),
            _ => 0.0,
        };
        self.limit(by_size, by_products)
    }

    /// Reach of two points with norms up to these whose sum is `sum`, by `measure`.
    pub fn of_sum<R: Precision>(
        measure: VectorMeasure,
        kind: Sum,
        dimension: usize,
        sum: R,
        norms: (f64, f64),
    ) -> Self {
        let (d, unit) = (dimension as f64, f64::ROUNDING);
        let norm = norms.0.max(norms.1);
        let sum = sum.get() + R::LEAST;
        let distance = match kind {
            Sum::Squares => sum.sqrt(),
            Sum::Halves => (2.0 * (sum + product_rounding::<R>(dimension, norm)).max(0.0)).sqrt(),
            _ => sum,
        };
        let most = distance * (1.0 + 4.0 * (d + 8.0) * R::ROUNDING) + 4.0 * R::ROUNDING * norm;
        // and as far as one whose score is no worse, which rounds
        let most = match measure {
            VectorMeasure::Cosine => (most * most + (d + 16.0) * 32.0 * unit).sqrt() + (d + 16.0) * 16.0 * unit,
            _ => most * (1.0 + (d + 64.0) * 8.0 * unit) + f64::LEAST,
        };
        Self { sum: kind, most, dimension }
    }

    /// Reach around a ball of this radius, measured with this rounding, in double precision.
    pub fn around(&self, radius: f64) -> Self {
        let d = self.dimension as f64;
        Self { most: self.most + radius * (1.0 + 4.0 * (d + 8.0) * f64::ROUNDING), ..*self }
    }

    /// The largest sum of the gaps between two boxes of which points match; for products with the largest norms of
    /// their corners.
    pub fn of_boxes<R: Precision>(&self, corners: (f64, f64)) -> R {
        match self.sum {
            Sum::Products => self.of_points(corners),
            _ => self.limit(0.0, 0.0),
        }
    }

    fn limit<R: Precision>(&self, by_size: f64, by_products: f64) -> R {
        let d = self.dimension as f64;
        let wider = 1.0 + 4.0 * (d + 8.0) * R::ROUNDING;
        let limit = match self.sum {
            Sum::Distance => self.most * wider + by_size,
            Sum::Squares => (self.most * wider + by_size).powi(2),
            Sum::Halves => (self.most * wider + by_size).powi(2) / 2.0 + by_products,
            Sum::Products => self.most + by_size,
        };
        let limit = R::above(limit + R::LEAST);
        if limit.get().is_finite() { limit } else { R::INFINITY }
    }

    /// Whether single precision tells matches from others as well, among points with norms up to about `norm`.
    pub fn is_coarse(&self, norm: f64) -> bool {
        let fits = norm < 1e15;
        match self.sum {
            Sum::Products => fits,
            _ => fits && self.most < 1e15 && 4.0 * f32::ROUNDING * norm <= self.most / 4.0,
        }
    }

    /// The norm of a point by which its rounding is bounded.
    pub fn norm(measure: VectorMeasure, point: &[f64]) -> f64 {
        Self::norm_of(measure, point.iter().copied())
    }

    /// Norm of a point whose coordinates come one after the other.
    pub fn norm_of(measure: VectorMeasure, point: impl Iterator<Item = f64>) -> f64 {
        match measure {
            VectorMeasure::L1 => point.map(f64::abs).sum(),
            VectorMeasure::Linf => point.fold(0.0, |most, x| x.abs().max(most)),
            _ => point.map(|x| x * x).sum::<f64>().sqrt(),
        }
    }
}

/// How much half a square by products may be off, among points with norms up to `norm`.
pub fn product_rounding<R: Precision>(dimension: usize, norm: f64) -> f64 {
    4.0 * (dimension as f64 + 8.0) * R::ROUNDING * norm * norm
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Bounds;
    use similarity_measures::Power;

    /// A match lies within reach, also where powers of its differences vanish.
    #[test]
    fn matches_by_any_power_are_within_reach() {
        let mut vanished = 0;
        for p in [1.5, 3.0, 20.0, 400.0, 1000.0] {
            let measure = VectorMeasure::Lp(Power::new(p).unwrap());
            for bound in [0.0, 1e-20, 0.01, 0.3, 2.0] {
                let condition =
                    VectorCondition { bounds: Bounds::at_most(bound, true), ..VectorCondition::every_score(measure) };
                let most = Reach::of(&condition, 3).unwrap().most();
                for x in [1e-300, 1e-21, 1e-20, 1e-17, 0.005, 0.01, 0.1, 0.3, 0.49, 0.6, 2.0] {
                    let (one, other) = ([x, 0.0, x / 2.0], [0.0; 3]);
                    let distance = VectorMeasure::L2.score(&one, &other).unwrap();
                    if measure.score(&one, &other).is_some_and(|score| condition.bounds.contains(score)) {
                        assert!(distance <= most, "{p} {bound} {x}");
                        vanished += usize::from(distance > 2.0 * bound);
                    }
                }
            }
        }
        assert!(vanished > 10, "{vanished}");
    }
}
