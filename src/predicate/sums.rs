//! Sums over a pair of rows that a condition bounds from below, with the clauses that follow: an OR of ANDs that
//! indexes serve. The condition itself is asked of what passes.

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::normal_form::push_down_negation;
use super::range::{number, range};
use super::sides::data_type;
use super::threshold::{Threshold, under_casts};
use super::{Sides, match_count, recognise, truth, weighted};
use crate::functions::{self, MATCH_COUNT, WEIGHTED_SIMILARITY};

/// `condition` with what follows from its sums, up to `most` clauses each; `None` where nothing does.
pub fn with_clauses(condition: &Expr, sides: Sides<'_>, most: usize) -> Option<Expr> {
    // the closure never fails
    let mentioned = condition.exists(|e| Ok(is_sum(e))).unwrap_or(false);
    if !mentioned {
        return None;
    }
    let parts = truth::conjuncts(condition, sides).into_iter().map(|part| push_down_negation(part, false));
    let mut found = false;
    let parts: Vec<Expr> = parts.map(|part| extended(part, sides, most, &mut found)).collect();
    conjunction(parts).filter(|_| found)
}

fn is_sum(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    [WEIGHTED_SIMILARITY, MATCH_COUNT].contains(&call.name()) && functions::is_known(&call.func)
}

/// `condition`, in which each comparison that something follows from stands beside it.
fn extended(condition: Expr, sides: Sides<'_>, most: usize, found: &mut bool) -> Expr {
    match condition {
        Expr::Alias(alias) => extended(*alias.expr, sides, most, found),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let [left, right] = [left, right].map(|side| Box::new(extended(*side, sides, most, found)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        other => match implied(&other, sides, most) {
            Some(clauses) => {
                *found = true;
                clauses.and(other)
            }
            None => other,
        },
    }
}

/// The clauses that follow from a comparison.
fn implied(comparison: &Expr, sides: Sides<'_>, most: usize) -> Option<Expr> {
    let (call, least) = at_least(comparison, sides)?;
    if least.is_nan() || least <= 0.0 {
        return None;
    }
    match call.name() {
        MATCH_COUNT => match_count::clauses(call, least, sides, most),
        _ => weighted::clauses(call, least, sides, most),
    }
}

/// The call of a comparison with a constant that bounds it from below, and that bound.
fn at_least<'a>(comparison: &'a Expr, sides: Sides<'_>) -> Option<(&'a ScalarFunction, f64)> {
    let (score, op, literal) = recognise::comparison(comparison)?;
    if !matches!(op, Operator::GtEq | Operator::Gt | Operator::Eq) {
        return None;
    }
    let (inner, casts) = under_casts(score, sides)?;
    let Expr::ScalarFunction(call) = inner else { return None };
    if !is_sum(inner) {
        return None;
    }
    let kind = data_type(inner, sides)?;
    let least = match number(literal) {
        // a count above 7 is one of at least 8
        Some(bound) if casts.is_empty() && kind.is_integer() && op == Operator::Gt => bound.floor() + 1.0,
        bound if casts.is_empty() => bound?,
        _ => {
            let threshold = Threshold { data_type: &kind, casts: &casts, op, constant: literal };
            threshold.bounds(range(inner, sides)?)?.lower()?.value
        }
    };
    Some((call, least))
}
