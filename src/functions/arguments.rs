//! Arguments common to the families: their number and types, constants, and the shape of the result.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::types::NativeType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    Coercion, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, Signature, TypeSignature, TypeSignatureClass,
    Volatility,
};
use similarity_measures::{Parameter, Weights};

/// The signature of a function that takes what its `coerce_types` takes. The `examples`, a list of argument types
/// each, only tell SHOW FUNCTIONS what to list: it leaves out functions without any.
pub(super) fn signature<const N: usize>(examples: [&[DataType]; N]) -> Signature {
    signature_of(&examples)
}

/// [`signature`] with any number of examples.
pub(super) fn signature_of(examples: &[&[DataType]]) -> Signature {
    let exact = |data_type: &DataType| {
        Coercion::new_exact(TypeSignatureClass::Native(Arc::new(NativeType::from(data_type.clone()))))
    };
    let examples = examples.iter().map(|types| TypeSignature::Coercible(types.iter().map(exact).collect()));
    Signature::one_of([TypeSignature::UserDefined].into_iter().chain(examples).collect(), Volatility::Immutable)
}

/// What `coerce_types` returns: the accepted types, or those of the call where they are refused. Then
/// `return_type` refuses them again, and its error reaches the user as it is, where DataFusion wraps one of
/// `coerce_types` into another about signatures.
pub(super) fn accepted_or_given(accepted: Result<Vec<DataType>>, given: &[DataType]) -> Result<Vec<DataType>> {
    Ok(accepted.unwrap_or_else(|_| given.to_vec()))
}

/// The types of a call's arguments.
pub(super) fn types(args: &ReturnFieldArgs) -> Vec<DataType> {
    args.arg_fields.iter().map(|field| field.data_type().clone()).collect()
}

/// The types of arguments that all have to be strings.
pub(super) fn strings(function: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    types.iter().enumerate().map(|(i, data_type)| string(function, i, data_type)).collect()
}

/// The type of one string argument: as it is, or Utf8 for NULL.
pub(super) fn string(function: &str, index: usize, data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Null => Ok(DataType::Utf8),
        other if is_string(other) => Ok(other.clone()),
        other => plan_err!("{function}: argument {} has to be a string, it is {other}", index + 1),
    }
}

/// The type of one integer argument.
pub(super) fn integer(function: &str, name: &str, data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Null => Ok(DataType::Int64),
        other if other.is_integer() => Ok(DataType::Int64),
        other => plan_err!("{function}: {name} has to be an integer, it is {other}"),
    }
}

/// The type of one number argument.
pub(super) fn number(function: &str, name: &str, data_type: &DataType) -> Result<DataType> {
    if data_type.is_numeric() || data_type.is_null() {
        return Ok(DataType::Float64);
    }
    plan_err!("{function}: {name} has to be a number, it is {data_type}")
}

pub(super) fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    }
}

/// Fails unless there are as many arguments as `expected` allows.
pub(super) fn count(function: &str, types: &[DataType], expected: RangeInclusive<usize>) -> Result<()> {
    if expected.contains(&types.len()) {
        return Ok(());
    }
    let (least, most) = (expected.start(), expected.end());
    let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let arguments = if *most == 1 { "argument" } else { "arguments" };
    plan_err!("{function} takes {wanted} {arguments}, got {}", types.len())
}

/// The lengths of grams: more than 1,000 characters would only fill memory with copies of the text.
pub(super) const GRAM_LENGTHS: RangeInclusive<i64> = 1..=1_000;

/// A constant integer argument in `range`; `None` for NULL.
pub(super) fn constant_integer(
    function: &str,
    name: &str,
    value: &ColumnarValue,
    range: RangeInclusive<i64>,
) -> Result<Option<i64>> {
    let ColumnarValue::Scalar(scalar) = value else { return exec_err!("{function}: {name} has to be a constant") };
    match scalar.cast_to(&DataType::Int64)? {
        ScalarValue::Int64(Some(value)) if !range.contains(&value) => {
            exec_err!("{function}: {name} has to be {}, it is {value}", describe(&range))
        }
        ScalarValue::Int64(value) => Ok(value),
        other => exec_err!("{function}: {name} has to be an integer, it is {}", other.data_type()),
    }
}

/// Checks a constant integer at planning; whatever is not constant is left to the execution.
pub(super) fn check_integer(
    function: &str,
    name: &str,
    value: Option<&ScalarValue>,
    range: RangeInclusive<i64>,
) -> Result<()> {
    let Some(ScalarValue::Int64(Some(value))) = value.map(|v| v.cast_to(&DataType::Int64)).transpose()? else {
        return Ok(());
    };
    if !range.contains(&value) {
        return plan_err!("{function}: {name} has to be {}, it is {value}", describe(&range));
    }
    Ok(())
}

