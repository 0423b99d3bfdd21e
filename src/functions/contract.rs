//! `similarity_join_condition`: the mark that carries SIMILARITY JOIN from the SQL text to the optimizer rule.
//!
//! SIMILARITY JOIN promises that the join is accelerated or refused, and DataFusion's `Join` node has no room for
//! such a promise. So the condition travels inside a call, `ON similarity_join_condition((p))`, which is `p` to
//! every rule that looks at it:
//!
//! - It is immutable, so that push-down, cross-join elimination and common sub-expressions treat it as any other
//!   conjunct; a volatile mark would stay where it stands and lose the filter between two rules.
//! - It cannot be folded away, not even around a constant: folding evaluates, evaluation always fails, and
//!   DataFusion keeps what it cannot evaluate.
//! - It shields `p`: no rule splits, simplifies or pushes parts of it until our rule takes the mark off.
//!
//! A mark that survives planning fails the plan; should one still reach execution, it fails there.
//!
//! The function has no user documentation on purpose, nobody has to write it.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the mark, which the SQL rewriting writes and the optimizer rule looks for.
pub const NAME: &str = "similarity_join_condition";

/// The mark as a function, for registration.
pub fn similarity_join_condition() -> Arc<ScalarUDF> {
    static MARK: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(SimilarityJoinCondition::new())));
    Arc::clone(&MARK)
}

/// `condition` under the contract of SIMILARITY JOIN.
pub fn mark(condition: Expr) -> Expr {
    similarity_join_condition().call(vec![condition])
}

/// The condition under the mark, if `expr` carries it.
pub fn marked(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<SimilarityJoinCondition>() => call.args.first(),
        Expr::Alias(alias) => marked(&alias.expr),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SimilarityJoinCondition {
    signature: Signature,
}

impl SimilarityJoinCondition {
    fn new() -> Self {
        // any type, so that a condition that is no boolean is refused in the words of SIMILARITY JOIN
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SimilarityJoinCondition {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Boolean | DataType::Null] => Ok(DataType::Boolean),
            [other] => plan_err!("the ON condition of SIMILARITY JOIN has to be boolean, it is {other}"),
            _ => plan_err!("SIMILARITY JOIN takes one ON condition, got {}", arguments.len()),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!(
            "{NAME} only marks the condition of a SIMILARITY JOIN for the planner and has no value; plan the query \
             in a session with similarity joins enabled, or write the condition without it"
        )
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};
    use datafusion::optimizer::simplify_expressions::{ExprSimplifier, SimplifyContext};

    use super::*;

    #[test]
    fn the_mark_comes_off_as_it_went_on() {
        let condition = col("a").eq(col("b"));
        let marked_condition = mark(condition.clone());
        assert_eq!(marked(&marked_condition), Some(&condition));
        assert_eq!(marked(&marked_condition.alias("c")), Some(&condition));
        assert_eq!(marked(&condition), None);
    }

    #[test]
    fn constants_under_the_mark_are_not_folded() {
        let simplifier = ExprSimplifier::new(SimplifyContext::default());
        for constant in [lit(true), lit(false), lit(1).eq(lit(1))] {
            let simplified = simplifier.simplify(mark(constant)).unwrap();
            assert!(marked(&simplified).is_some(), "{simplified}");
        }
        let conjunct = simplifier.simplify(lit(true).and(mark(lit(true)))).unwrap();
        assert!(marked(&conjunct).is_some(), "{conjunct}");
    }

    #[test]
    fn only_booleans_are_conditions() {
        let mark = similarity_join_condition();
        assert_eq!(mark.return_type(&[DataType::Null]).unwrap(), DataType::Boolean);
        let refusal = mark.return_type(&[DataType::Int64]).unwrap_err().to_string();
        assert!(refusal.contains("has to be boolean"), "{refusal}");
    }
}
