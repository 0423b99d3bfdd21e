//! Bounds on scores that follow from a condition which is no plain comparison of a measure with a constant.
//!
//! ```text
//! 1 - jaro_winkler_similarity(a, b) <= 0.2                        jaro_winkler_similarity >= 0.8
//! levenshtein(a, b) IN (0, 1)                                     levenshtein in [0, 1]
//! CASE WHEN levenshtein(a, b) IS NOT NULL THEN .. ELSE 99 END <= 1    levenshtein <= 1
//! 0.6 * jaccard(a, b) + 0.4 * dice(c, d) >= 0.9                   jaccard >= 0.83.. and dice >= 0.75
//! ```
//!
//! A bound holds for every pair that satisfies the condition, whatever its arithmetic rounds: it is a little wider than
//! the numbers say. The condition itself is asked of what passes.
//!
//! From the numbers between which the value of an expression lies follow those between which the scores in it lie. Each
//! operator is turned round: where `x + y` is at most 1 and `y` at least 0.2, `x` is at most 0.8. What an operation may
//! have rounded widens the interval before, and what this arithmetic may round widens it after. Conditions and values
//! hold each other (CASE), so that both stand in one file.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Cast, Expr, Operator, TryCast};

use super::facts::{Fact, Facts, NOTHING, and, or};
use super::interval::{Interval, Rounding};
use super::nulls::{is_null_only_with, never_null};
use super::range::{cast_rounding, constant, hull, is_null, range, rounding, stock};
use super::sides::data_type;
use super::{Atom, Bounds, Sides, lengths, recognise};

/// The atoms that follow from `condition`. They only filter.
pub(super) fn atoms(condition: &Expr, sides: Sides<'_>) -> Vec<Atom> {
    let atom = |Fact { left, right, similarity }| Atom {
        left,
        right,
        similarity,
        condition: condition.clone(),
        filters: true,
    };
    holds(condition, sides).unwrap_or_default().into_iter().map(atom).collect()
}

