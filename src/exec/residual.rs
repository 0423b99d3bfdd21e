//! The conditions that the index does not know, checked on its pairs.

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{filter, take};
use datafusion::common::cast::{as_boolean_array, as_uint32_array};
use datafusion::common::{JoinSide, Result, exec_err};
use datafusion::physical_plan::joins::utils::JoinFilter;

/// Pairs of rows of both sides.
#[derive(Debug, Clone)]
pub(super) struct RowPairs {
    pub left: UInt32Array,
    pub right: UInt32Array,
}

impl RowPairs {
    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of the build side, and of the probe side.
    pub(super) fn by_build(&self, build_is_right: bool) -> (&UInt32Array, &UInt32Array) {
        if build_is_right { (&self.right, &self.left) } else { (&self.left, &self.right) }
    }

    fn keep(&self, mask: &BooleanArray) -> Result<Self> {
        let left = filter(&self.left, mask)?;
        let right = filter(&self.right, mask)?;
        Ok(Self { left: as_uint32_array(&left)?.clone(), right: as_uint32_array(&right)?.clone() })
    }
}

/// The pairs that satisfy all of `conditions`.
///
/// A condition sees only the pairs that satisfied those before it, so that one which may fail for a row (a cast, a
/// division) is never evaluated where the plain join would not have had to.
pub(super) fn satisfying(
    conditions: &[JoinFilter],
    mut pairs: RowPairs,
    left: &RecordBatch,
    right: &RecordBatch,
) -> Result<RowPairs> {
    for condition in conditions {
        if pairs.is_empty() {
            break;
        }
        let mask = evaluate(condition, &pairs, left, right)?;
        if mask.true_count() < pairs.len() {
            pairs = pairs.keep(&mask)?;
        }
    }
    Ok(pairs)
}

/// Fails where a pair does not satisfy the whole condition of the join.
pub(super) fn verify(condition: &JoinFilter, pairs: &RowPairs, left: &RecordBatch, right: &RecordBatch) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let held = evaluate(condition, pairs, left, right)?.true_count();
    if held == pairs.len() {
        return Ok(());
    }
    exec_err!(
        "similarity.verify: {} of {} pairs do not satisfy the join condition; please report this, and set similarity.enabled = false meanwhile",
        pairs.len() - held,
        pairs.len()
    )
}

/// One truth value a pair; NULL counts as false in what uses it.
pub(super) fn evaluate(
    condition: &JoinFilter,
    pairs: &RowPairs,
    left: &RecordBatch,
    right: &RecordBatch,
) -> Result<BooleanArray> {
    Ok(as_boolean_array(&values(condition, pairs, left, right)?)?.clone())
}

/// One value a pair.
pub(super) fn values(
    expression: &JoinFilter,
    pairs: &RowPairs,
    left: &RecordBatch,
    right: &RecordBatch,
) -> Result<ArrayRef> {
    let columns = expression.column_indices().iter().map(|column| {
        let (batch, rows) = if column.side == JoinSide::Right { (right, &pairs.right) } else { (left, &pairs.left) };
        Ok(take(batch.column(column.index), rows, None)?)
    });
    let options = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
    let batch =
        RecordBatch::try_new_with_options(expression.schema().clone(), columns.collect::<Result<_>>()?, &options)?;
    expression.expression().evaluate(&batch)?.into_array(pairs.len())
}
