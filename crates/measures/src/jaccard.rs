//! Jaccard: the share of the union that both sets hold.

use crate::FunctionDoc;
use crate::set_descriptor::{LeastOverlap, Overlap, SetBounds, SetDescriptor};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "jaccard",
    doc: FunctionDoc {
        syntax: "jaccard(a, b [, q])",
        description: "The share of the union that both sets hold: two lists, or the q-grams of two strings (single \
                      characters without q). 0 where either is empty.",
        example: ("jaccard(['a', 'b'], ['b', 'c'])", "0.3333333333333333"),
    },
    parameters: &[],
    tokenizer: None,
    is_count: false,
    is_symmetric: true,
    is_monotone: true,
    jaccard_floor: |least, _| least,
    bounds: |t, _| bounds(t),
};

/// `o / (|a| + |b| - o)`, one division in double precision; 0 where either set is empty.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    if overlap.has_empty_side() {
        return 0.0;
    }
    overlap.common as f64 / (overlap.left + overlap.right - overlap.common) as f64
}

/// Bounds of a Jaccard similarity of at least `t`: `o >= t (|a| + |b|) / (1 + t)`.
pub(crate) fn bounds(t: f64) -> SetBounds {
    let share = t / (1.0 + t);
    SetBounds::symmetric(LeastOverlap::Linear { left: share, right: share }, t)
}
