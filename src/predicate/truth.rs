//! Conditions without the words that change nothing about where they are TRUE.
//!
//! A pair of rows matches where its condition is TRUE; between FALSE and NULL there is no difference. So `x IS TRUE`,
//! `x IS NOT DISTINCT FROM true` and `CASE WHEN x THEN true ELSE false END` all are `x`.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Operator};

use super::nulls::never_null;
use super::range::stock;
use super::{Sides, mentions_measure};

/// A condition that is TRUE exactly where `condition` is.
pub(super) fn plain(condition: &Expr, sides: Sides<'_>) -> Expr {
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
