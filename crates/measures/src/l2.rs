//! L2 (Euclidean) distance of two vectors.
//!
//! The vectors have equal lengths: the caller has seen to it. Sums run from the first element to the last.

/// `sqrt(sum (a_i - b_i)^2)` in double precision, 0 for empty vectors.
///
/// `None`, which SQL shows as NULL, where an element or the sum of squares is NaN or infinite.
#[inline]
pub fn l2_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    // A NaN or infinite element makes its difference, and with it the sum, NaN or infinite.
    let squares = a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + (x - y) * (x - y));
    f64::is_finite(squares).then(|| squares.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_euclidean_distance() {
        assert_eq!(l2_distance(&[0.0, 0.0], &[3.0, 4.0]), Some(5.0));
        assert_eq!(l2_distance(&[1.0; 3], &[1.0; 3]), Some(0.0));
        assert_eq!(l2_distance(&[], &[]), Some(0.0));
    }

    #[test]
    fn sums_from_the_first_element_to_the_last() {
        assert_eq!(l2_distance(&[1e8, 1.0, 1.0], &[0.0; 3]), Some(1e8));
    }

    #[test]
    fn not_finite_is_none() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(l2_distance(&[1.0, bad], &[1.0, 1.0]), None);
            assert_eq!(l2_distance(&[1.0, bad], &[1.0, bad]), None);
        }
        assert_eq!(l2_distance(&[1e200], &[0.0]), None, "the square overflows");
    }
}
