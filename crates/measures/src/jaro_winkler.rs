//! Jaro-Winkler similarity: Jaro with a boost for a common prefix.

use super::jaro::{self, jaro_similarity};
use crate::FunctionDoc;
use crate::edit_descriptor::{EditDescriptor, EditKernel, EditScale};

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "jaro_winkler_similarity",
    doc: Some(FunctionDoc {
        syntax: "jaro_winkler_similarity(a, b)",
        description: "Jaro's similarity, raised above 0.7 by a common prefix of up to 4 characters, each with weight \
                      0.1.",
        example: ("round(jaro_winkler_similarity('martha', 'marhta'), 3)", "0.961"),
    }),
    scale: EditScale::Jaro { is_raised: true },
    cost: jaro::MEASURE.cost,
    kernel: Some(EditKernel::Jaro),
};

/// The Jaro similarity above which a common prefix counts.
const BOOST_ABOVE: f64 = 0.7;

/// The boost per character of the common prefix.
const PREFIX_WEIGHT: f64 = 0.1;

/// The longest prefix that counts, in characters.
const LONGEST_PREFIX: usize = 4;

/// The Jaro-Winkler similarity of `a` and `b`, between 0 and 1.
///
/// A Jaro similarity `s` above 0.7 becomes `s + 0.1 p (1 - s)`, `p` being the number of characters, at most 4,
/// that `a` and `b` begin with in common; a lower one stays.
///
/// # Example
///
/// ```
/// use similarity_measures::jaro_winkler::jaro_winkler_similarity;
///
/// assert!((jaro_winkler_similarity("MARTHA", "MARHTA") - 0.961).abs() < 0.001);
/// ```
pub fn jaro_winkler_similarity(a: &str, b: &str) -> f64 {
    let jaro = jaro_similarity(a, b);
    if jaro <= BOOST_ABOVE {
        return jaro;
    }
    let prefix = a.chars().zip(b.chars()).take(LONGEST_PREFIX).take_while(|(x, y)| x == y).count();
    // This order of operations is the definition: it decides the last bit of the score.
    (jaro + PREFIX_WEIGHT * prefix as f64 * (1.0 - jaro)).min(1.0)
}

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    Some(jaro_winkler_similarity(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert!((jaro_winkler_similarity("martha", "marhta") - 0.961_111_111_111_111_1).abs() < 1e-15);
        assert!((jaro_winkler_similarity("dixon", "dicksonx") - 0.813_333_333_333_333_3).abs() < 1e-15);
    }

    #[test]
    fn only_above_the_boost() {
        assert_eq!(jaro_winkler_similarity("abcd", "abxyzw"), jaro_similarity("abcd", "abxyzw"));
        assert_eq!(jaro_winkler_similarity("", ""), 1.0);
        assert_eq!(jaro_winkler_similarity("", "a"), 0.0);
        assert_eq!(jaro_winkler_similarity("日本語日本語", "日本語日本語"), 1.0);
    }
}
