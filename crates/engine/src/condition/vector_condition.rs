//! What a vector condition computes and accepts.

use std::fmt;

use super::Bounds;
use similarity_measures::VectorMeasure;

/// A measure over two vectors, and the accepted scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorCondition {
    /// The measure.
    pub measure: VectorMeasure,
    /// The accepted scores or distances.
    pub bounds: Bounds,
    /// Vectors with an element that is not finite, or whose magnitude reaches this power of two, are left to the
    /// condition as the query states it, which may hold for them. Without it, they satisfy nothing.
    pub undecided_from: Option<u16>,
}

impl VectorCondition {
    /// What every score of a measure of ours satisfies.
    pub fn every_score(measure: VectorMeasure) -> Self {
        Self { measure, bounds: Bounds::everything(), undecided_from: None }
    }

    /// Whether the bounds exclude vectors that are far apart.
    pub fn is_selective(&self) -> bool {
        let most = self.bounds.upper().map(|bound| bound.value);
        match self.measure {
            VectorMeasure::Cosine => !self.bounds.above_lower(-1.0),
            // rounding may take it a little beyond 2
            VectorMeasure::CosineDistance => most.is_some_and(|most| most < 1.999),
            VectorMeasure::InnerProduct => self.bounds.lower().is_some_and(|bound| bound.value.is_finite()),
            _ => most.is_some_and(|most| most < f64::INFINITY),
        }
    }

    /// Both tests as one with `merge`d bounds, where they bound the same measure.
    pub fn merged(self, other: Self, merge: fn(Bounds, Bounds) -> Bounds) -> Option<Self> {
        let same = (self.measure, self.undecided_from) == (other.measure, other.undecided_from);
        same.then(|| Self { bounds: merge(self.bounds, other.bounds), ..self })
    }

    /// Whether a vector with these elements is decided by the measure.
    pub fn decides(&self, vector: &[f64]) -> bool {
        match self.undecided_from {
            None => vector.iter().all(|x| x.is_finite()),
            Some(power) => {
                let from = 2f64.powi(i32::from(power));
                vector.iter().all(|x| x.abs() < from)
            }
        }
    }
}

impl fmt::Display for VectorCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.measure {
            VectorMeasure::Lp(p) => write!(f, "lp_distance(p = {}) {}", p.get(), self.bounds),
            measure => write!(f, "{} {}", measure.name(), self.bounds),
        }
    }
}
