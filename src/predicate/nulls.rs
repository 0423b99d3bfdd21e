//! Where an expression is NULL.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{DFSchema, ExprSchema};
use datafusion::functions::string;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

use super::Sides;
use super::sides::data_type;
use crate::functions;
use similarity_measures::EditMeasure;

/// Whether `expr` has a value in every pair of rows, as far as its form and the schemas tell.
pub(super) fn never_null(expr: &Expr, sides: Sides<'_>) -> bool {
    sources(expr, sides).is_some_and(|sources| sources.is_empty())
}

/// Condition that holds exactly where `expr` is NULL, `Some(None)` where it never is; `None` where that cannot be told.
pub(super) fn where_null(expr: &Expr, sides: Sides<'_>) -> Option<Option<Expr>> {
    let mut columns = sources(expr, sides)?;
    let mut seen = HashSet::new();
    columns.retain(|column| seen.insert(column.clone()));
    Some(disjunction(columns.into_iter().map(Expr::is_null)))
}

/// Whether every one of `others` is NULL where `expr` is.
pub(super) fn is_null_only_with<'a>(expr: &Expr, mut others: impl Iterator<Item = &'a Expr>, sides: Sides<'_>) -> bool {
    let Some(own) = sources(expr, sides) else { return false };
    others.all(|other| sources(other, sides).is_some_and(|others| own.iter().all(|source| others.contains(source))))
}

/// The columns of which one is NULL exactly where `expr` is; `None` where that cannot be told.
fn sources(expr: &Expr, sides: Sides<'_>) -> Option<Vec<Expr>> {
    match expr {
        Expr::Alias(alias) => sources(&alias.expr, sides),
        Expr::Literal(value, _) => (!value.is_null()).then(Vec::new),
        Expr::Column(column) => {
            let of = |schema: &DFSchema| schema.field_from_column(column).ok().cloned();
            let nullable = of(sides.left).or_else(|| of(sides.right))?.is_nullable();
            Some(if nullable { vec![expr.clone()] } else { Vec::new() })
        }
        Expr::Cast(Cast { expr: inner, field }) => {
            let (from, to) = (data_type(inner, sides)?, field.data_type());
            let total = (from.is_numeric() && to.is_numeric()) || (from.is_string() && to.is_string());
            if total { sources(inner, sides) } else { None }
        }
        Expr::Negative(inner) | Expr::Not(inner) => sources(inner, sides),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_strict(*op) => {
            all([left, right].map(AsRef::as_ref), sides)
        }
        Expr::ScalarFunction(call) if has_value(call) => all(&call.args, sides),
        _ => None,
    }
}

fn all<'a>(parts: impl IntoIterator<Item = &'a Expr>, sides: Sides<'_>) -> Option<Vec<Expr>> {
    let parts: Option<Vec<Vec<Expr>>> = parts.into_iter().map(|part| sources(part, sides)).collect();
    Some(parts?.concat())
}

/// Operators that have a value exactly where both operands have.
fn is_strict(op: Operator) -> bool {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Multiply, NotEq, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether a function has a value exactly where its arguments have. Measures of lists and vectors are not among them,
/// nor is `hamming`.
fn has_value(call: &ScalarFunction) -> bool {
    let ours = [
        "levenshtein_less_equal",
        "similarity",
        "jaccard",
        "dice",
        "set_cosine",
        "overlap_coefficient",
        "overlap_count",
        "word_tokens",
        "qgrams",
        "multiset_qgrams",
        "unaccent",
        "casefold",
        "normalize",
    ];
    let stock: [Arc<_>; 3] = [string::lower(), string::upper(), string::btrim()];
    let has_edits = || EditMeasure::named(call.name()).is_some_and(|measure| !measure.needs_equal_lengths());
    ((ours.contains(&call.name()) || has_edits()) && functions::is_known(&call.func)) || stock.contains(&call.func)
}
