//! A vector condition as kernels read it.

use crate::kernels::VectorCondition;
use crate::kernels::constants::vector_measure::{
    CHEBYSHEV, COSINE, COSINE_DISTANCE, EUCLIDEAN, INNER_PRODUCT, L1, L2, LINF, MANHATTAN, POWERS, PRODUCTS,
};
use similarity_engine::condition;
use similarity_engine::vectors::precision::Precision;
use similarity_engine::vectors::reach::Reach;
use similarity_measures::VectorMeasure;

/// Rows that a vector is compared with on the host between two looks at the cancel flag.
pub(super) const ROWS_UNCHECKED: usize = 1 << 12;

/// Boxes tell blocks apart by so many dimensions at most.
const MOST_WIDTH: usize = 32;

/// Whether kernels decide a measure.
pub(crate) fn has_kernels(measure: VectorMeasure) -> bool {
    !matches!(measure, VectorMeasure::Lp(_))
}

/// Whether kernels find the pairs of a measure, if only for the host to decide them.
pub(crate) fn finds_pairs(measure: VectorMeasure) -> bool {
    match measure {
        VectorMeasure::Lp(power) => power.get() <= LARGEST_POWER,
        _ => true,
    }
}

/// Powers up to which what rounding does to a sum is known to be little.
const LARGEST_POWER: f64 = 1e6;

/// How a device filters by a power: by the sum of the powers of the differences.
///
/// With u = 2^-53 and d dimensions: the host and the device compute powers within 4 u of themselves, and sums of d of
/// them within d u. The host takes a root whose exponent is within u of 1 / p, so that its logarithm is off by u times
/// that of the sum, which is 745 at most where the sum is a normal number. So the sum of a match is within
/// (2 d + 2 p + 800) u of what it is compared with, for which `most` has five times the room. Powers that are less than
/// the least normal number add less than d of these.
#[derive(Debug, Clone, Copy)]
pub(super) struct PowerSum {
    pub(super) power: f64,
    /// The largest sum that a match may have.
    pub(super) most: f64,
}

impl PowerSum {
    /// How a device filters by `condition`, where it does so by a power.
    pub(super) fn of(condition: &condition::VectorCondition, dimension: usize) -> Option<Self> {
        let VectorMeasure::Lp(power) = condition.measure else { return None };
        let (power, d) = (power.get(), dimension as f64);
        let largest = condition.bounds.upper().map_or(f64::INFINITY, |bound| bound.value);
        let room = 1.0 + (16.0 * d + 16.0 * power + 4096.0) * f64::ROUNDING;
        Some(Self { power, most: largest.powf(power) * room + d * f64::LEAST })
    }
}

/// The numbers of the measure and of its metric.
fn numbers(measure: VectorMeasure) -> (u32, u32) {
    match measure {
        VectorMeasure::L1 => (L1, MANHATTAN),
        VectorMeasure::L2 => (L2, EUCLIDEAN),
        VectorMeasure::Linf => (LINF, CHEBYSHEV),
        VectorMeasure::Lp(_) => (POWERS, EUCLIDEAN),
        VectorMeasure::Cosine => (COSINE, EUCLIDEAN),
        VectorMeasure::CosineDistance => (COSINE_DISTANCE, EUCLIDEAN),
        VectorMeasure::InnerProduct => (INNER_PRODUCT, PRODUCTS),
    }
}

/// A test of vectors of so many elements, filtered up to `reach`. A NaN is above all scores, or below all of them, as
/// an infinity is.
pub(crate) fn vector_test(condition: &condition::VectorCondition, reach: &Reach, dimension: usize) -> VectorCondition {
    let (measure, metric) = numbers(condition.measure);
    let bounds = condition.bounds;
    let lower = bounds.lower().map_or((f64::NEG_INFINITY, true), |bound| (bound.value, bound.inclusive));
    let upper = bounds.upper().map_or((f64::INFINITY, true), |bound| (bound.value, bound.inclusive));
    let [(lower, lower_inclusive), (upper, upper_inclusive)] = [lower, upper].map(|(value, inclusive)| match value {
        v if v.is_nan() && v.is_sign_positive() => (f64::INFINITY, inclusive),
        v if v.is_nan() => (f64::NEG_INFINITY, inclusive),
        v => (v, inclusive),
    });
    let (far, by_norm) = reach.line::<f32>();
    VectorCondition {
        lower,
        upper,
        most: reach.most(),
        far,
        by_norm,
        scale: 1.0,
        measure,
        metric,
        dimension: dimension as u32,
        width: dimension.min(MOST_WIDTH) as u32,
        lower_inclusive: u32::from(lower_inclusive),
        upper_inclusive: u32::from(upper_inclusive),
    }
}

/// Numbers of fewer dimensions are told apart by boxes, and few enough for single precision.
const FEWEST_FOR_HALVES: u32 = 6;

/// The scale for points in half precision among which no number is larger than about `largest` and no norm than about
/// `norm`; none where they would not tell matches from others.
pub(super) fn halves_scale(condition: &VectorCondition, largest: f64, norm: f64) -> Option<f64> {
    if !matches!(condition.metric, EUCLIDEAN | PRODUCTS)
        || condition.dimension < FEWEST_FOR_HALVES
        || !(largest > 0.0 && norm.is_finite())
    {
        return None;
    }
    // a half has eleven bits, so that a number is off by no more than 2^-11 of itself, and a third of that on average
    let moved = norm / 4096.0;
    let summed = (f64::from(condition.dimension) + 48.0) * 8.0 * f32::ROUNDING * norm * norm;
    let tells = match condition.metric {
        EUCLIDEAN => 8.0 * moved <= condition.most && 16.0 * summed <= condition.most * condition.most,
        _ => 16.0 * (2.0 * moved * norm + summed) <= condition.most.abs(),
    };
    // far below the largest half, far above the least that has all its digits
    let scale = (64.0 / largest).log2().floor().exp2();
    (tells && scale.is_normal() && (1e-30..1e30).contains(&scale)).then_some(scale)
}