/// What follows where `condition` is TRUE.
pub(super) fn holds(condition: &Expr, sides: Sides<'_>) -> Facts {
    match condition {
        Expr::Alias(alias) => holds(&alias.expr, sides),
        Expr::Not(inner) | Expr::IsFalse(inner) => fails(inner, sides),
        Expr::IsTrue(inner) => holds(inner, sides),
        Expr::IsNotFalse(inner) if never_null(inner, sides) => holds(inner, sides),
        Expr::IsNotTrue(inner) if never_null(inner, sides) => fails(inner, sides),
        Expr::Literal(ScalarValue::Boolean(value), _) => value.unwrap_or(false).then(Vec::new),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => and(holds(left, sides), holds(right, sides)),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => or(holds(left, sides), holds(right, sides)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compared(left, *op, right, sides),
        Expr::Between(Between { expr, negated, low, high }) => between(expr, !negated, (low, high), sides),
        Expr::InList(InList { expr, list, negated: false }) => listed(expr, list, sides),
        Expr::Case(case) => any_branch(case, sides, |value| holds(value, sides)),
        _ => NOTHING,
    }
}

/// What follows where `condition` is FALSE.
fn fails(condition: &Expr, sides: Sides<'_>) -> Facts {
    match condition {
        Expr::Alias(alias) => fails(&alias.expr, sides),
        Expr::Not(inner) | Expr::IsNotTrue(inner) => holds(inner, sides),
        Expr::IsNotFalse(inner) => fails(inner, sides),
        Expr::Literal(ScalarValue::Boolean(Some(value)), _) => (!value).then(Vec::new),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => or(fails(left, sides), fails(right, sides)),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => and(fails(left, sides), fails(right, sides)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op.negate() {
            Some(op) => compared(left, op, right, sides),
            None => NOTHING,
        },
        Expr::Between(Between { expr, negated, low, high }) => between(expr, *negated, (low, high), sides),
        Expr::InList(InList { expr, list, negated: true }) => listed(expr, list, sides),
        Expr::Case(case) => any_branch(case, sides, |value| fails(value, sides)),
        _ => NOTHING,
    }
}

/// What follows from `left op right`, both of one type.
fn compared(left: &Expr, op: Operator, right: &Expr, sides: Sides<'_>) -> Facts {
    match op {
        Operator::LtEq => at_most(left, right, false, sides),
        Operator::Lt => at_most(left, right, true, sides),
        Operator::GtEq => at_most(right, left, false, sides),
        Operator::Gt => at_most(right, left, true, sides),
        Operator::Eq => and(at_most(left, right, false, sides), at_most(right, left, false, sides)),
        Operator::IsNotDistinctFrom if never_null(left, sides) || never_null(right, sides) => {
            compared(left, Operator::Eq, right, sides)
        }
        _ => NOTHING,
    }
}

fn at_most(low: &Expr, high: &Expr, strictly: bool, sides: Sides<'_>) -> Facts {
    let whole = data_type(low, sides).is_some_and(|data_type| data_type.is_integer());
    let step = if strictly && whole { 1.0 } else { 0.0 };
    let below = range(high, sides).map_or(NOTHING, |high| within(low, Interval::at_most(high.high - step), sides));
    let above = range(low, sides).map_or(NOTHING, |low| within(high, Interval::at_least(low.low + step), sides));
    and(and(below, above), lengths::at_most(low, high, sides))
}

fn between(value: &Expr, inside: bool, (low, high): (&Expr, &Expr), sides: Sides<'_>) -> Facts {
    if inside {
        and(at_most(low, value, false, sides), at_most(value, high, false, sides))
    } else {
        or(at_most(value, low, true, sides), at_most(high, value, true, sides))
    }
}

/// `value` is one of `list`.
fn listed(value: &Expr, list: &[Expr], sides: Sides<'_>) -> Facts {
    let known = list.iter().filter(|item| !is_null(item));
    hull(known, sides).map_or(NOTHING, |interval| within(value, interval, sides))
}

/// What follows from any branch of `case` whose value is as `wanted` says.
fn any_branch(case: &Case, sides: Sides<'_>, wanted: impl Fn(&Expr) -> Facts) -> Facts {
    let mut any = match &case.else_expr {
        Some(value) if !is_null(value) => wanted(value),
        _ => None,
    };
    for (when, then) in case.when_then_expr.iter().filter(|(_, then)| !is_null(then)) {
        let reached = if case.expr.is_none() { holds(when, sides) } else { NOTHING };
        any = or(any, and(reached, wanted(then)));
    }
    any
}

/// What follows for scores in `expr` where its value, which is not NULL, lies in `wanted`.
fn within(expr: &Expr, wanted: Interval, sides: Sides<'_>) -> Facts {
    let wanted = range(expr, sides).map_or(wanted, |possible| wanted.and(possible));
    if wanted.is_empty() {
        return None;
    }
    match expr {
        Expr::Alias(alias) => within(&alias.expr, wanted, sides),
        Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) => {
            cast(expr, inner, wanted, sides)
        }
        Expr::Negative(inner) if does_not_wrap(expr, sides) => within(inner, wanted.negated(), sides),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if does_not_wrap(expr, sides) => {
            let Some(rounding) = data_type(expr, sides).as_ref().and_then(rounding) else { return NOTHING };
            operator(expr, (left, *op, right), wanted.widened(rounding), sides)
        }
        Expr::Case(case) => any_branch(case, sides, |value| within(value, wanted, sides)),
        Expr::ScalarFunction(call) => function(expr, call, wanted, sides),
        _ => NOTHING,
    }
}

/// Whether the value of `expr` is the number that its operator has as its result, up to rounding.
fn does_not_wrap(expr: &Expr, sides: Sides<'_>) -> bool {
    let divides = matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Divide, .. }));
    // decimal numbers that overflow are an error
    let never = |data_type: DataType| divides || data_type.is_floating() || data_type.is_decimal();
    data_type(expr, sides).is_some_and(never) || range(expr, sides).is_some()
}

fn cast(expr: &Expr, inner: &Expr, wanted: Interval, sides: Sides<'_>) -> Facts {
    let (Some(from), Some(to)) = (data_type(inner, sides), data_type(expr, sides)) else { return NOTHING };
    match cast_rounding(&from, &to) {
        Some(rounding) => within(inner, wanted.widened(rounding), sides),
        None => NOTHING,
    }
}

