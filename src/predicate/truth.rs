//! Conditions without the words that change nothing about where they are TRUE.
//!
//! A pair of rows matches where its condition is TRUE; between FALSE and NULL there is no difference. So `x IS TRUE`,
//! `x IS NOT DISTINCT FROM true` and `CASE WHEN x THEN true ELSE false END` all are `x`.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Operator};

use super::nulls::never_null;
use super::range::stock;
use super::{Sides, mentions_measure};

/// Conditions that are all TRUE exactly where `condition` is.
pub(super) fn conjuncts(condition: &Expr, sides: Sides<'_>) -> Vec<Expr> {
    let parts = split_conjunction(condition).into_iter().map(|part| plain(part, sides));
    let all: Vec<Expr> =
        parts.flat_map(|part| split_conjunction(&part).into_iter().cloned().collect::<Vec<_>>()).collect();
    let adds = |part: &&Expr| !all.iter().any(|other| says_no_more(part, other));
    all.iter().filter(adds).cloned().collect()
}

/// A condition that is TRUE exactly where `condition` is.
fn plain(condition: &Expr, sides: Sides<'_>) -> Expr {
    match condition {
        Expr::Alias(alias) => plain(&alias.expr, sides),
        Expr::Not(inner) => negated(inner, sides),
        Expr::IsTrue(inner) => plain(inner, sides),
        Expr::IsFalse(inner) => negated(inner, sides),
        Expr::IsNotFalse(inner) if never_null(inner, sides) => plain(inner, sides),
        Expr::IsNotTrue(inner) if never_null(inner, sides) => negated(inner, sides),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let [one, other] = [left, right].map(|side| plain(side, sides));
            match op {
                Operator::And if says_no_more(&one, &other) => other,
                Operator::And if says_no_more(&other, &one) => one,
                _ => binary(one, *op, other),
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compared(left, *op, right, sides)
            .or_else(|| of_several(left, *op, right))
            .unwrap_or_else(|| condition.clone()),
        Expr::Case(case) => match_of(case).map_or_else(|| condition.clone(), |when| plain(when, sides)),
        other => other.clone(),
    }
}

/// A condition that is TRUE exactly where `condition` is FALSE.
fn negated(condition: &Expr, sides: Sides<'_>) -> Expr {
    match condition {
        Expr::Alias(alias) => negated(&alias.expr, sides),
        Expr::Not(inner) | Expr::IsNotTrue(inner) => plain(inner, sides),
        Expr::IsNotFalse(inner) => negated(inner, sides),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let other = if *op == Operator::And { Operator::Or } else { Operator::And };
            binary(negated(left, sides), other, negated(right, sides))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (truth_value(left), truth_value(right), op) {
            (None, Some(value), Operator::IsDistinctFrom) => where_it_is(value, left, sides),
            (Some(value), None, Operator::IsDistinctFrom) => where_it_is(value, right, sides),
            _ => Expr::Not(Box::new(condition.clone())),
        },
        other => Expr::Not(Box::new(other.clone())),
    }
}

/// Whether `one`, beside `other`, adds nothing: `x IS NOT NULL` beside `x`.
fn says_no_more(one: &Expr, other: &Expr) -> bool {
    matches!(one, Expr::IsNotNull(inner) if inner.as_ref() == other)
}

/// `x = true` and its like, and `x IS NOT DISTINCT FROM 1`, which is `x = 1`.
fn compared(left: &Expr, op: Operator, right: &Expr, sides: Sides<'_>) -> Option<Expr> {
    let (value, inner) = match (truth_value(left), truth_value(right)) {
        (None, Some(value)) => (value, left),
        (Some(value), None) => (value, right),
        _ => {
            let one_sided = op == Operator::IsNotDistinctFrom && (is_constant(left) || is_constant(right));
            return one_sided.then(|| binary(left.clone(), Operator::Eq, right.clone()));
        }
    };
    match op {
        Operator::Eq | Operator::IsNotDistinctFrom => Some(where_it_is(value, inner, sides)),
        Operator::NotEq => Some(where_it_is(!value, inner, sides)),
        _ => None,
    }
}

fn where_it_is(value: bool, condition: &Expr, sides: Sides<'_>) -> Expr {
    if value { plain(condition, sides) } else { negated(condition, sides) }
}

fn truth_value(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Literal(ScalarValue::Boolean(value), _) => *value,
        _ => None,
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if !value.is_null())
}

/// The greatest of several scores is at least a constant where one of them is, and the least at most.
fn of_several(left: &Expr, op: Operator, right: &Expr) -> Option<Expr> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    let (scores, op, constant) = if is_constant(right) { (left, op, right) } else { (right, op.swap()?, left) };
    let Expr::ScalarFunction(call) = scores else { return None };
    let any = matches!((stock(call)?, op), ("greatest", GtEq | Gt) | ("least", LtEq | Lt));
    if !any || !is_constant(constant) || !call.args.iter().all(mentions_measure) {
        return None;
    }
    call.args.iter().map(|score| binary(score.clone(), op, constant.clone())).reduce(Expr::or)
}

/// The `x` of `CASE WHEN x THEN true ELSE false END`.
fn match_of(case: &Case) -> Option<&Expr> {
    let ([(when, then)], None) = (case.when_then_expr.as_slice(), &case.expr) else { return None };
    let is_false = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Boolean(None | Some(false)), _));
    let otherwise = case.else_expr.as_ref().is_none_or(|expr| is_false(expr));
    (otherwise && truth_value(then) == Some(true)).then_some(when)
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{col, is_true, lit, when};

    use super::*;

    fn parts(condition: &Expr) -> Vec<Expr> {
        let schema = |table: &str| {
            let fields = [Field::new("x", DataType::Int64, true), Field::new("y", DataType::Int64, false)];
            DFSchema::try_from_qualified_schema(table, &Schema::new(fields.to_vec())).unwrap()
        };
        let (left, right) = (schema("l"), schema("r"));
        conjuncts(condition, Sides { left: &left, right: &right })
    }

    #[test]
    fn words_that_change_nothing_about_where_it_is_true() {
        let x = || col("l.x").lt(col("r.x"));
        let same = [
            is_true(x()),
            x().eq(lit(true)),
            lit(false).not_eq(x()),
            binary(x(), Operator::IsNotDistinctFrom, lit(true)),
            when(x(), lit(true)).otherwise(lit(false)).unwrap(),
            when(x(), lit(true)).end().unwrap(),
            x().is_not_null().and(x()),
        ];
        for condition in same {
            assert_eq!(parts(&condition), [x()], "{condition}");
        }
    }

    #[test]
    fn null_is_not_true() {
        let of = |column: &str| col(format!("l.{column}")).lt(col(format!("r.{column}")));
        let not_false = |column| Expr::IsNotFalse(Box::new(of(column)));
        assert_eq!(parts(&not_false("x")), [not_false("x")], "it may be NULL");
        assert_eq!(parts(&not_false("y")), [of("y")], "it is never NULL");
        let negated = Expr::Not(Box::new(is_true(of("x"))));
        assert_eq!(parts(&negated), std::slice::from_ref(&negated));
        let distinct = Expr::Not(Box::new(binary(of("x"), Operator::IsDistinctFrom, lit(true))));
        assert_eq!(parts(&distinct), [of("x")]);
    }
}
