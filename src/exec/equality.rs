//! The values of equality keys.

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::physical_expr::PhysicalExprRef;

/// The values of a key over `batch`, with -0.0 as 0.0.
pub(super) fn evaluate(key: &PhysicalExprRef, batch: &RecordBatch) -> Result<ArrayRef> {
    Ok(normalize_float_zero(&key.evaluate(batch)?.into_array(batch.num_rows())?))
}

/// Values of several keys.
pub(super) fn evaluate_all(keys: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    keys.iter().map(|key| evaluate(key, batch)).collect()
}
