//! L1 (Manhattan) distance of two vectors.
//!
//! The vectors have equal lengths: the caller has seen to it. Sums run from the first element to the last.

/// `sum |a_i - b_i|` in double precision, 0 for empty vectors.
///
/// `None`, which SQL shows as NULL, where an element or the sum is NaN or infinite.
#[inline]
pub fn l1_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    // A NaN or infinite element makes its difference, and with it the sum, NaN or infinite.
    let sum = a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + (x - y).abs());
    f64::is_finite(sum).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_the_absolute_differences() {
        assert_eq!(l1_distance(&[1.0, -2.0, 3.0], &[4.0, 2.0, 3.0]), Some(7.0));
        assert_eq!(l1_distance(&[], &[]), Some(0.0));
        assert_eq!(l1_distance(&[-0.0], &[0.0]), Some(0.0));
    }

    #[test]
    fn sums_from_the_first_element_to_the_last() {
        // Backwards the ones would add up before they meet the large element.
        let a = [1e16, 1.0, 1.0];
        assert_eq!(l1_distance(&a, &[0.0; 3]), Some(1e16));
    }

    #[test]
    fn not_finite_is_none() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(l1_distance(&[1.0, bad], &[1.0, 1.0]), None);
            assert_eq!(l1_distance(&[1.0, bad], &[1.0, bad]), None);
        }
        assert_eq!(l1_distance(&[f64::MAX], &[-f64::MAX]), None);
    }
}
