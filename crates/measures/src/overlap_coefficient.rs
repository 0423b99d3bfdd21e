//! Overlap coefficient (Szymkiewicz-Simpson): the intersection over the smaller set.

use crate::FunctionDoc;
use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "overlap_coefficient",
    doc: FunctionDoc {
        syntax: "overlap_coefficient(a, b [, q])",
        description: "The overlap over the size of the smaller of two lists, or of the q-grams of two strings. \
                      0 where either is empty.",
        example: ("overlap_coefficient(['a'], ['a', 'b', 'c'])", "1.0"),
    },
    parameters: &[],
    tokenizer: None,
    is_count: false,
    is_symmetric: true,
    is_monotone: true,
    jaccard_floor: |_, _| 0.0,
    bounds: |t, _| SetBounds::symmetric(LeastOverlap::Smaller(t), 0.0),
};

/// `o / min(|a|, |b|)`; 0 where either set is empty.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    if overlap.has_empty_side() {
        return 0.0;
    }
    overlap.common as f64 / overlap.left.min(overlap.right) as f64
}
