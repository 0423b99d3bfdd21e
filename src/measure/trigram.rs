//! pg_trgm: trigram sets of words and the similarities over them.

/// Jaccard over trigram sets in single precision, as pg_trgm computes it; 0 where either set is empty.
#[inline]
pub fn trigram_similarity(overlap: usize, left: usize, right: usize) -> f32 {
    if left == 0 || right == 0 {
        return 0.0;
    }
    overlap as f32 / (left + right - overlap) as f32
}
