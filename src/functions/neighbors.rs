//! `neighbors(a, b, window)`: whether two whole numbers, such as ranks in an order, are less than `window` apart.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, Int64Array, UInt64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;

/// The name of the function.
pub(crate) const NAME: &str = "neighbors";

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = arguments::signature([&[DataType::Int64, DataType::Int64, DataType::Int64]]);
    vec![Arc::new(ScalarUDF::from(Neighbors { signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Neighbors {
    signature: Signature,
}

impl ScalarUDFImpl for Neighbors {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        let window = args.scalar_arguments.get(2).copied().flatten();
        if window.is_some_and(|window| window.is_null()) {
            return plan_err!("{NAME}: window has to be at least 1, it is NULL");
        }
        arguments::check_integer(NAME, "window", window, 1..=i64::MAX)?;
        Ok(Arc::new(Field::new(NAME, result, true)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        arguments::refuse_columns(NAME, "window", args.get(2))?;
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = [Integers::try_new(&args.args[0])?, Integers::try_new(&args.args[1])?];
        let window = arguments::constant_integer(NAME, "window", &args.args[2], 1..=i64::MAX)?;
        let near = |row| Some((left.at(row)? - right.at(row)?).abs() < i128::from(window?));
        let array = (0..arguments::rows(&args)).map(near).collect::<BooleanArray>();
        arguments::result(&args, Arc::new(array))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(NAME)
    }
}

impl Neighbors {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(NAME, types, 3..=3)?;
        let mut accepted = Vec::with_capacity(types.len());
        for (name, data_type) in ["a", "b"].into_iter().zip(types) {
            let integer = arguments::integer(NAME, name, data_type)?;
            // each keeps its own type, as signed and unsigned numbers have none in common
            accepted.push(if data_type.is_integer() { data_type.clone() } else { integer });
        }
        accepted.push(arguments::integer(NAME, "window", &types[2])?);
        Ok(accepted)
    }
}

/// Whole numbers by row: a column, or a constant that stands in every row.
struct Integers {
    values: Values,
    constant: bool,
}

enum Values {
    Signed(Int64Array),
    Unsigned(UInt64Array),
}

impl Integers {
    fn try_new(value: &ColumnarValue) -> Result<Self> {
        let (array, constant) = match value {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array_of_size(1)?, true),
        };
        let values = match array.data_type() {
            DataType::UInt64 => Values::Unsigned(array.as_primitive::<UInt64Type>().clone()),
            _ => Values::Signed(cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
        };
        Ok(Self { values, constant })
    }

    fn at(&self, row: usize) -> Option<i128> {
        let row = if self.constant { 0 } else { row };
        match &self.values {
            Values::Signed(values) => values.is_valid(row).then(|| values.value(row).into()),
            Values::Unsigned(values) => values.is_valid(row).then(|| values.value(row).into()),
        }
    }
}