/// Fails at planning where an argument that has to be constant reads a column.
pub(super) fn refuse_columns(function: &str, name: &str, argument: Option<&Expr>) -> Result<()> {
    match argument {
        Some(argument) if argument.any_column_refs() => plan_err!("{function}: {name} has to be a constant"),
        _ => Ok(()),
    }
}

/// The constants that follow the two values of a measure, as far as a call has them; `None` where one is NULL.
pub(super) fn constant_weights(
    function: &str,
    parameters: &[Parameter],
    values: &[ColumnarValue],
) -> Result<Option<Vec<f64>>> {
    parameters.iter().zip(values).map(|(parameter, value)| constant_weight(function, parameter, value)).collect()
}

fn constant_weight(function: &str, parameter: &Parameter, value: &ColumnarValue) -> Result<Option<f64>> {
    let ColumnarValue::Scalar(scalar) = value else {
        return exec_err!("{function}: {} has to be a constant", parameter.name);
    };
    match weight(function, parameter, scalar) {
        Ok(weight) => Ok(weight),
        Err(problem) => exec_err!("{problem}"),
    }
}

/// Checks a constant of a measure at planning; whatever is not constant is left to the execution.
pub(super) fn check_weight(function: &str, parameter: &Parameter, value: Option<&ScalarValue>) -> Result<()> {
    match value.map(|scalar| weight(function, parameter, scalar)) {
        Some(Err(problem)) => plan_err!("{problem}"),
        _ => Ok(()),
    }
}

/// A constant of a measure; `None` for a NULL where each call has the constant, and what is wrong with any other.
fn weight(function: &str, parameter: &Parameter, scalar: &ScalarValue) -> Result<Option<f64>, String> {
    let Parameter { name, default, .. } = parameter;
    let Ok(ScalarValue::Float64(weight)) = scalar.cast_to(&DataType::Float64) else {
        return Err(format!("{function}: {name} has to be a number, it is {}", scalar.data_type()));
    };
    match weight {
        None if default.is_none() => Ok(None),
        Some(weight) if parameter.checked(weight).is_some() => Ok(Some(weight)),
        _ => {
            let given = weight.map_or_else(|| "NULL".to_owned(), |weight| weight.to_string());
            Err(format!("{function}: {name} has to be {}, it is {given}", parameter.range()))
        }
    }
}

/// A constant weight, of those of a call by its number.
///
/// # Errors
/// A planning error for NULL, and what lies outside of 0 to [`Weights::LARGEST`].
pub(super) fn numbered_weight(function: &str, number: usize, value: &ScalarValue) -> Result<f64> {
    let largest = Weights::LARGEST;
    match value.cast_to(&DataType::Float64)? {
        // -0.0 is 0.0
        ScalarValue::Float64(Some(weight)) if (0.0..=largest).contains(&weight) => Ok(weight + 0.0),
        ScalarValue::Float64(Some(weight)) => {
            plan_err!("{function}: weight {number} has to be from 0 to {largest:e}, it is {weight}")
        }
        _ => plan_err!("{function}: weight {number} has to be from 0 to {largest:e}, it is NULL"),
    }
}

fn describe(range: &RangeInclusive<i64>) -> String {
    match (range.start(), range.end()) {
        (least, &i64::MAX) => format!("at least {least}"),
        (least, most) => format!("between {least} and {most}"),
    }
}

/// A constant string argument; `None` for NULL.
pub(super) fn constant_string(function: &str, name: &str, value: &ColumnarValue) -> Result<Option<String>> {
    let ColumnarValue::Scalar(scalar) = value else { return exec_err!("{function}: {name} has to be a constant") };
    match scalar.try_as_str() {
        Some(text) => Ok(text.map(str::to_owned)),
        None => exec_err!("{function}: {name} has to be a string, it is {}", scalar.data_type()),
    }
}

/// How many rows have to be computed: one where every argument is constant.
pub(super) fn rows(args: &ScalarFunctionArgs) -> usize {
    if all_constant(args) { 1 } else { args.number_rows }
}

/// The computed rows as the result.
pub(super) fn result(args: &ScalarFunctionArgs, array: ArrayRef) -> Result<ColumnarValue> {
    if all_constant(args) {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

fn all_constant(args: &ScalarFunctionArgs) -> bool {
    args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)))
}
