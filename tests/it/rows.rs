//! The rows of a result.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{Row, RowConverter, SortField};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// All rows of a result, in whatever order they have come.
///
/// They are compared in Arrow's row format and written out only where a comparison fails.
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Rows {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// Each row as text, in the order of these.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.batches.iter().flat_map(rows_of).collect();
        rows.sort_unstable();
        rows
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|rows| {
            let fields = rows.schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
            let converter = RowConverter::new(fields).unwrap();
            let mut all = converter.empty_rows(0, 0);
            rows.batches.iter().for_each(|batch| converter.append(&mut all, batch.columns()).unwrap());
            all
        });
        let [one, other] = [&one, &other].map(|rows| {
            let mut sorted: Vec<Row<'_>> = rows.iter().collect();
            sorted.sort_unstable();
            sorted
        });
        one == other
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts()).finish()
    }
}

/// Each row as text.
pub(crate) fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
    let row = |i| columns.iter().map(|c| c.value(i).to_string()).collect::<Vec<_>>().join(" | ");
    (0..batch.num_rows()).map(row).collect()
}

#[test]
fn only_the_order_of_rows_does_not_matter() {
    let rows = |parts: &[&[Option<f64>]]| {
        let column = |part: &&[Option<f64>]| Arc::new(Float64Array::from(part.to_vec())) as ArrayRef;
        let batch = |part| RecordBatch::try_from_iter_with_nullable([("x", column(part), true)]).unwrap();
        let batches: Vec<RecordBatch> = parts.iter().map(batch).collect();
        Rows::new(batches[0].schema(), batches)
    };
    let some = rows(&[&[Some(1.0), None], &[Some(f64::NAN), Some(1.0)]]);
    assert_eq!(some, rows(&[&[None, Some(f64::NAN), Some(1.0), Some(1.0)]]));
    assert_eq!(some.texts(), ["1.0", "1.0", "NULL", "NaN"]);
    for other in [&[Some(1.0), None, Some(f64::NAN)][..], &[Some(1.0), None, Some(f64::NAN), None], &[]] {
        assert_ne!(some, rows(&[other]));
    }
    assert_ne!(rows(&[&[Some(0.0)]]), rows(&[&[Some(-0.0)]]));
}
