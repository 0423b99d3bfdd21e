//! Cosine similarity of two vectors.
//!
//! The vectors have equal lengths: the caller has seen to it. Sums run from the first element to the last.

/// `a.b / (sqrt(a.a) sqrt(b.b))` in double precision, rounding beyond -1 or 1 cut off; zero is never negative.
///
/// `None`, which SQL shows as NULL, where an element, the dot product or a sum of squares is NaN or infinite
/// and where a sum of squares is zero (empty vectors, all zeros, or elements whose squares underflow).
pub fn cosine_similarity(a: &[f64], b: &[f64]) -> Option<f64> {
    let (dot, a_squares, b_squares) =
        a.iter().zip(b).fold((0.0, 0.0, 0.0), |(dot, aa, bb), (x, y)| (dot + x * y, aa + x * x, bb + y * y));
    let usable = |squares: f64| squares.is_finite() && squares > 0.0;
    if !(f64::is_finite(dot) && usable(a_squares) && usable(b_squares)) {
        return None;
    }
    // Each root lies between 1e-162 and 1e154, so the product neither vanishes nor overflows.
    // What underflows keeps the sign of the dot product, unless 0 is added.
    Some((dot / (a_squares.sqrt() * b_squares.sqrt())).clamp(-1.0, 1.0) + 0.0)
}

/// `1 - a.b / (sqrt(a.a) sqrt(b.b))` in double precision, as DataFusion's function of that name has it: nothing is cut
/// off. `None` where a sum of squares is zero; the elements are finite and far from overflow.
pub fn cosine_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    let (dot, a_squares, b_squares) =
        a.iter().zip(b).fold((0.0, 0.0, 0.0), |(dot, aa, bb), (x, y)| (dot + x * y, aa + x * x, bb + y * y));
    (a_squares != 0.0 && b_squares != 0.0).then(|| 1.0 - dot / (a_squares.sqrt() * b_squares.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_cosine_of_the_angle() {
        assert_eq!(cosine_similarity(&[1.0, 0.0], &[0.0, 2.0]), Some(0.0));
        assert_eq!(cosine_similarity(&[3.0, 4.0], &[3.0, 4.0]), Some(1.0));
        assert_eq!(cosine_similarity(&[3.0, 4.0], &[-6.0, -8.0]), Some(-1.0));
        assert_eq!(cosine_similarity(&[3.0, 4.0], &[4.0, 3.0]), Some(0.96));
    }

    #[test]
    fn stays_within_its_range() {
        for n in 1..200 {
            let a: Vec<f64> = (0..7).map(|i| f64::from(n * (i + 3)).sqrt()).collect();
            let b: Vec<f64> = a.iter().map(|x| x * -0.1).collect();
            let same = cosine_similarity(&a, &a);
            assert!(same.is_some_and(|s| s <= 1.0 && s > 1.0 - 1e-12));
            let opposite = cosine_similarity(&a, &b);
            assert!(opposite.is_some_and(|s| (-1.0..-1.0 + 1e-12).contains(&s)));
        }
    }

    #[test]
    fn zero_norm_is_none() {
        assert_eq!(cosine_similarity(&[], &[]), None);
        assert_eq!(cosine_similarity(&[0.0, -0.0], &[1.0, 2.0]), None);
        assert_eq!(cosine_similarity(&[1.0, 2.0], &[0.0, 0.0]), None);
        assert_eq!(cosine_similarity(&[1e-200], &[1.0]), None, "the square underflows");
    }

    #[test]
    fn the_smallest_norms_that_count_give_a_number() {
        let tiny = 3e-162;
        assert!(cosine_similarity(&[tiny], &[tiny]).is_some_and(f64::is_finite));
    }

    #[test]
    fn zero_has_no_sign() {
        let underflows = cosine_similarity(&[-3.0, 0.0], &[5e-324, 3.0]);
        assert!(underflows.is_some_and(|s| s == 0.0 && s.is_sign_positive()));
    }

    #[test]
    fn not_finite_is_none() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(cosine_similarity(&[1.0, bad], &[1.0, 1.0]), None);
            assert_eq!(cosine_similarity(&[1.0, 0.0], &[1.0, bad]), None);
        }
        assert_eq!(cosine_similarity(&[1e200], &[1e-100]), None, "the square overflows");
    }
}
