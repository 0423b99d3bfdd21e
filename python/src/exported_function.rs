//! A function of SQL as another library calls it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, new_empty_array};
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// A function whose constants arrive as columns of one value, as they do from another library.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExportedFunction(pub Arc<ScalarUDF>);

impl ScalarUDFImpl for ExportedFunction {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.number_rows == 0 {
            // a constant has no value here
            return Ok(ColumnarValue::Array(new_empty_array(args.return_field.data_type())));
        }
        for argument in &mut args.args {
            if let ColumnarValue::Array(array) = argument
                && let Some(constant) = constant(array)?
            {
                *argument = ColumnarValue::Scalar(constant);
            }
        }
        let rows = args.number_rows;
        // the other library expects a value for each row
        Ok(ColumnarValue::Array(self.0.invoke_with_args(args)?.into_array(rows)?))
    }
}

/// The one value of `array`, of types that constants of functions have.
fn constant(array: &ArrayRef) -> Result<Option<ScalarValue>> {
    let data_type = array.data_type();
    if !(data_type.is_numeric() || data_type.is_string() || data_type.is_null()) {
        return Ok(None);
    }
    let first = ScalarValue::try_from_array(array, 0)?;
    // most columns differ within a few rows
    let few = array.slice(0, array.len().min(16));
    for rows in [&few, array] {
        let same = not_distinct(rows, &first.to_scalar()?)?;
        if same.true_count() < rows.len() {
            return Ok(None);
        }
    }
    Ok(Some(first))
}