fn operator(expr: &Expr, (left, op, right): (&Expr, Operator, &Expr), wanted: Interval, sides: Sides<'_>) -> Facts {
    let finite = |operand| range(operand, sides).filter(|range| range.is_finite());
    let given = |operand: &Expr, interval: Option<Interval>| match interval {
        Some(interval) => within(operand, interval.widened(Rounding::DOUBLE), sides),
        None => NOTHING,
    };
    let (of_left, of_right) = (finite(left), finite(right));
    match op {
        Operator::Plus => and(
            given(left, of_right.map(|right| wanted.minus(right))),
            given(right, of_left.map(|left| wanted.minus(left))),
        ),
        Operator::Minus => and(
            given(left, of_right.map(|right| wanted.plus(right))),
            given(right, of_left.map(|left| left.minus(wanted))),
        ),
        Operator::Multiply if left == right => given(left, range(left, sides).and_then(|left| root(left, wanted))),
        Operator::Multiply => and(
            given(left, of_right.and_then(|right| factor(of_left, right, wanted))),
            given(right, of_left.and_then(|left| factor(of_right, left, wanted))),
        ),
        Operator::Divide => {
            let whole = data_type(expr, sides).is_some_and(|data_type| data_type.is_integer());
            let wanted = wanted.widened_by(if whole { 1.0 } else { 0.0 });
            let divisor = range(right, sides).filter(|right| right.excludes_zero());
            let facts = and(
                given(left, divisor.filter(|right| right.is_finite()).map(|right| wanted.times(right))),
                given(right, divisor.and_then(|right| of_left.and_then(|left| denominator(left, right, wanted)))),
            );
            and(facts, lengths::quotient(left, right, wanted.high, sides))
        }
        _ => NOTHING,
    }
}

/// `x` where `x * x` is within `wanted`, and not negative.
fn root(x: Interval, wanted: Interval) -> Option<Interval> {
    (x.low >= 0.0).then(|| Interval::new(wanted.low.max(0.0).sqrt(), wanted.high.max(0.0).sqrt()))
}

/// `x` where `x * y` is within `wanted`.
fn factor(x: Option<Interval>, y: Interval, wanted: Interval) -> Option<Interval> {
    if y.excludes_zero() {
        return Some(wanted.over(y));
    }
    // with a zero among the values of `y`, the product may be 0 whatever `x` is
    let positive = x.is_some_and(|x| x.low >= 0.0) && y.low >= 0.0 && y.high > 0.0 && wanted.low > 0.0;
    positive.then(|| Interval::at_least(wanted.low / y.high))
}

/// `y` where `x / y` is within `wanted`, `x` not negative and `y` positive.
fn denominator(x: Interval, y: Interval, wanted: Interval) -> Option<Interval> {
    let positive = x.low >= 0.0 && y.low > 0.0 && wanted.low > 0.0;
    positive.then(|| Interval::new(x.low / wanted.high, x.high / wanted.low))
}

fn function(expr: &Expr, call: &ScalarFunction, wanted: Interval, sides: Sides<'_>) -> Facts {
    if recognise::is_measure(call) {
        return measure(expr, call, wanted, sides);
    }
    let (Some(name), Some(first)) = (stock(call), call.args.first()) else { return NOTHING };
    match name {
        "greatest" | "least" => best(call, name == "greatest", wanted, sides),
        "nullif" => within(first, wanted, sides),
        "abs" => within(first, Interval::new(-wanted.high, wanted.high), sides),
        "round" | "trunc" => match places(call) {
            Some(places) => {
                let share = if name == "round" { 0.500_001 } else { 1.0 };
                within(first, near(wanted, share * 10f64.powi(-places)), sides)
            }
            None => NOTHING,
        },
        "floor" => within(first, Interval::new(wanted.low, wanted.high + 1.0).widened(Rounding::DOUBLE), sides),
        "ceil" => within(first, Interval::new(wanted.low - 1.0, wanted.high).widened(Rounding::DOUBLE), sides),
        _ => match rising(name, call, wanted.widened(Rounding::LIBRARY), sides) {
            Some(inner) => within(first_of(name, call), inner.widened(Rounding::LIBRARY), sides),
            None => NOTHING,
        },
    }
}

