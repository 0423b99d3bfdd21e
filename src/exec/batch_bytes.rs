//! Bytes of a batch.

use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};

/// What the rows of a batch take by themselves, where its columns may share larger buffers, as those read from a file
/// do.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    let bytes = |column: &Arc<dyn Array>| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}
