//! Rows that say the same, kept once.
//!
//! Of an input whose rows never come out, in a semi or an anti join, only the columns of the condition are left: a row
//! that repeats another one decides nothing.

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use foldhash::fast::FixedState;
use hashbrown::HashSet;

/// The different rows of `batch`, in order; all of them, where their type cannot be compared.
pub(super) fn distinct(batch: RecordBatch) -> Result<RecordBatch> {
    let fields: Vec<_> = batch.schema().fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
    if fields.is_empty() || batch.num_rows() < 2 || !RowConverter::supports_fields(&fields) {
        return Ok(batch);
    }
    let rows = RowConverter::new(fields)?.convert_columns(batch.columns())?;
    let mut seen = HashSet::with_hasher(FixedState::default());
    let first: Vec<u32> = (0u32..).zip(&rows).filter(|(_, row)| seen.insert(*row)).map(|(at, _)| at).collect();
    if first.len() == batch.num_rows() {
        return Ok(batch);
    }
    Ok(take_record_batch(&batch, &UInt32Array::from(first))?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int32Array, StringArray};

    use super::*;

    #[test]
    fn the_first_of_equal_rows_stays() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(1), None, Some(2)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a"), Some(""), Some("a")]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let kept = distinct(batch.clone()).unwrap();
        assert_eq!(kept, take_record_batch(&batch, &UInt32Array::from(vec![0, 1, 3, 4])).unwrap());
    }
}
