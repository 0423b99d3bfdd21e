//! Set cosine (Ochiai): the cosine of the two sets' indicator vectors.

use crate::FunctionDoc;
use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "set_cosine",
    doc: FunctionDoc {
        syntax: "set_cosine(a, b [, q])",
        description: "The overlap over the geometric mean of the sizes of two lists, or of the q-grams of two \
                      strings. 0 where either is empty.",
        example: ("set_cosine(['a', 'b'], ['b', 'c'])", "0.5"),
    },
    parameters: &[],
    tokenizer: None,
    is_count: false,
    is_symmetric: true,
    is_monotone: true,
    // of sets whose sizes differ most
    jaccard_floor: |least, _| least * least,
    bounds: |t, _| SetBounds::symmetric(LeastOverlap::GeometricMean(t), t * t),
};

/// `o / sqrt(|a| |b|)`, the product taken in integers; 0 where either set is empty.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    if overlap.has_empty_side() {
        return 0.0;
    }
    overlap.common as f64 / ((overlap.left * overlap.right) as f64).sqrt()
}
