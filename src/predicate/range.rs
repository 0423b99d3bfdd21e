//! Between which numbers the value of an expression lies, as far as its form tells.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::{core, math, unicode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, Operator, ScalarUDF, TryCast};

use super::Sides;
use super::interval::{Interval, Rounding};
use super::sides::data_type;
use crate::functions::{self, Missing, Weighting};
use similarity_measures::EditMeasure;

/// The interval of all values of `expr` that are not NULL; `None` where nothing is known, or where it may be NaN.
pub(super) fn range(expr: &Expr, sides: Sides<'_>) -> Option<Interval> {
    match expr {
        Expr::Alias(alias) => range(&alias.expr, sides),
        Expr::Literal(value, _) => {
            let exact = !value.data_type().is_decimal();
            number(value)
                .map(|value| if exact { Interval::point(value) } else { Interval::point(value).widened(DECIMAL) })
        }
        Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) => {
            of_cast(inner, field.data_type(), sides)
        }
        Expr::Negative(inner) => fitting(range(inner, sides)?.negated(), expr, sides),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let data_type = data_type(expr, sides)?;
            let results = of_operator(*op, range(left, sides)?, range(right, sides)?)?;
            let cut_off = if *op == Operator::Divide && data_type.is_integer() { 1.0 } else { 0.0 };
            fitting(results.widened(deviation(&data_type)?).widened_by(cut_off), expr, sides)
        }
        Expr::Case(case) => of_case(case, sides),
        Expr::ScalarFunction(call) => of_function(call, sides),
        _ => None,
    }
}

/// A number of any type as the nearest double.
pub(super) fn number(value: &ScalarValue) -> Option<f64> {
    if !value.data_type().is_numeric() {
        return None;
    }
    match value.cast_to(&DataType::Float64).ok()? {
        ScalarValue::Float64(Some(value)) if !value.is_nan() => Some(value),
        _ => None,
    }
}

/// The number that `expr` is in every row.
pub(super) fn constant(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::Literal(value, _) => number(value),
        _ => None,
    }
}

/// What one operation with results of this type may be off.
pub(super) fn rounding(data_type: &DataType) -> Option<Rounding> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float32, Float64};
    match data_type {
        Float32 => Some(Rounding::SINGLE),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            let unit = 10f64.powi(-i32::from(*scale));
            Some(Rounding { absolute: unit, ..Rounding::DOUBLE })
        }
        Float64 => Some(Rounding::DOUBLE),
        integer if integer.is_integer() => Some(Rounding::DOUBLE),
        _ => None,
    }
}

/// A function of a mathematical library, in either precision.
const FUNCTION: Rounding = Rounding { relative: 1e-5, absolute: 0.0 };

/// The nearest double of a decimal number.
const DECIMAL: Rounding = Rounding { relative: 4.5e-16, absolute: 0.0 };

const EXACT: Rounding = Rounding { relative: 0.0, absolute: 0.0 };

/// What results of this type may be off from those of the same operation on doubles. Zero stays zero, except for
/// decimal numbers.
fn deviation(data_type: &DataType) -> Option<Rounding> {
    let rounding = rounding(data_type)?;
    Some(match data_type {
        DataType::Float32 => Rounding { absolute: 0.0, ..rounding },
        decimal if decimal.is_decimal() => rounding,
        _ => EXACT,
    })
}

/// What a cast between types of numbers may change.
pub(super) fn cast_rounding(from: &DataType, to: &DataType) -> Option<Rounding> {
    let rounding = rounding(to)?;
    match (from.is_integer(), to) {
        _ if !from.is_numeric() => None,
        (true, to) if to.is_integer() || (to.is_decimal() && rounding.absolute <= 1.0) => Some(EXACT),
        (false, to) if to.is_integer() => Some(Rounding { relative: 0.0, absolute: 1.0 }),
        _ => Some(rounding),
    }
}

/// `interval`, where all of it is far from what values of the type of `expr` wrap around at.
fn fitting(interval: Interval, expr: &Expr, sides: Sides<'_>) -> Option<Interval> {
    let limit = match data_type(expr, sides)? {
        DataType::Float32 => return single(interval),
        DataType::Float64 => return Some(interval),
        DataType::Int32 => f64::from(i32::MAX),
        DataType::Int64 | DataType::Decimal128(..) | DataType::Decimal256(..) => 1e15,
        _ => return None,
    };
    (-limit < interval.low && interval.high < limit).then_some(interval)
}

/// `interval`, where its values are no infinities in single precision.
fn single(interval: Interval) -> Option<Interval> {
    let overflows = |end: f64| end.is_finite() && end.abs() > f64::from(f32::MAX);
    (!overflows(interval.low) && !overflows(interval.high)).then_some(interval)
}

fn of_operator(op: Operator, left: Interval, right: Interval) -> Option<Interval> {
    let finite = left.is_finite() && right.is_finite();
    match op {
        Operator::Plus if left.is_finite() || right.is_finite() => Some(left.plus(right)),
        Operator::Minus if left.is_finite() || right.is_finite() => Some(left.minus(right)),
        Operator::Multiply if finite => Some(left.times(right)),
        Operator::Divide if left.is_finite() && right.excludes_zero() => Some(left.over(right)),
        _ => None,
    }
}

fn of_cast(inner: &Expr, to: &DataType, sides: Sides<'_>) -> Option<Interval> {
    let from = data_type(inner, sides)?;
    if from == DataType::Boolean && to.is_numeric() {
        return Some(Interval::new(0.0, 1.0));
    }
    let by = cast_rounding(&from, to)?;
    // doubles are as they are
    let by = if to.is_decimal() || to.is_integer() { by } else { deviation(to)? };
    let values = range(inner, sides)?.widened(by);
    if *to == DataType::Float32 { single(values) } else { Some(values) }
}

