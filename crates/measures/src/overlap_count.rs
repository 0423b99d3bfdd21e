//! Overlap count: how many distinct elements both sets hold.

/// The size of the intersection, for sets of `left` and `right` distinct elements.
#[inline]
pub fn overlap_count(overlap: usize, _left: usize, _right: usize) -> i64 {
    overlap as i64
}
