//! Levenshtein similarity: the share of the longer string that is not edited.

use crate::FunctionDoc;
use crate::edit_descriptor::{EditDescriptor, EditKernel, EditLimit, EditOperations, EditScale};
use crate::levenshtein::{self, levenshtein, levenshtein_within_unless};
use crate::symbols;

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "levenshtein_similarity",
    doc: Some(FunctionDoc {
        syntax: "levenshtein_similarity(a, b)",
        description: "1 - levenshtein(a, b) / the length of the longer string; 1 for two empty strings.",
        example: ("levenshtein_similarity('abcd', 'abce')", "0.75"),
    }),
    parameters: &[],
    scale: EditScale::Share(EditOperations::PLAIN),
    cost: levenshtein::MEASURE.cost,
    kernel: Some(EditKernel::Levenshtein),
};

/// `1 - levenshtein(a, b) / max(len(a), len(b))`, lengths in characters; 1 for two empty strings.
pub fn levenshtein_similarity(a: &str, b: &str) -> f64 {
    similarity_of_distance(levenshtein(a, b), symbols::len(a).max(symbols::len(b)))
}

/// The similarity of two strings at distance `d`, the longer of `longest` characters.
#[inline]
pub fn similarity_of_distance(d: usize, longest: usize) -> f64 {
    if longest == 0 { 1.0 } else { 1.0 - d as f64 / longest as f64 }
}

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    Some(levenshtein_similarity(a, b))
}

pub(crate) fn score_within(a: &str, b: &str, limit: EditLimit, stop: &dyn Fn() -> bool) -> Option<f64> {
    levenshtein_within_unless(a, b, limit.edits, stop).map(|d| similarity_of_distance(d, limit.longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities() {
        assert_eq!(levenshtein_similarity("", ""), 1.0);
        assert_eq!(levenshtein_similarity("", "a"), 0.0);
        assert_eq!(levenshtein_similarity("abcd", "abce"), 0.75);
        assert_eq!(levenshtein_similarity("müller", "muller"), 1.0 - 1.0 / 6.0);
    }
}
