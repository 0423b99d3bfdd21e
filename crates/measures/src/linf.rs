//! L-infinity (Chebyshev) distance of two vectors.
//!
//! The vectors have equal lengths: the caller has seen to it.

/// `max |a_i - b_i|` in double precision, 0 for empty vectors.
///
/// `None`, which SQL shows as NULL, where an element or a difference is NaN or infinite.
#[inline]
pub fn linf_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    a.iter().zip(b).try_fold(0.0_f64, |max, (x, y)| {
        // `f64::max` drops a NaN, so each difference is looked at by itself.
        let difference = (x - y).abs();
        difference.is_finite().then(|| max.max(difference))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_largest_difference() {
        assert_eq!(linf_distance(&[1.0, -2.0, 3.0], &[4.0, 2.0, 3.0]), Some(4.0));
        assert_eq!(linf_distance(&[], &[]), Some(0.0));
    }

    #[test]
    fn not_finite_is_none_wherever_it_stands() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(linf_distance(&[bad, 9.0], &[1.0, 1.0]), None);
            assert_eq!(linf_distance(&[9.0, bad], &[1.0, bad]), None);
        }
        assert_eq!(linf_distance(&[f64::MAX], &[-f64::MAX]), None);
    }
}
