//! `match_count(c1, c2, ..)`: how many conditions hold. `match_count(c1, w1, c2, w2, ..)`: the sum of their weights.
//!
//! The weights are added in the order of the arguments, in double precision. This order is the definition, to the last
//! bit.

use std::sync::Arc;

use super::arguments::{self, numbered_weight};
use super::documentation;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The name of the function.
pub(crate) const NAME: &str = "match_count";

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Boolean, Float64};
    let signature = arguments::signature([
        &[Boolean, Boolean],
        &[Boolean, Boolean, Boolean],
        &[Boolean, Float64, Boolean, Float64],
    ]);
    vec![Arc::new(ScalarUDF::from(MatchCount { signature }))]
}

/// The conditions of a call with their weights, 1 for each where none are written; none where a weight is no constant
/// or not allowed.
pub(crate) fn weighted_conditions(arguments: &[Expr], types: &[DataType]) -> Option<Vec<(Expr, f64)>> {
    if !has_weights(types) {
        return Some(arguments.iter().map(|condition| (condition.clone(), 1.0)).collect());
    }
    let pairs = arguments.as_chunks::<2>().0.iter().enumerate();
    let pairs = pairs.map(|(at, [condition, weight])| match weight {
        Expr::Literal(value, _) => Some((condition.clone(), numbered_weight(NAME, at + 1, value).ok()?)),
        _ => None,
    });
    pairs.collect()
}

/// Whether every second argument is a weight.
fn has_weights(types: &[DataType]) -> bool {
    types.get(1).is_some_and(DataType::is_numeric)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MatchCount {
    signature: Signature,
}

impl ScalarUDFImpl for MatchCount {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        accepted(types)?;
        Ok(if has_weights(types) { DataType::Float64 } else { DataType::Int64 })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types = arguments::types(&args);
        let result = self.return_type(&types)?;
        if has_weights(&types) {
            for (at, weight) in args.scalar_arguments.iter().skip(1).step_by(2).enumerate() {
                weight.map(|weight| numbered_weight(NAME, at + 1, weight)).transpose()?;
            }
        }
        Ok(Arc::new(Field::new(NAME, result, false)))
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let second = args.get(1).map(|second| context.get_data_type(second)).transpose()?;
        if second.is_some_and(|second| second.is_numeric()) {
            for (at, weight) in args.iter().skip(1).step_by(2).enumerate() {
                arguments::refuse_columns(NAME, &format!("weight {}", at + 1), Some(weight))?;
            }
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments::rows(&args);
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let step = if has_weights(&types) { 2 } else { 1 };
        let conditions = args.args.iter().step_by(step).map(Condition::try_new).collect::<Result<Vec<_>>>()?;
        let counted: ArrayRef = if step == 1 {
            let mut counts = vec![0i64; rows];
            for condition in &conditions {
                condition.for_each(rows, |row| counts[row] += 1);
            }
            Arc::new(Int64Array::from(counts))
        } else {
            let mut sums = vec![0f64; rows];
            for (at, condition) in conditions.iter().enumerate() {
                let ColumnarValue::Scalar(weight) = &args.args[2 * at + 1] else {
                    return Err(exec_datafusion_err!("{NAME}: weights have to be constants"));
                };
                let weight = numbered_weight(NAME, at + 1, weight)?;
                condition.for_each(rows, |row| sums[row] += weight);
            }
            Arc::new(Float64Array::from(sums))
        };
        arguments::result(&args, counted)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(NAME)
    }
}

/// The types as which arguments of these types are taken.
fn accepted(types: &[DataType]) -> Result<Vec<DataType>> {
    if types.is_empty() {
        return plan_err!("{NAME} takes at least one condition");
    }
    let weights = has_weights(types);
    if weights && !types.len().is_multiple_of(2) {
        return plan_err!("{NAME} takes a weight after each condition or none; got {} arguments", types.len());
    }
    let accepted = types.iter().enumerate().map(|(at, data_type)| match weights && at % 2 == 1 {
        true => arguments::number(NAME, &format!("weight {}", at / 2 + 1), data_type),
        false if matches!(data_type, DataType::Boolean | DataType::Null) => Ok(DataType::Boolean),
        false => {
            let number = if weights { at / 2 + 1 } else { at + 1 };
            plan_err!("{NAME}: condition {number} has to be true or false, it is of type {data_type}")
        }
    });
    accepted.collect()
}

/// A condition by row: a column, or a constant that stands in every row.
enum Condition {
    Column(BooleanArray),
    Constant(bool),
}

impl Condition {
    fn try_new(value: &ColumnarValue) -> Result<Self> {
        match value {
            ColumnarValue::Scalar(ScalarValue::Boolean(holds)) => Ok(Self::Constant(holds.unwrap_or(false))),
            ColumnarValue::Array(array) if array.as_boolean_opt().is_some() => {
                Ok(Self::Column(array.as_boolean().clone()))
            }
            other => Err(exec_datafusion_err!("{NAME} takes conditions, got {}", other.data_type())),
        }
    }

    /// Calls `each` with the rows for which the condition holds.
    fn for_each(&self, rows: usize, mut each: impl FnMut(usize)) {
        match self {
            Self::Constant(false) => {}
            Self::Constant(true) => (0..rows).for_each(each),
            Self::Column(column) => {
                let holds = match column.nulls() {
                    Some(nulls) => column.values() & nulls.inner(),
                    None => column.values().clone(),
                };
                holds.set_indices().for_each(&mut each);
            }
        }
    }
}
