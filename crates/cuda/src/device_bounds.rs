//! The scores that a condition accepts, as kernels compare them.

use similarity_engine::condition::{Bound, Bounds};

/// Both ends of an interval; neither is a NaN.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceBounds {
    pub(super) lower: f64,
    pub(super) upper: f64,
    pub(super) lower_inclusive: u32,
    pub(super) upper_inclusive: u32,
}

impl DeviceBounds {
    /// A NaN is above all scores, or below all of them, as an infinity is.
    pub(super) fn of(bounds: Bounds) -> Self {
        let end = |bound: Option<Bound>, open: f64| match bound.map_or((open, true), |b| (b.value, b.inclusive)) {
            (value, inclusive) if value.is_nan() => (f64::INFINITY.copysign(value), inclusive),
            end => end,
        };
        let (lower, lower_inclusive) = end(bounds.lower(), f64::NEG_INFINITY);
        let (upper, upper_inclusive) = end(bounds.upper(), f64::INFINITY);
        Self { lower, upper, lower_inclusive: lower_inclusive.into(), upper_inclusive: upper_inclusive.into() }
    }
}
