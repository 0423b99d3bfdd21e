//! Optimal string alignment: Levenshtein with transpositions of neighbours, no substring edited twice.
//!
//! Counted in Unicode scalar values. Bit-parallel; up to 64 characters nothing is allocated. Not a metric:
//! `ca`, `ac`, `abc` violate the triangle inequality.

use super::edit_matrix;
use super::symbols::{Symbols, without_common_affixes};
use crate::edit_descriptor::{EditDescriptor, EditKernel, EditLimit, EditOperations, EditScale};
use crate::{FunctionDoc, levenshtein};

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "osa_distance",
    doc: Some(FunctionDoc {
        syntax: "osa_distance(a, b)",
        description: "Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, no part \
                      edited twice.",
        example: ("osa_distance('ca', 'abc')", "3"),
    }),
    parameters: &[],
    // a transposition changes three bigrams, and two substitutions do what it does
    scale: EditScale::Distance(EditOperations { torn_bigrams: 3, gap: 1, shifts: true, plain_edits: 2 }),
    cost: levenshtein::MEASURE.cost,
    kernel: Some(EditKernel::Osa),
};

/// The optimal string alignment distance of `a` and `b`, in characters.
///
/// # Example
///
/// ```
/// use similarity_measures::osa::osa_distance;
///
/// assert_eq!(osa_distance("form", "from"), 1);
/// assert_eq!(osa_distance("ca", "abc"), 3);
/// ```
pub fn osa_distance(a: &str, b: &str) -> usize {
    let (a, b) = without_common_affixes(a, b);
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => edit_matrix::distance::<_, true>(a, b),
        Symbols::Decoded(a, b) => edit_matrix::distance::<char, true>(&a, &b),
    }
}

/// The optimal string alignment distance of `a` and `b` if it is at most `k`, otherwise `None`.
///
/// Stops early and costs the same as `levenshtein_within`.
pub fn osa_within(a: &str, b: &str, k: usize) -> Option<usize> {
    osa_within_unless(a, b, k, &|| false)
}

/// [`osa_within`] that gives up, with `None`, once `stop` is true; asked again and again while long strings
/// are compared.
pub fn osa_within_unless(a: &str, b: &str, k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    let (a, b) = without_common_affixes(a, b);
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => edit_matrix::distance_within::<_, true>(a, b, k, stop),
        Symbols::Decoded(a, b) => edit_matrix::distance_within::<char, true>(&a, &b, k, stop),
    }
}

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    Some(osa_distance(a, b) as f64)
}

pub(crate) fn score_within(a: &str, b: &str, limit: EditLimit, stop: &dyn Fn() -> bool) -> Option<f64> {
    osa_within_unless(a, b, limit.edits, stop).map(|d| d as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_strings::{pairs, plain_osa};

    #[test]
    fn agrees_with_the_definition() {
        for (a, b) in pairs() {
            let d = plain_osa(&a, &b);
            assert_eq!(osa_distance(&a, &b), d, "{a:?} {b:?}");
            for k in [0, 1, 2, 3, 5, 9, 30, 64, 200, d.saturating_sub(1), d, d + 1, usize::MAX] {
                assert_eq!(osa_within(&a, &b, k), (d <= k).then_some(d), "{a:?} {b:?} {k}");
            }
        }
    }

    #[test]
    fn no_part_is_edited_twice() {
        assert_eq!(osa_distance("ca", "abc"), 3);
        assert_eq!(osa_distance("brian", "brain"), 1);
        assert_eq!(osa_distance("日本", "本日"), 1);
        assert_eq!(osa_distance("", ""), 0);
    }

    #[test]
    fn transpositions_across_words() {
        // Distinct neighbours everywhere, so that no cheaper way round a transposition exists.
        let symbols = (0..300).map(|i| char::from_u32(0x4E00 + i).unwrap()).collect::<Vec<_>>();
        let a = symbols.iter().collect::<String>();
        for first in [0, 62, 63, 64, 126, 127, 128, 191, 255, 256, 298] {
            let mut swapped = symbols.clone();
            swapped.swap(first, first + 1);
            (swapped[10], swapped[280]) = ('x', 'y');
            let b = swapped.into_iter().collect::<String>();
            assert_eq!(osa_distance(&a, &b), 3, "{first}");
            assert_eq!((osa_within(&a, &b, 3), osa_within(&a, &b, 2)), (Some(3), None), "{first}");
        }
    }
}
