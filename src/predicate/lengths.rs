//! Edit distances in proportion to the lengths of the strings.
//!
//! `levenshtein(a, b) / D <= t` bounds [the similarity](EditMeasure::LEVENSHTEIN_SIMILARITY), 1 less the
//! distance over the longer length, where `D` is at most some multiple of that length: of either length, of the
//! greatest or the least of both, of their sum or their mean. Two empty strings have the similarity 1, whatever a
//! division by 0 gives.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

use super::facts::{Fact, Facts, NOTHING};
use super::interval::Rounding;
use super::range::{cast_rounding, constant, is_null, range, rounding, stock};
use super::sides::data_type;
use super::{Bounds, Condition, Sides, recognise};
use similarity_measures::{EditMeasure, EditScale};

/// What all the arithmetic of a condition may be off in double precision, and in single precision.
const ROUNDING: [f64; 2] = [1e-9, 1e-5];

/// What follows from `distance / lengths <= most`.
pub(super) fn quotient(distance: &Expr, lengths: &Expr, most: f64, sides: Sides<'_>) -> Facts {
    let Some((times, call)) = distance_of(distance, sides) else { return NOTHING };
    // what is divided by a negative number is small for the greatest distances
    if constant(lengths).is_some() || range(lengths, sides).is_none_or(|lengths| lengths.low < 0.0) {
        return NOTHING;
    }
    let Some(share) = call.args.get(..2).and_then(|strings| share(lengths, strings, sides)) else { return NOTHING };
    // a NaN of 0 / 0 may be below any number
    let margin = ROUNDING[usize::from(is_single(distance) || is_single(lengths))];
    similar_at_least(call, 1.0 - most.max(0.0) * share / times - margin, sides)
}

/// What follows from `low <= high`, where one is a distance and the other a length.
pub(super) fn at_most(low: &Expr, high: &Expr, sides: Sides<'_>) -> Facts {
    quotient(low, high, 1.0, sides)
}

fn similar_at_least(call: &ScalarFunction, least: f64, sides: Sides<'_>) -> Facts {
    let bounds = Bounds::at_least(least, true);
    let Some((left, right, _)) = recognise::scored(call, Bounds::everything(), sides) else { return NOTHING };
    let similarity = Condition::Edit { measure: EditMeasure::LEVENSHTEIN_SIMILARITY, bounds };
    Some(vec![Fact { left, right, similarity }])
}

/// Whether some of `expr` is in single precision.
fn is_single(expr: &Expr) -> bool {
    // the closure never fails
    expr.exists(|e| Ok(matches!(e, Expr::Cast(Cast { field, .. }) if *field.data_type() == DataType::Float32)))
        .unwrap_or(false)
}

/// `expr` as so many times the distance of `call`; a swap of neighbours counts as two edits, so that the Levenshtein
/// distance is at most twice that of measures which have it as one.
fn distance_of<'a>(expr: &'a Expr, sides: Sides<'_>) -> Option<(f64, &'a ScalarFunction)> {
    match expr {
        Expr::Alias(alias) => distance_of(&alias.expr, sides),
        Expr::Cast(Cast { expr: inner, field }) => {
            let fits = rounding(field.data_type()).is_some() && data_type(inner, sides)?.is_numeric();
            if fits { distance_of(inner, sides) } else { None }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Multiply, right }) => {
            let (factor, inner) = match (constant(left), constant(right)) {
                (Some(factor), _) => (factor, right),
                (_, Some(factor)) => (factor, left),
                _ => return None,
            };
            let (times, call) = distance_of(inner, sides)?;
            (1e-3..=1e3).contains(&factor).then_some((times * factor, call))
        }
        Expr::ScalarFunction(call) if recognise::is_measure(call) => {
            let EditScale::Distance(operations) = EditMeasure::named(call.name())?.scale() else { return None };
            Some((1.0 / operations.plain_edits as f64, call))
        }
        _ => None,
    }
}

/// The least number by which the longer of `strings` has to be multiplied so that `expr` is never more, where that
/// length is not 0.
fn share(expr: &Expr, strings: &[Expr], sides: Sides<'_>) -> Option<f64> {
    if let Some(constant) = constant(expr) {
        return Some(constant.max(0.0));
    }
    let of = |expr: &Expr| share(expr, strings, sides);
    match expr {
        Expr::Alias(alias) => of(&alias.expr),
        Expr::Cast(Cast { expr: inner, field }) => {
            let to = field.data_type();
            Some(of(inner)? + rounding_up(to, cast_rounding(&data_type(inner, sides)?, to)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let to = data_type(expr, sides)?;
            let result = match (op, constant(left), constant(right)) {
                (Operator::Plus, ..) => of(left)? + of(right)?,
                (Operator::Multiply, Some(factor), _) if factor >= 0.0 => factor * of(right)?,
                (Operator::Multiply, _, Some(factor)) if factor >= 0.0 => factor * of(left)?,
                (Operator::Divide, _, Some(divisor)) if divisor > 0.0 => of(left)? / divisor,
                _ => return None,
            };
            Some(result + rounding_up(&to, rounding(&to)?))
        }
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, value)| value).chain(&case.else_expr);
            greatest(values.filter(|value| !is_null(value)).map(|value| of(value)))
        }
        Expr::ScalarFunction(call) => match (stock(call)?, call.args.as_slice()) {
            ("character_length", [string]) => strings.iter().any(|s| text(s) == text(string)).then_some(1.0),
            ("greatest", all) => greatest(all.iter().map(of)),
            ("least", all) => all.iter().filter_map(of).reduce(f64::min),
            ("nullif" | "floor", [inner, ..]) => of(inner),
            _ => None,
        },
        _ => None,
    }
}

/// The greatest of several, where all are known.
fn greatest(all: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    all.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

/// What a result of this type may be too much, in absolute terms.
fn rounding_up(data_type: &DataType, rounding: Rounding) -> f64 {
    if data_type.is_floating() { 0.0 } else { rounding.absolute }
}

/// A string under casts between types of strings.
fn text(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => text(&alias.expr),
        Expr::Cast(Cast { expr: inner, field }) if field.data_type().is_string() => text(inner),
        other => other,
    }
}
