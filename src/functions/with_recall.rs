//! `with_recall(condition, recall)`: the condition. Around the condition of a join it lets the join miss some of the
//! pairs.
//!
//! A value is a value: the function is its first argument wherever it is evaluated. A join that is planned by this
//! crate finds at least the share `recall` of the pairs, and no pair for which the condition does not hold. `WITH
//! RECALL` after the condition of SIMILARITY JOIN is this function around it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use similarity_engine::recall::Recall;

use super::{arguments, documentation};

/// The name of the function.
pub(crate) const NAME: &str = "with_recall";

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = arguments::signature([&[DataType::Boolean, DataType::Float64]]);
    vec![Arc::new(ScalarUDF::from(WithRecall { signature }))]
}

/// The condition and the recall of a call, if `expr` is one with a recall that is allowed.
pub(crate) fn recalled(expr: &Expr) -> Option<(&Expr, Recall)> {
    match expr {
        Expr::Alias(alias) => recalled(&alias.expr),
        Expr::ScalarFunction(call) if call.func.inner().is::<WithRecall>() => match call.args.as_slice() {
            [condition, Expr::Literal(recall, _)] => Some((condition, recall_of(recall).ok()?)),
            _ => None,
        },
        _ => None,
    }
}

/// `expr` without any recall, which then allows nothing.
pub(crate) fn without_recall(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        Ok(match recalled(&expr) {
            Some((condition, _)) => Transformed::yes(condition.clone()),
            None => Transformed::no(expr),
        })
    })
}

/// The recall that a constant is.
///
/// # Errors
/// A planning error for what is no number above 0 and at most 1.
pub(super) fn recall_of(value: &ScalarValue) -> Result<Recall> {
    let number = match value.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(number) => number,
        _ => None,
    };
    match number.map(|number| (number, Recall::new(number))) {
        Some((_, Some(recall))) => Ok(recall),
        Some((number, None)) => plan_err!("{NAME}: the recall has to be above 0 and at most 1, it is {number}"),
        None => plan_err!("{NAME}: the recall has to be above 0 and at most 1, it is NULL"),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WithRecall {
    signature: Signature,
}

impl ScalarUDFImpl for WithRecall {
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
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        args.scalar_arguments.get(1).copied().flatten().map(recall_of).transpose()?;
        Ok(Arc::new(Field::new(NAME, result, true)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        arguments::refuse_columns(NAME, "the recall", args.get(1))?;
        if let Some(Expr::Literal(recall, _)) = args.get(1) {
            recall_of(recall)?;
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let condition: ArrayRef = match &args.args[0] {
            ColumnarValue::Array(condition) => Arc::clone(condition),
            ColumnarValue::Scalar(condition) => condition.to_array_of_size(arguments::rows(&args))?,
        };
        let condition = match condition.data_type() {
            DataType::Null => new_null_array(&DataType::Boolean, condition.len()),
            _ => condition,
        };
        arguments::result(&args, condition)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(NAME)
    }
}

/// The types as which arguments of these types are taken.
fn accepted(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [DataType::Boolean | DataType::Null, recall] => {
            Ok(vec![DataType::Boolean, arguments::number(NAME, "the recall", recall)?])
        }
        [other, _] => plan_err!("{NAME}: the condition has to be true or false, it is of type {other}"),
        _ => plan_err!("{NAME} takes a condition and a recall, got {} arguments", types.len()),
    }
}
