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
    use super::super::metric::Step;
    use super::{Arithmetic, LANES, Probe, STRIDE};

    #[inline(always)]
    fn larger(a: f64, b: f64) -> f64 {
        if a > b { a } else { b }
    }

    #[inline(always)]
    fn step<A: Arithmetic>(sum: f64, x: f64, y: f64) -> f64 {
        match A::STEP {
            Step::Difference => sum + (x - y).abs(),
            Step::Square => sum + (x - y) * (x - y),
            Step::Largest => larger((x - y).abs(), sum),
            Step::Product => sum + x * y,
        }
    }

    #[inline(always)]
    fn widen<A: Arithmetic>(sum: f64, gap: f64) -> f64 {
        match A::STEP {
            Step::Difference => sum + gap,
            Step::Square | Step::Product => sum + gap * gap,
            Step::Largest => larger(gap, sum),
        }
    }

    #[inline(always)]
    pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
        let limit = probe.limits.value;
        let mut sums = [0.0; LANES];
        let (lanes, _) = block.as_chunks::<LANES>();
        for (query, lanes) in probe.vector.chunks(STRIDE).zip(lanes.chunks(STRIDE)) {
            for (&x, points) in query.iter().zip(lanes) {
                sums = std::array::from_fn(|lane| step::<A>(sums[lane], x, points[lane]));
            }
            if A::GROWS && !any_within(&sums, limit) {
                return None;
            }
        }
        let values = std::array::from_fn(|lane| A::value(sums[lane], probe.norm, norms[lane]));
        any_within(&values, limit).then_some(values)
    }

    #[inline(always)]
    pub(super) fn any_within(values: &[f64; LANES], limit: f64) -> bool {
        // without a branch for each lane
        values.iter().fold(false, |any, &value| any | (value <= limit))
    }

    #[inline(always)]
    pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
        let mut sums = [0.0; LANES];
        let (sides, _) = boxes.as_chunks::<LANES>();
        let (sides, _) = sides.as_chunks::<2>();
        for (&x, [least, greatest]) in probe.place.iter().zip(sides) {
            let gap = |lane: usize| larger(larger(least[lane] - x, x - greatest[lane]), 0.0);
            sums = std::array::from_fn(|lane| widen::<A>(sums[lane], gap(lane)));
        }
        sums
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Arithmetic, LANES, Probe, portable};

    /// The portable loop, compiled for wider registers.
    #[target_feature(enable = "avx2")]
    pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
        portable::values::<A>(probe, block, norms)
    }

    /// The portable loop, compiled for wider registers.
    #[target_feature(enable = "avx2")]
    pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
        portable::bounds::<A>(probe, boxes)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::super::metric::Step;
    use super::{Arithmetic, LANES, Probe, STRIDE, portable};

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn step<A: Arithmetic>(sum: __m512d, x: __m512d, y: __m512d) -> __m512d {
        let difference = _mm512_sub_pd(x, y);
        match A::STEP {
            Step::Difference => _mm512_add_pd(sum, _mm512_abs_pd(difference)),
            Step::Square => _mm512_add_pd(sum, _mm512_mul_pd(difference, difference)),
            Step::Largest => _mm512_max_pd(_mm512_abs_pd(difference), sum),
            Step::Product => _mm512_add_pd(sum, _mm512_mul_pd(x, y)),
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn widen<A: Arithmetic>(sum: __m512d, gap: __m512d) -> __m512d {
        match A::STEP {
            Step::Difference => _mm512_add_pd(sum, gap),
            Step::Square | Step::Product => _mm512_add_pd(sum, _mm512_mul_pd(gap, gap)),
            Step::Largest => _mm512_max_pd(gap, sum),
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn values<A: Arithmetic>(probe: Probe<'_>, block: &[f64], norms: &[f64; LANES]) -> Option<[f64; LANES]> {
        let limit = _mm512_set1_pd(probe.limits.value);
        let mut sums = _mm512_setzero_pd();
        let (lanes, _) = block.as_chunks::<LANES>();
        for (query, lanes) in probe.vector.chunks(STRIDE).zip(lanes.chunks(STRIDE)) {
            for (&x, points) in query.iter().zip(lanes) {
                sums = step::<A>(sums, _mm512_set1_pd(x), load(points));
            }
            if A::GROWS && _mm512_cmp_pd_mask::<_CMP_LE_OQ>(sums, limit) == 0 {
                return None;
            }
        }
        let mut values = store(sums);
        if !A::GROWS {
            for lane in 0..LANES {
                values[lane] = A::value(values[lane], probe.norm, norms[lane]);
            }
        }
        portable::any_within(&values, probe.limits.value).then_some(values)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn bounds<A: Arithmetic>(probe: Probe<'_>, boxes: &[f64]) -> [f64; LANES] {
        let mut sums = _mm512_setzero_pd();
        let (sides, _) = boxes.as_chunks::<LANES>();
        let (sides, _) = sides.as_chunks::<2>();
        for (&x, [least, greatest]) in probe.place.iter().zip(sides) {
            let x = _mm512_set1_pd(x);
            let (below, above) = (_mm512_sub_pd(load(least), x), _mm512_sub_pd(x, load(greatest)));
            let gap = _mm512_max_pd(_mm512_max_pd(below, above), _mm512_setzero_pd());
            sums = widen::<A>(sums, gap);
        }
        store(sums)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(lanes: &[f64; LANES]) -> __m512d {
        // SAFETY: the reference covers 64 readable bytes, and the load asks for no alignment.
        unsafe { _mm512_loadu_pd(lanes.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(lanes: __m512d) -> [f64; LANES] {
        let mut stored = [0.0; LANES];
        // SAFETY: the array has 64 writable bytes, and the store asks for no alignment.
        unsafe { _mm512_storeu_pd(stored.as_mut_ptr(), lanes) };
        stored
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::metric::{Cosine, L1, L2, Linf};
    use super::*;
    use crate::engine::nearest::float_key;
    use crate::measure::{cosine, l1, l2, linf};

    fn check<A: Arithmetic>(rng: &mut StdRng, dimensions: usize, score: impl Fn(&[f64], &[f64]) -> Option<f64>) {
        let mut vector = || (0..dimensions).map(|_| rng.random_range(-1.0..1.0)).collect::<Vec<f64>>();
        let query = vector();
        let points: Vec<Vec<f64>> = (0..LANES).map(|_| vector()).collect();
        let block: Vec<f64> = (0..dimensions).flat_map(|d| points.iter().map(move |point| point[d])).collect();
        let norm = |v: &[f64]| v.iter().fold(0.0, |sum, x| sum + x * x).sqrt();
        let norms: [f64; LANES] = std::array::from_fn(|lane| norm(&points[lane]));
        let probe = Probe { vector: &query, place: &query, norm: norm(&query), limits: Limits::NONE };
        let known = portable::values::<A>(probe, &block, &norms).unwrap();
        let found = values::<A>(probe, &block, &norms).unwrap();
        for (lane, point) in points.iter().enumerate() {
            let key = A::key(found[lane]);
            let exact = score(&query, point).map(float_key).map(|key| if A::GROWS { key } else { !key });
            assert_eq!(Some(key), exact);
            assert_eq!(found[lane].to_bits(), known[lane].to_bits());
            let limits = A::limits(key, dimensions);
            assert!(found[lane] <= limits.value);
        }
        // each box holds one point
        let boxes: Vec<f64> = block.chunks(LANES).flat_map(|lanes| [lanes, lanes].concat()).collect();
        if A::GROWS {
            assert_eq!(bounds::<A>(probe, &boxes), found);
        }
        assert_eq!(bounds::<A>(probe, &boxes), portable::bounds::<A>(probe, &boxes));
    }

    #[test]
    fn lanes_are_the_scalar_functions() {
        let mut rng = StdRng::seed_from_u64(7);
        for dimensions in (1..40).chain([100]) {
            check::<L1>(&mut rng, dimensions, l1::l1_distance);
            check::<L2>(&mut rng, dimensions, l2::l2_distance);
            check::<Linf>(&mut rng, dimensions, linf::linf_distance);
            check::<Cosine>(&mut rng, dimensions, cosine::cosine_similarity);
        }
    }
}