/// A distance or count that most pairs are within.
const LARGE: f64 = 1e5;

/// Bounds on the score of a measure.
fn measure(expr: &Expr, call: &ScalarFunction, wanted: Interval, sides: Sides<'_>) -> Facts {
    let whole = data_type(expr, sides).is_some_and(|data_type| data_type.is_integer());
    let wanted = if whole { Interval::new(wanted.low.ceil(), wanted.high.floor()) } else { wanted };
    if wanted.is_empty() {
        return None;
    }
    let possible = range(expr, sides).unwrap_or(Interval::EVERYTHING);
    let mut bounds = Bounds::everything();
    if wanted.low > possible.low {
        bounds = bounds.and(Bounds::at_least(wanted.low, true));
    }
    if wanted.high < possible.high && (wanted.high < LARGE || !whole) {
        bounds = bounds.and(Bounds::at_most(wanted.high, true));
    }
    match recognise::scored(call, bounds, sides) {
        Some((left, right, similarity)) => Some(vec![Fact { left, right, similarity }]),
        None => NOTHING,
    }
}

/// The greatest or the least of several is within `wanted`; those that are NULL do not count.
fn best(call: &ScalarFunction, greatest: bool, wanted: Interval, sides: Sides<'_>) -> Facts {
    let any = call.args.iter().fold(None, |any, argument| or(any, within(argument, wanted, sides)));
    let beyond = if greatest { Interval::at_most(wanted.high) } else { Interval::at_least(wanted.low) };
    let every = call.args.iter().enumerate().filter(|(at, argument)| {
        let others = call.args.iter().enumerate().filter(|(other, _)| other != at).map(|(_, other)| other);
        is_null_only_with(argument, others, sides)
    });
    every.fold(any, |facts, (_, argument)| and(facts, within(argument, beyond, sides)))
}

/// What is within `unit` of `wanted`.
fn near(wanted: Interval, unit: f64) -> Interval {
    wanted.widened(Rounding { relative: 1e-6, absolute: unit })
}

/// To how many places `round` or `trunc` keeps a number.
fn places(call: &ScalarFunction) -> Option<i32> {
    match call.args.get(1) {
        None => Some(0),
        Some(places) => constant(places).filter(|places| places.abs() <= 15.0).map(|places| places as i32),
    }
}

/// The argument of a function that rises with it, where its value is within `wanted`.
fn rising(name: &str, call: &ScalarFunction, wanted: Interval, sides: Sides<'_>) -> Option<Interval> {
    let argument = first_of(name, call);
    if !data_type(argument, sides)?.is_floating() {
        return None;
    }
    let positive = range(argument, sides).is_some_and(|argument| argument.low >= 0.0);
    match name {
        "exp" => Some(Interval::new(wanted.low.max(0.0).ln(), wanted.high.max(0.0).ln())),
        "sqrt" if positive => Some(Interval::new(wanted.low.max(0.0).powi(2), wanted.high.max(0.0).powi(2))),
        "ln" if positive => Some(wanted.raised(f64::exp)),
        "log2" if positive => Some(wanted.raised(f64::exp2)),
        "log10" if positive => Some(wanted.raised(|end| 10f64.powf(end))),
        "log" if positive => {
            let base = if call.args.len() == 1 { 10.0 } else { constant(call.args.first()?)? };
            (base > 1.0).then(|| wanted.raised(|end| base.powf(end)))
        }
        "power" if positive => {
            let exponent = constant(call.args.get(1)?).filter(|exponent| (0.01..=100.0).contains(exponent))?;
            Some(Interval::new(wanted.low.max(0.0), wanted.high.max(0.0)).raised(|end| end.powf(1.0 / exponent)))
        }
        _ => None,
    }
}

/// The argument that a function of [`rising`] rises with.
fn first_of<'a>(name: &str, call: &'a ScalarFunction) -> &'a Expr {
    let at = if name == "log" { call.args.len() - 1 } else { 0 };
    &call.args[at]
}
