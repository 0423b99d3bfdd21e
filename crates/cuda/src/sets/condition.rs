//! A set condition as kernels read it.

use crate::device_bounds::DeviceBounds;
use crate::kernels::SetCondition;
use crate::kernels::constants::set_measure::{CONSTANT, GEOMETRIC_MEAN, LINEAR, SMALLER};
use similarity_engine::sets::SetPredicate;
use similarity_measures::{LeastOverlap, SetBounds};

/// Bounds on a measure, of which the left set is that of the build row.
pub(crate) fn set_test(SetPredicate { measure, bounds }: SetPredicate) -> SetCondition {
    let DeviceBounds { lower, upper, lower_inclusive, upper_inclusive } = DeviceBounds::of(bounds);
    let SetBounds { overlap, left_of_right, right_of_left } = measure.bounds(lower);
    let (form, share, probe_share) = match overlap {
        LeastOverlap::Linear { left, right } => (LINEAR, left, right),
        LeastOverlap::GeometricMean(share) => (GEOMETRIC_MEAN, share, 0.0),
        LeastOverlap::Smaller(share) => (SMALLER, share, 0.0),
        LeastOverlap::Constant(number) => (CONSTANT, number, 0.0),
    };
    SetCondition {
        lower,
        upper,
        share,
        probe_share,
        build_of_probe: left_of_right,
        probe_of_build: right_of_left,
        weights: measure.weights().get(),
        measure: measure.number(),
        form,
        lower_inclusive,
        upper_inclusive,
        is_reversed: measure.is_reversed().into(),
        unused: 0,
    }
}
