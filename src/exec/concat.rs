//! Batches put together as one.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;

use crate::engine::parallel::in_turn;

/// Below this many rows threads cost more than they save.
const WORTH_THREADS: usize = 1 << 15;

/// The rows of `batches`, one after the other, column by column by up to `threads` threads.
pub(super) fn concat_in_parallel(schema: &SchemaRef, batches: &[RecordBatch], threads: usize) -> Result<RecordBatch> {
    if let [only] = batches {
        return Ok(only.clone());
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let threads = if rows < WORTH_THREADS { 1 } else { threads };
    let columns = in_turn(schema.fields().len(), threads, |at| {
        let parts: Vec<_> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        Ok(match parts.as_slice() {
            [] => new_empty_array(schema.field(at).data_type()),
            parts => concat(parts)?,
        })
    })?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use datafusion::arrow::compute::concat_batches;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn batches_are_one_after_the_other() {
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)];
        let schema = Arc::new(Schema::new(fields));
        let batch = |first: i64, rows: i64| {
            let numbers = (first..first + rows).map(|n| (n % 7 > 0).then_some(n));
            let texts = (first..first + rows).map(|n| (n % 5 > 0).then(|| format!("a string of many bytes, {n}")));
            let columns: Vec<ArrayRef> =
                vec![Arc::new(numbers.collect::<Int64Array>()), Arc::new(texts.collect::<StringViewArray>())];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        let batches = [batch(0, 30_000), batch(30_000, 0), batch(30_000, 5000)];
        for count in [0, 1, 3] {
            let expected = concat_batches(&schema, &batches[..count]).unwrap();
            for threads in [1, 2] {
                assert_eq!(concat_in_parallel(&schema, &batches[..count], threads).unwrap(), expected);
            }
        }
        let none = Arc::new(Schema::empty());
        let rows = RecordBatchOptions::new().with_row_count(Some(3));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&none), vec![], &rows).unwrap();
        assert_eq!(concat_in_parallel(&none, &[batch.clone(), batch], 2).unwrap().num_rows(), 6);
    }
}
