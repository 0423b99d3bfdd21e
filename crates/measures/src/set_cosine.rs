//! Set cosine (Ochiai): the cosine of the two sets' indicator vectors.

/// `o / sqrt(r s)`, the product taken in integers; 0 where either set is empty.
#[inline]
pub fn set_cosine(overlap: usize, left: usize, right: usize) -> f64 {
    if left == 0 || right == 0 {
        return 0.0;
    }
    overlap as f64 / ((left * right) as f64).sqrt()
}
