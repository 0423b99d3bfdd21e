//! Overlap count: how many distinct elements both sets hold.

use crate::FunctionDoc;
use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "overlap_count",
    doc: FunctionDoc {
        syntax: "overlap_count(a, b [, q])",
        description: "How many distinct elements two lists, or the q-grams of two strings, share.",
        example: ("overlap_count(['a', 'b'], ['b', 'c'])", "1"),
    },
    parameters: &[],
    tokenizer: None,
    is_count: true,
    is_symmetric: true,
    is_monotone: true,
    jaccard_floor: |_, _| 0.0,
    bounds: |t, _| SetBounds::symmetric(LeastOverlap::Constant(t), 0.0),
};

/// The size of the intersection.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    overlap.common as f64
}
