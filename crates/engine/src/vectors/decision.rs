//! Whether two vectors satisfy a condition, by the measure's own arithmetic.

use crate::condition::{Bounds, VectorCondition};
use similarity_measures::VectorMeasure;

/// A test made ready to decide pair after pair.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    condition: VectorCondition,
    /// The largest accepted sum of squares, where that alone decides.
    squares: Option<f64>,
}

impl Decision {
    /// Decision of a condition.
    pub fn new(condition: VectorCondition) -> Self {
        let only_upper = condition.bounds.lower().is_none() && condition.measure == VectorMeasure::L2;
        Self { condition, squares: only_upper.then(|| largest_square(&condition.bounds)) }
    }

    #[inline(always)]
    /// Whether the condition holds for two vectors.
    pub fn holds(&self, a: &[f64], b: &[f64]) -> bool {
        match self.squares {
            // the measure's own sum; one that is not finite is more than any that is accepted
            Some(most) => a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + (x - y) * (x - y)) <= most,
            None => self.condition.measure.score(a, b).is_some_and(|score| self.condition.bounds.contains(score)),
        }
    }

    /// Whether the condition as the query states it may hold for a pair.
    pub fn may_hold(&self, a: &[f64], b: &[f64]) -> bool {
        let decided =
            self.condition.undecided_from.is_none() || (self.condition.decides(a) && self.condition.decides(b));
        !decided || self.holds(a, b)
    }
}

/// The largest number whose root the bounds accept; -1 where there is none. Roots are rounded correctly, so that they
/// never fall where the number rises.
fn largest_square(bounds: &Bounds) -> f64 {
    let accepted = |square: f64| bounds.contains(square.sqrt());
    if accepted(f64::MAX) {
        return f64::MAX;
    }
    if !accepted(0.0) {
        return -1.0;
    }
    // positive numbers are in the order of their bits
    let (mut least, mut most) = (0u64, f64::MAX.to_bits());
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        match accepted(f64::from_bits(middle)) {
            true => least = middle,
            false => most = middle,
        }
    }
    f64::from_bits(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_decide_as_roots_do() {
        for eps in [0.0, 1e-160, 0.1, 0.3, 1.0, 2.5, 1e10, 1.3e154, f64::MAX, -1.0] {
            for inclusive in [true, false] {
                let bounds = Bounds::at_most(eps, inclusive);
                let most = largest_square(&bounds);
                for square in [most.next_down(), most, most.next_up(), eps * eps, 0.0] {
                    if square.is_finite() && square >= 0.0 {
                        assert_eq!(square <= most, bounds.contains(square.sqrt()), "{eps} {square}");
                    }
                }
            }
        }
    }
}
