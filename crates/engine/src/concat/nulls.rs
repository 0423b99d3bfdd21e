//! Nulls of a column that is put together.

use arrow::array::{Array, NullBufferBuilder};
use arrow::buffer::NullBuffer;

/// The nulls of all `parts`, which have so many rows.
pub(super) fn nulls_of(parts: &[&dyn Array], rows: usize) -> Option<NullBuffer> {
    let mut nulls = NullBufferBuilder::new(rows);
    for part in parts {
        match part.nulls() {
            Some(of_part) => nulls.append_buffer(of_part),
            None => nulls.append_n_non_nulls(part.len()),
        }
    }
    nulls.finish()
}
