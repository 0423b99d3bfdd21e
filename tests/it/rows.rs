//! The rows of a result.

use std::fmt;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{Row, RowConverter, SortField};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// All rows of a result, in whatever order they have come.
///
/// They are compared in Arrow's row format and written out only where a comparison fails: most results of random queries are
/// equal, and to write a million numbers takes longer than to join them.
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