fn of_case(case: &Case, sides: Sides<'_>) -> Option<Interval> {
    let values = case.when_then_expr.iter().map(|(_, value)| value).chain(&case.else_expr);
    hull(values.map(AsRef::as_ref).filter(|value| !is_null(value)), sides)
}

pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// The interval of what is one of `values`.
pub(super) fn hull<'a>(values: impl Iterator<Item = &'a Expr>, sides: Sides<'_>) -> Option<Interval> {
    let mut all: Option<Interval> = None;
    for value in values {
        let own = range(value, sides)?;
        all = Some(all.map_or(own, |all| all.hull(own)));
    }
    all
}

fn of_function(call: &ScalarFunction, sides: Sides<'_>) -> Option<Interval> {
    if let Some(scores) = of_measure(call) {
        return Some(scores);
    }
    if call.name() == functions::WEIGHTED_SIMILARITY && functions::is_known(&call.func) {
        return of_weighted(call, sides);
    }
    if call.name() == functions::MATCH_COUNT && functions::is_known(&call.func) {
        let types: Option<Vec<_>> = call.args.iter().map(|argument| data_type(argument, sides)).collect();
        let conditions = functions::weighted_conditions(&call.args, &types?)?;
        return Some(Interval::new(0.0, conditions.iter().map(|(_, weight)| weight).sum()).widened(FUNCTION));
    }
    let first = call.args.first()?;
    match stock(call)? {
        "character_length" => Some(Interval::new(0.0, LONGEST)),
        "greatest" => hull(call.args.iter(), sides),
        // NULL is left out, and NaN is greater than any number
        "least" => hull(call.args.iter(), sides).or_else(|| {
            let most = call.args.iter().filter_map(constant).reduce(f64::min)?;
            Some(Interval::new(f64::NEG_INFINITY, most)).filter(|_| !most.is_nan())
        }),
        "nullif" => range(first, sides),
        "abs" => {
            let Interval { low, high } = range(first, sides)?;
            Some(Interval::new(low.max(-high).max(0.0), high.max(-low)))
        }
        "sqrt" => {
            let inner = range(first, sides).filter(|inner| inner.low >= 0.0)?;
            Some(inner.raised(f64::sqrt).widened(FUNCTION))
        }
        "exp" => Some(range(first, sides)?.raised(f64::exp).widened(FUNCTION)),
        "round" | "floor" | "ceil" | "trunc" if call.args.len() == 1 => Some(range(first, sides)?.widened_by(1.0)),
        _ => None,
    }
}

/// More characters than the strings have whose distance any machine computes, in time by the square of it.
const LONGEST: f64 = (1u32 << 29) as f64;
/// More elements than the values have that are read once.
const LONGEST_SCANNED: f64 = 1e12;

/// The scores of a measure. Those of stock's measures of vectors may be NaN.
fn of_measure(call: &ScalarFunction) -> Option<Interval> {
    let scores = match call.name() {
        "jaccard"
        | "dice"
        | "set_cosine"
        | "overlap_coefficient"
        | "similarity"
        | "word_similarity"
        | "strict_word_similarity" => Interval::new(0.0, 1.0),
        "levenshtein_less_equal" => Interval::new(0.0, LONGEST),
        "overlap_count" => Interval::new(0.0, LONGEST_SCANNED),
        "difference" => Interval::new(0.0, 4.0),
        "l1_distance" | "l2_distance" | "linf_distance" | "lp_distance" => Interval::at_least(0.0),
        // the quotient may be a little more than 1
        "cosine_similarity" => Interval::new(-1.0 - 1e-6, 1.0 + 1e-6),
        name => match EditMeasure::named(name)? {
            measure if measure.needs_equal_lengths() => Interval::new(0.0, LONGEST_SCANNED),
            measure if measure.is_distance() => Interval::new(0.0, LONGEST),
            _ => Interval::new(0.0, 1.0),
        },
    };
    functions::is_known(&call.func).then_some(scores)
}

/// Between which numbers a weighted similarity lies.
fn of_weighted(call: &ScalarFunction, sides: Sides<'_>) -> Option<Interval> {
    let weighting = Weighting::of(&call.args)?;
    let mut sum = Interval::point(0.0);
    let mut any = Interval::point(0.0);
    for (similarity, attribute) in call.args.iter().step_by(3).zip(&weighting.attributes) {
        // below its threshold it counts as 0
        let own = range(similarity, sides).filter(|own| own.is_finite())?.hull(Interval::point(0.0));
        sum = sum.plus(own.times(Interval::point(attribute.weight)));
        any = any.hull(own);
    }
    let average = match weighting.missing {
        Missing::Zero => sum.over(Interval::point(weighting.total())),
        Missing::Skip => any,
    };
    Some(average.widened(FUNCTION).widened_by(1e-6)).filter(|average| average.is_finite())
}

/// The name of a function of stock DataFusion, if `call` is really of that one and not of a namesake.
pub(super) fn stock(call: &ScalarFunction) -> Option<&'static str> {
    static STOCK: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let all = math::functions().into_iter().chain(core::functions()).chain(unicode::functions());
        all.collect()
    });
    let kind = |function: &ScalarUDF| (function.inner().as_ref() as &dyn Any).type_id();
    let is_same = |stock: &&Arc<ScalarUDF>| stock.name() == call.name() && kind(stock) == kind(&call.func);
    STOCK.iter().find(is_same).map(|stock| stock.name())
}
