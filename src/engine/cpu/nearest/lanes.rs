//! Eight points or boxes against one query.
//!
//! Each lane takes the steps of the scalar function in their order, so that no lane rounds otherwise than it does. The loops
//! are compiled for wider registers too, where the machine has them; Rust never fuses a multiplication and an addition.

use super::metric::{Arithmetic, Limits};

/// Points or boxes at once.
pub(super) const LANES: usize = 8;

/// How many elements are added before it is looked whether all sums are beyond the limit.
const STRIDE: usize = 16;

/// A query and what may still be near it.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub vector: &'a [f64],
    /// Where it lies among the boxes.
    pub place: &'a [f64],
    pub norm: f64,
    pub limits: Limits,
}

/// The values of the points of a block with `norms`, `None` where no point can be within the limits.
#[inline]
pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature has been detected.
        return unsafe { avx512::values::<A>(probe, block, norms) };
    } else if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature has been detected.
        return unsafe { avx2::values::<A>(probe, block, norms) };
    }
    portable::values::<A>(probe, block, norms)
}

/// What no point in each of the boxes of a node is nearer than.
#[inline]
pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature has been detected.
        return unsafe { avx512::bounds::<A>(probe, boxes) };
    } else if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature has been detected.
        return unsafe { avx2::bounds::<A>(probe, boxes) };
    }
    portable::bounds::<A>(probe, boxes)
}

mod portable {
    use super::{Arithmetic, LANES, Probe, STRIDE};

    #[inline(always)]
    pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
        let limit = probe.limits.value;
        let mut sums = [0.0; LANES];
        let (lanes, _) = block.as_chunks::<LANES>();
        for (query, lanes) in probe.vector.chunks(STRIDE).zip(lanes.chunks(STRIDE)) {
            for (&x, points) in query.iter().zip(lanes) {
                for lane in 0..LANES {
                    sums[lane] = A::add(sums[lane], x, points[lane]);
                }
            }
            if A::GROWS && !any_within(&sums, limit) {
                return None;
            }
        }
        for lane in 0..LANES {
            sums[lane] = A::value(sums[lane], probe.norm, norms[lane]);
        }
        any_within(&sums, limit).then_some(sums)
    }

    #[inline(always)]
    fn any_within(values: &[f64; LANES], limit: f64) -> bool {
        let mut within = 0;
        for value in values {
            within |= u8::from(*value <= limit);
        }
        within != 0
    }

    #[inline(always)]
    pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
        let mut sums = [0.0; LANES];
        let (sides, _) = boxes.as_chunks::<LANES>();
        let (sides, _) = sides.as_chunks::<2>();
        for (&x, [least, greatest]) in probe.place.iter().zip(sides) {
            for lane in 0..LANES {
                let gap = (least[lane] - x).max(x - greatest[lane]).max(0.0);
                sums[lane] = A::widen(sums[lane], gap);
            }
        }
        sums
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Arithmetic, LANES, Probe, portable};

    #[target_feature(enable = "avx512f")]
    pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
        portable::values::<A>(probe, block, norms)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
        portable::bounds::<A>(probe, boxes)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Arithmetic, LANES, Probe, portable};

    #[target_feature(enable = "avx2")]
    pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
        portable::values::<A>(probe, block, norms)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
        portable::bounds::<A>(probe, boxes)
    }
}
