//! The arithmetic of each metric, in the order in which its scalar function computes.
//!
//! Rounding is monotone: a number that is no less gives a result that is no less. A gap between a query and a box is no
//! more than the difference between the query and any point in the box, so that a bound which takes the same steps over gaps
//! as a score takes over differences is no more than the score, to the last bit and without a margin. Only the cosine,
//! whose boxes are those of directions, takes one.

use std::fmt;

use crate::engine::nearest::{float_key, float_of};

/// A measure of two vectors whose best score means that they are near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// `l1_distance`.
    L1,
    /// `l2_distance`.
    L2,
    /// `linf_distance`.
    Linf,
    /// `cosine_similarity`.
    Cosine,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L1 => "l1_distance",
            Self::L2 => "l2_distance",
            Self::Linf => "linf_distance",
            Self::Cosine => "cosine_similarity",
        })
    }
}

/// What may still be a neighbour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of [`Arithmetic::value`]: what is more is none.
    pub value: f64,
    /// Of the gaps to a box: one that is farther away holds none.
    pub bound: f64,
}

impl Limits {
    /// Any finite value.
    pub(super) const NONE: Self = Self { value: f64::MAX, bound: f64::INFINITY };
}

/// What one element adds to the sum of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The difference.
    Difference,
    /// Its square.
    Square,
    /// The difference, where it is larger than any before.
    Largest,
    /// The product.
    Product,
}

/// How a metric computes. What is less is nearer.
pub(super) trait Arithmetic {
    /// What elements of both vectors add to the sum; to a bound, the gap between a query and a box adds that of a
    /// difference, and its square for a product.
    const STEP: Step;

    /// Whether sums only grow, so that one beyond the limit stays there.
    const GROWS: bool = true;

    /// What vectors are compared by, NaN or more than any limit where they have no score.
    fn value(sum: f64, _query_norm: f64, _point_norm: f64) -> f64 {
        sum
    }

    /// The score of a value as an integer, less being better.
    fn key(value: f64) -> i64 {
        float_key(value)
    }

    /// What may still be as good as `worst`.
    fn limits(worst: i64, _dimensions: usize) -> Limits {
        let value = float_of(worst);
        Limits { value, bound: value }
    }
}

pub(super) struct L1;
pub(super) struct L2;
pub(super) struct Linf;
pub(super) struct Cosine;

impl Arithmetic for L1 {
    const STEP: Step = Step::Difference;
}

impl Arithmetic for L2 {
    const STEP: Step = Step::Square;

    fn key(value: f64) -> i64 {
        float_key(value.sqrt())
    }

    /// Several sums of squares have one root: every one whose root may round to the worst score is within the limit.
    fn limits(worst: i64, _dimensions: usize) -> Limits {
        let root = float_of(worst);
        let square = (root * root * (1.0 + 8.0 * f64::EPSILON) + f64::MIN_POSITIVE).min(f64::MAX);
        Limits { value: square, bound: square }
    }
}

impl Arithmetic for Linf {
    const STEP: Step = Step::Largest;
}

/// The value is the negative cosine. Boxes hold the vectors at length 1, where the squared distance is `2 - 2 cos`.
impl Arithmetic for Cosine {
    const STEP: Step = Step::Product;
    const GROWS: bool = false;

    #[inline(always)]
    fn value(sum: f64, query_norm: f64, point_norm: f64) -> f64 {
        if sum.is_finite() { -(sum / (query_norm * point_norm)).clamp(-1.0, 1.0) } else { f64::NAN }
    }

    fn key(value: f64) -> i64 {
        !float_key(-value)
    }

    /// Each of the products, sums and roots on either way to the cosine rounds by half an epsilon at most.
    fn limits(worst: i64, dimensions: usize) -> Limits {
        let cosine = float_of(!worst);
        let margin = (dimensions + 16) as f64 * 8.0 * f64::EPSILON;
        Limits { value: -cosine, bound: 2.0 - 2.0 * cosine + margin }
    }
}
