//! Hamming: the number of positions at which two strings of equal length differ.
//!
//! Counted in Unicode scalar values; nothing is allocated.

use crate::FunctionDoc;
use crate::edit_descriptor::{EditCost, EditDescriptor, EditKernel, EditOperations, EditScale, EditSteps};

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "hamming",
    doc: Some(FunctionDoc {
        syntax: "hamming(a, b)",
        description: "In how many places two strings of equal length differ; NULL for unequal lengths.",
        example: ("hamming('karolin', 'kathrin')", "3"),
    }),
    parameters: &[],
    scale: EditScale::Distance(EditOperations { shifts: false, ..EditOperations::PLAIN }),
    cost: EditCost { fixed: 20.0, step: 1.0, steps: EditSteps::Characters },
    kernel: Some(EditKernel::Hamming),
};

/// The number of characters of `a` that differ from the one at the same place in `b`.
///
/// `None` (SQL NULL) if the strings have different numbers of characters.
///
/// # Example
///
/// ```
/// use similarity_measures::hamming::hamming;
///
/// assert_eq!(hamming("karolin", "kathrin"), Some(3));
/// assert_eq!(hamming("a", "ab"), None);
/// ```
pub fn hamming(a: &str, b: &str) -> Option<usize> {
    if a.is_ascii() && b.is_ascii() {
        let differing = || a.bytes().zip(b.bytes()).filter(|(x, y)| x != y).count();
        return (a.len() == b.len()).then(differing);
    }
    let (mut left, mut right) = (a.chars(), b.chars());
    let mut differing = 0;
    loop {
        match (left.next(), right.next()) {
            (Some(x), Some(y)) => differing += usize::from(x != y),
            (None, None) => return Some(differing),
            _ => return None,
        }
    }
}

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    hamming(a, b).map(|d| d as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lengths() {
        assert_eq!(hamming("karolin", "kathrin"), Some(3));
        assert_eq!(hamming("", ""), Some(0));
        assert_eq!(hamming("a", "a"), Some(0));
        assert_eq!(hamming("a", "A"), Some(1));
        assert_eq!(hamming(&"ab".repeat(150), &"ba".repeat(150)), Some(300));
    }

    #[test]
    fn counted_in_characters() {
        assert_eq!(hamming("naïve", "naive"), Some(1));
        assert_eq!(hamming("日本語", "日本国"), Some(1));
        assert_eq!(hamming("🦀", "a"), Some(1));
        // Equal numbers of bytes, unequal numbers of characters, and the other way round.
        assert_eq!(hamming("éa", "abc"), None);
        assert_eq!(hamming("éb", "ab"), Some(1));
    }

    #[test]
    fn unequal_lengths() {
        assert_eq!(hamming("", "a"), None);
        assert_eq!(hamming("ab", "a"), None);
        assert_eq!(hamming("é", ""), None);
        assert_eq!(hamming("é", "éé"), None);
    }
}
