//! Levenshtein: the fewest insertions, deletions and substitutions that turn one string into the other.
//!
//! Counted in Unicode scalar values. Bit-parallel; up to 64 characters nothing is allocated.

use super::edit_matrix;
use super::symbols::{Symbols, without_common_affixes};
use crate::edit_descriptor::{EditCost, EditDescriptor, EditKernel, EditLimit, EditOperations, EditScale, EditSteps};

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "levenshtein",
    doc: None,
    parameters: &[],
    scale: EditScale::Distance(EditOperations::PLAIN),
    cost: EditCost { fixed: 10.0, step: 2.6, steps: EditSteps::Words },
    kernel: Some(EditKernel::Levenshtein),
};

/// The Levenshtein distance of `a` and `b`, in characters.
///
/// # Example
///
/// ```
/// use similarity_measures::levenshtein::levenshtein;
///
/// assert_eq!(levenshtein("kitten", "sitting"), 3);
/// ```
pub fn levenshtein(a: &str, b: &str) -> usize {
    let (a, b) = without_common_affixes(a, b);
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => edit_matrix::distance::<_, false>(a, b),
        Symbols::Decoded(a, b) => edit_matrix::distance::<char, false>(&a, &b),
    }
}

/// The Levenshtein distance of `a` and `b` if it is at most `k`, otherwise `None`.
///
/// Stops as soon as `k` is out of reach. Strings of length `n` take `O(n)` time for small `k` and
/// `O(n k / 64)` for large.
pub fn levenshtein_within(a: &str, b: &str, k: usize) -> Option<usize> {
    levenshtein_within_unless(a, b, k, &|| false)
}

/// [`levenshtein_within`] that gives up, with `None`, once `stop` is true; asked again and again while long strings
/// are compared.
pub fn levenshtein_within_unless(a: &str, b: &str, k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    let (a, b) = without_common_affixes(a, b);
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => edit_matrix::distance_within::<_, false>(a, b, k, stop),
        Symbols::Decoded(a, b) => edit_matrix::distance_within::<char, false>(&a, &b, k, stop),
    }
}

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    Some(levenshtein(a, b) as f64)
}

pub(crate) fn score_within(a: &str, b: &str, limit: EditLimit, stop: &dyn Fn() -> bool) -> Option<f64> {
    levenshtein_within_unless(a, b, limit.edits, stop).map(|d| d as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_strings::{pairs, plain_levenshtein};

    #[test]
    fn agrees_with_the_definition() {
        for (a, b) in pairs() {
            let d = plain_levenshtein(&a, &b);
            assert_eq!(levenshtein(&a, &b), d, "{a:?} {b:?}");
            for k in [0, 1, 2, 3, 5, 9, 30, 64, 200, d.saturating_sub(1), d, d + 1, usize::MAX] {
                assert_eq!(levenshtein_within(&a, &b, k), (d <= k).then_some(d), "{a:?} {b:?} {k}");
            }
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(levenshtein("", ""), 0);
        assert_eq!(levenshtein("", "日本"), 2);
        assert_eq!(levenshtein("kitten", "sitting"), 3);
        assert_eq!(levenshtein("né", "nè"), 1);
        assert_eq!(levenshtein(&"ab".repeat(150), &"ba".repeat(150)), 2);
        assert_eq!(levenshtein(&"a".repeat(300), &"b".repeat(299)), 300);
    }

    #[test]
    fn long_strings_with_few_edits_are_cheap() {
        let a = "abcdefghij".repeat(100_000);
        let b = format!("x{}y{}", &a[..500_000], &a[500_002..]);
        assert_eq!(levenshtein_within(&a, &b, 3), Some(3));
        assert_eq!(levenshtein_within(&a, &b, 2), None);
        assert_eq!(levenshtein_within(&a, &b, 1000), Some(3));
        assert_eq!(levenshtein(&a, &b), 3);
    }
}
