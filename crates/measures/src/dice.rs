//! Dice: twice the intersection over the sum of the sizes.

use crate::FunctionDoc;
use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "dice",
    doc: FunctionDoc {
        syntax: "dice(a, b [, q])",
        description: "Twice the overlap over the sum of the sizes of two lists, or of the q-grams of two strings. \
                      0 where either is empty.",
        example: ("dice(['a', 'b'], ['b', 'c'])", "0.5"),
    },
    parameters: &[],
    tokenizer: None,
    is_count: false,
    is_symmetric: true,
    is_monotone: true,
    jaccard_floor: |least, _| least / (2.0 - least),
    bounds: |t, _| SetBounds::symmetric(LeastOverlap::Linear { left: t / 2.0, right: t / 2.0 }, t / (2.0 - t)),
};

/// `2 o / (|a| + |b|)`, one division in double precision; 0 where either set is empty.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    if overlap.has_empty_side() {
        return 0.0;
    }
    (2 * overlap.common) as f64 / (overlap.left + overlap.right) as f64
}
