//! Record batches from row numbers of both sides.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};

/// The output columns and where they come from.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub schema: SchemaRef,
    columns: Vec<ColumnIndex>,
}

/// Rows of one side, NULL where a row number is, and all of them where there are no row numbers.
#[derive(Clone, Copy)]
pub(super) struct SideRows<'a> {
    pub batch: &'a RecordBatch,
    pub rows: Option<&'a UInt32Array>,
}

impl Output {
    /// The columns of a join, or those of them that `projection` names.
    pub(super) fn new(left: &Schema, right: &Schema, join_type: JoinType, projection: Option<&[usize]>) -> Self {
        let (schema, columns) = build_join_schema(left, right, &join_type);
        let Some(projection) = projection else { return Self { schema: Arc::new(schema), columns } };
        let fields: Vec<_> = projection.iter().map(|&i| Arc::clone(&schema.fields()[i])).collect();
        let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        Self { schema: Arc::new(schema), columns: projection.iter().map(|&i| columns[i].clone()).collect() }
    }

    /// The columns of a side that come out.
    pub(super) fn columns_of(&self, side: JoinSide) -> impl Iterator<Item = usize> {
        self.columns.iter().filter(move |column| column.side == side).map(|column| column.index)
    }

    /// `rows` output rows.
    pub(super) fn assemble(&self, left: SideRows<'_>, right: SideRows<'_>, rows: usize) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|c| pick(c, left, right, rows)).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn pick(column: &ColumnIndex, left: SideRows<'_>, right: SideRows<'_>, rows: usize) -> Result<ArrayRef> {
    let side = if column.side == JoinSide::Right { right } else { left };
    let values = side.batch.column(column.index);
    match side.rows {
        // a side without rows has none to stand for NULL
        Some(numbers) if rows == 0 || numbers.null_count() < rows => Ok(take(values, numbers, None)?),
        _ => Ok(new_null_array(values.data_type(), rows)),
    }
}
