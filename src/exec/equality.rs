//! The values of equality keys.

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::physical_expr::PhysicalExprRef;

/// The values of `exprs` over `batch`, with -0.0 as 0.0.
pub(super) fn evaluate(exprs: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|e| Ok(normalize_float_zero(&e.evaluate(batch)?.into_array(batch.num_rows())?))).collect()
}
