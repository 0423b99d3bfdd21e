//! Lp (Minkowski) distance of two vectors.
//!
//! The vectors have equal lengths: the caller has seen to it. Sums run from the first element to the last.

use super::{l1, l2, linf};

/// `(sum |a_i - b_i|^p)^(1/p)` in double precision, 0 for empty vectors.
///
/// `p` of 1, 2 and infinity are [`l1_distance`](l1::l1_distance), [`l2_distance`](l2::l2_distance) and
/// [`linf_distance`](linf::linf_distance) to the last bit. Below 1 the value is no metric but well defined. `None`,
/// which SQL shows as NULL, for a `p` that is not positive, and where an element, the sum or the result is NaN or
/// infinite.
pub fn lp_distance(a: &[f64], b: &[f64], p: f64) -> Option<f64> {
    if p.is_nan() || p <= 0.0 {
        return None;
    }
    if p.is_infinite() {
        return linf::linf_distance(a, b);
    }
    if p == 1.0 {
        return l1::l1_distance(a, b);
    }
    if p == 2.0 {
        return l2::l2_distance(a, b);
    }
    let sum = a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + (x - y).abs().powf(p));
    let distance = sum.powf(p.recip());
    (sum.is_finite() && distance.is_finite()).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meets_its_special_cases() {
        let (a, b) = ([0.1, 0.7, -3.3], [2.9, -0.4, 1.7]);
        assert_eq!(lp_distance(&a, &b, 1.0), l1::l1_distance(&a, &b));
        assert_eq!(lp_distance(&a, &b, 2.0), l2::l2_distance(&a, &b));
        assert_eq!(lp_distance(&a, &b, f64::INFINITY), linf::linf_distance(&a, &b));
    }

    #[test]
    fn is_the_minkowski_distance() {
        // 3^3 + 4^3 + 5^3 = 6^3.
        let cubic = lp_distance(&[3.0, 4.0, 5.0], &[0.0; 3], 3.0).unwrap_or(f64::NAN);
        assert!((cubic - 6.0).abs() < 1e-12);
        assert_eq!(lp_distance(&[4.0, 9.0], &[0.0; 2], 0.5), Some(25.0));
        assert_eq!(lp_distance(&[], &[], 3.0), Some(0.0));
    }

    #[test]
    fn not_finite_is_none() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for p in [0.5, 1.0, 2.0, 3.0] {
                assert_eq!(lp_distance(&[1.0, bad], &[1.0, 1.0], p), None);
                assert_eq!(lp_distance(&[1.0, bad], &[1.0, bad], p), None);
            }
        }
        for p in [f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(lp_distance(&[1.0], &[2.0], p), None);
        }
        assert_eq!(lp_distance(&[1e200], &[0.0], 3.0), None, "the power overflows");
        assert_eq!(lp_distance(&[2.0, 2.0], &[0.0; 2], 1e-4), None, "the root overflows");
    }

    #[test]
    fn a_p_that_is_not_positive_is_none() {
        assert_eq!(lp_distance(&[1.0], &[2.0], 0.0), None);
        assert_eq!(lp_distance(&[1.0], &[2.0], -1.0), None);
    }
}
