//! Intervals of numbers.
//!
//! Floating-point operations round to the nearest number, which keeps their order. What an operation makes of both ends
//! therefore encloses all that the same operation makes of values between them.

/// All numbers from `low` to `high`, both included; empty where `low` is above `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub low: f64,
    pub high: f64,
}

/// How far a computed value may be from the true one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounding {
    /// In proportion to the value.
    pub relative: f64,
    /// Besides.
    pub absolute: f64,
}

impl Rounding {
    /// One operation of double precision.
    pub(super) const DOUBLE: Self = Self { relative: 4.5e-16, absolute: 1e-300 };
    /// One operation of single precision.
    pub(super) const SINGLE: Self = Self { relative: 2.4e-7, absolute: 1e-37 };
    /// A function of a mathematical library, in either precision.
    pub(super) const LIBRARY: Self = Self { relative: 1e-5, absolute: 1e-30 };
}

impl Interval {
    pub(super) const EVERYTHING: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    pub(super) fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    pub(super) fn point(value: f64) -> Self {
        Self::new(value, value)
    }

    pub(super) fn at_most(high: f64) -> Self {
        Self::new(f64::NEG_INFINITY, high)
    }

    pub(super) fn at_least(low: f64) -> Self {
        Self::new(low, f64::INFINITY)
    }

    pub(super) fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub(super) fn is_finite(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Whether all of it lies on one side of zero.
    pub(super) fn excludes_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self::new(self.low.max(other.low), self.high.min(other.high))
    }

    pub(super) fn hull(self, other: Self) -> Self {
        Self::new(self.low.min(other.low), self.high.max(other.high))
    }

    pub(super) fn widened(self, by: Rounding) -> Self {
        let margin = |end: f64| if end.is_finite() { end.abs() * by.relative + by.absolute } else { 0.0 };
        Self::new(self.low - margin(self.low), self.high + margin(self.high))
    }

    pub(super) fn widened_by(self, margin: f64) -> Self {
        self.widened(Rounding { relative: 0.0, absolute: margin })
    }

    pub(super) fn negated(self) -> Self {
        Self::new(-self.high, -self.low)
    }

    /// Sums; one of both has to be finite.
    pub(super) fn plus(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }

    /// Differences; one of both has to be finite.
    pub(super) fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// Products; an infinite end and a zero must not meet.
    pub(super) fn times(self, other: Self) -> Self {
        Self::of_corners([self.low, self.high], [other.low, other.high], |a, b| a * b)
    }

    /// Quotients by what excludes zero; two infinite ends must not meet.
    pub(super) fn over(self, divisor: Self) -> Self {
        Self::of_corners([self.low, self.high], [divisor.low, divisor.high], |a, b| a / b)
    }

    fn of_corners(left: [f64; 2], right: [f64; 2], op: impl Fn(f64, f64) -> f64) -> Self {
        let corners = left.into_iter().flat_map(|l| right.into_iter().map(move |r| (l, r)));
        let none = Self::new(f64::INFINITY, f64::NEG_INFINITY);
        corners.fold(none, |hull, (l, r)| hull.hull(Self::point(op(l, r))))
    }

    /// The images of both ends under a function that rises.
    pub(super) fn raised(self, function: impl Fn(f64) -> f64) -> Self {
        Self::new(function(self.low), function(self.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_encloses_every_result() {
        let (a, b) = (Interval::new(-1.0, 2.0), Interval::new(0.1, 0.3));
        for (x, y) in [(-1.0, 0.1), (2.0, 0.3), (0.7, 0.2), (-1.0, 0.3)] {
            for (result, within) in [(x + y, a.plus(b)), (x - y, a.minus(b)), (x * y, a.times(b)), (x / y, a.over(b))] {
                assert!(within.low <= result && result <= within.high, "{result} {within:?}");
            }
        }
        assert_eq!(a.over(Interval::new(1.0, f64::INFINITY)), Interval::new(-1.0, 2.0));
    }

    #[test]
    fn sets_of_numbers() {
        let (a, b) = (Interval::new(0.0, 1.0), Interval::new(2.0, 3.0));
        assert!(a.and(b).is_empty() && !a.hull(b).is_empty());
        assert_eq!(a.hull(b), Interval::new(0.0, 3.0));
        assert!(b.excludes_zero() && !a.excludes_zero() && b.negated().excludes_zero());
        assert_eq!(Interval::at_most(1.0).widened(Rounding::DOUBLE).low, f64::NEG_INFINITY);
    }
}
