//! Values by the columns of a row, as a function that a table can evaluate.
//!
//! A table deletes and updates by expressions over its own columns. What a sub-query says of a row depends on some of
//! these columns alone, so that it can be looked up by them. `row_value(x, y)` is the value that was computed for the
//! row with these `x` and `y`, and NULL for a row that was not among the computed ones.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, UInt64Array, new_null_array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Rows, each with its number; equal rows share the first.
pub(super) struct RowNumbers {
    converter: RowConverter,
    numbers: HashMap<OwnedRow, u64>,
    /// Given back with the rows.
    _memory: MemoryReservation,
}

impl RowNumbers {
    /// The rows of `batches`, which hold their columns, in memory that is reserved.
    pub fn of(types: &[DataType], batches: &[Vec<ArrayRef>], memory: MemoryReservation) -> Result<Self> {
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        let converter = RowConverter::new(fields)?;
        let (mut numbers, mut next) = (HashMap::new(), 0..);
        for columns in batches {
            for (row, number) in converter.convert_columns(columns)?.iter().zip(&mut next) {
                numbers.entry(row.owned()).or_insert(number);
            }
        }
        Ok(Self { converter, numbers, _memory: memory })
    }

    /// The number of each row of `columns`, NULL where it is not among the rows.
    fn find(&self, columns: &[ArrayRef]) -> Result<UInt64Array> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows.iter().map(|row| self.numbers.get(&row.owned()).copied()).collect())
    }
}

/// The value of each row: `values` holds it at the row's number.
pub(super) fn row_value(
    rows: &Arc<RowNumbers>,
    columns: Vec<Expr>,
    values: &[ArrayRef],
    of: &DataType,
) -> Result<Expr> {
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    let values = if values.is_empty() { new_null_array(of, 0) } else { concat(&values)? };
    let signature = Signature::any(columns.len(), Volatility::Immutable);
    let function = RowValue { rows: Arc::clone(rows), values, signature };
    Ok(ScalarUDF::from(function).call(columns))
}

struct RowValue {
    rows: Arc<RowNumbers>,
    values: ArrayRef,
    signature: Signature,
}

impl ScalarUDFImpl for RowValue {
    fn name(&self) -> &str {
        "row_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.values.data_type().clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let places = self.rows.find(&columns)?;
        let values = take(&self.values, &places, None)?;
        let constant = !args.args.iter().any(|arg| matches!(arg, ColumnarValue::Array(_)));
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

// No two functions are the same unless they look up the same rows.
impl PartialEq for RowValue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows) && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for RowValue {}

impl Hash for RowValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.rows).hash(state);
    }
}

impl fmt::Debug for RowValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowValue").field("rows", &self.rows.numbers.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BooleanArray, Float64Array, Int32Array, StringArray};

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};

    use super::*;

    fn memory() -> MemoryReservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        MemoryConsumer::new("test").register(&pool)
    }

    #[test]
    fn rows_are_found_by_their_bits() {
        let columns = |x: Vec<Option<f64>>, y: Vec<Option<&str>>| -> Vec<ArrayRef> {
            vec![Arc::new(Float64Array::from(x)), Arc::new(StringArray::from(y))]
        };
        let types = [DataType::Float64, DataType::Utf8];
        let known =
            columns(vec![Some(0.0), None, Some(f64::NAN), Some(0.0)], vec![Some("a"), None, Some(""), Some("a")]);
        let rows = RowNumbers::of(&types, &[known], memory()).unwrap();
        let asked =
            columns(vec![Some(-0.0), None, Some(f64::NAN), Some(0.0)], vec![Some("a"), None, Some(""), Some("a")]);
        assert_eq!(rows.find(&asked).unwrap(), UInt64Array::from(vec![None, Some(1), Some(2), Some(0)]));
    }

    #[test]
    fn no_rows_have_no_values() {
        let rows = Arc::new(RowNumbers::of(&[DataType::Int32], &[], memory()).unwrap());
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        assert_eq!(rows.find(&[column]).unwrap().null_count(), 2);
        let called = row_value(&rows, vec![], &[], &DataType::Boolean).unwrap();
        let Expr::ScalarFunction(call) = called else { panic!("a call") };
        assert_eq!(call.func.return_type(&[]).unwrap(), DataType::Boolean);
        let one: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        assert!(row_value(&rows, vec![], &[one], &DataType::Boolean).is_ok());
    }
}
