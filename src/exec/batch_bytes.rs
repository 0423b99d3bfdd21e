//! Bytes of a batch.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, NullArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;

/// What the rows of a batch take by themselves, where its columns may share larger buffers, as those read from a file
/// do.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    let bytes = |column: &Arc<dyn Array>| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}

/// The rows without the values of some columns, which are of the type Null then.
pub(super) fn without_values(batch: RecordBatch, columns: &[usize]) -> Result<RecordBatch> {
    let (schema, mut arrays, rows) = batch.into_parts();
    let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
    for &column in columns {
        arrays[column] = Arc::new(NullArray::new(rows));
        fields[column] = Arc::new(Field::new(fields[column].name(), DataType::Null, true));
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
}

/// The most buffers that the views of a column may share.
const MOST_BUFFERS: usize = 64;

/// Rows of `batch`, with strings of their own where the views of a column share many buffers. A sort leaves each of its
/// batches with the buffers of all, and whoever takes rows of such a column copies the list of buffers every time.
pub(super) fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    with_few_buffers(batch, MOST_BUFFERS)
}

/// Rows of `batch`, with strings of their own: rows that were taken from others else hold the strings of all.
pub(super) fn detached(batch: RecordBatch) -> Result<RecordBatch> {
    with_few_buffers(batch, 0)
}

fn with_few_buffers(batch: RecordBatch, most: usize) -> Result<RecordBatch> {
    let buffers = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers().len(),
        DataType::BinaryView => column.as_binary_view().data_buffers().len(),
        _ => 0,
    };
    if batch.columns().iter().all(|column| buffers(column) <= most) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View if buffers(column) > most => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView if buffers(column) > most => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    // a column keeps its rows, so that there is at least one to count them by
    Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::compute::concat;

    use super::*;

    #[test]
    fn views_of_many_buffers_get_one_of_their_own() {
        let texts: Vec<String> = (0..100).map(|n| format!("a string that no view holds, number {n}")).collect();
        let parts: Vec<ArrayRef> =
            texts.iter().map(|text| Arc::new(StringViewArray::from(vec![text.as_str()])) as ArrayRef).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let views = concat(&parts).unwrap();
        let batch = RecordBatch::try_from_iter([("many", views)]).unwrap();
        let compact = compacted(batch.clone()).unwrap();
        assert_eq!(compact, batch);
        assert!(compact.column(0).as_string_view().data_buffers().len() <= 1);
        let one = detached(batch.slice(7, 1)).unwrap();
        assert_eq!(one, batch.slice(7, 1));
        assert!(one.get_array_memory_size() < 200);
    }
}
