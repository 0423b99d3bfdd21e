//! Jaccard: the share of the union that both sets hold.

/// `o / (r + s - o)`, one division in double precision; 0 where either set is empty.
#[inline]
pub fn jaccard(overlap: usize, left: usize, right: usize) -> f64 {
    if left == 0 || right == 0 {
        return 0.0;
    }
    overlap as f64 / (left + right - overlap) as f64
}
