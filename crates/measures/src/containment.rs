//! Containment: the share of the first set that the second one holds.

use crate::FunctionDoc;
use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "containment",
    doc: FunctionDoc {
        syntax: "containment(a, b [, q])",
        description: "The share of a that b holds: the overlap over the size of a, of two lists or of the q-grams of \
                      two strings. 0 where either is empty.",
        example: ("containment(['a', 'b'], ['b', 'c', 'd'])", "0.5"),
    },
    parameters: &[],
    tokenizer: None,
    is_count: false,
    is_symmetric: false,
    is_monotone: true,
    jaccard_floor: |_, _| 0.0,
    // a set of which b holds a share is at most that much larger than b, but may be as small as one element
    bounds: |t, _| SetBounds {
        overlap: LeastOverlap::Linear { left: t, right: 0.0 },
        left_of_right: 0.0,
        right_of_left: t,
    },
};

/// `o / |a|`; 0 where either set is empty.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    if overlap.has_empty_side() {
        return 0.0;
    }
    overlap.common as f64 / overlap.left as f64
}
