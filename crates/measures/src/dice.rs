//! Dice: twice the intersection over the sum of the sizes.

/// `2 o / (r + s)`, one division in double precision; 0 where either set is empty.
#[inline]
pub fn dice(overlap: usize, left: usize, right: usize) -> f64 {
    if left == 0 || right == 0 {
        return 0.0;
    }
    (2 * overlap) as f64 / (left + right) as f64
}
