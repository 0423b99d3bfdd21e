//! Overlap coefficient (Szymkiewicz-Simpson): the intersection over the smaller set.

/// `o / min(r, s)`; 0 where either set is empty.
#[inline]
pub fn overlap_coefficient(overlap: usize, left: usize, right: usize) -> f64 {
    if left == 0 || right == 0 {
        return 0.0;
    }
    overlap as f64 / left.min(right) as f64
}
