//! A band: a value of one input between two values of the other, or a difference of both between two constants.

use std::fmt;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

use super::interval::Interval;
use super::sides::data_type;
use super::threshold::{Threshold, under_casts};
use super::{Bounds, Side, Sides};
use crate::functions;

/// A band between one expression of each side, or one of one side and two of the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Band {
    /// What lies between what.
    pub form: BandForm,
    /// The condition as the query states it.
    pub condition: Expr,
}

/// What lies between what. A NULL in any of it makes the condition NULL, so that the pair does not match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BandForm {
    /// `left - right`, signed numbers of one type or whole numbers, within bounds that are finite at both ends.
    Difference {
        /// Expression over the left input.
        left: Expr,
        /// Expression over the right input.
        right: Expr,
        /// Bounds of the difference.
        bounds: Bounds,
        /// Whether whole numbers of any types are subtracted as such, where the difference of one type may wrap around.
        unlimited: bool,
    },
    /// `value` between `low` and `high`; all of one ordered type.
    Between {
        /// Whether the value reads the left input, and its ends the right one.
        value_is_left: bool,
        /// Value over one input.
        value: Expr,
        /// Lower end, over the other input.
        low: End,
        /// Upper end, over the other input.
        high: End,
    },
}

/// One end of an interval.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct End {
    /// The value.
    pub value: Expr,
    /// Whether it belongs to the interval.
    pub inclusive: bool,
}

impl Band {
    /// Takes the bands out of `conjuncts`, one condition or two of them each.
    pub(super) fn take(conjuncts: &mut Vec<Expr>, sides: Sides<'_>) -> Vec<Self> {
        let mut bands = Vec::new();
        let mut at = 0;
        while at < conjuncts.len() {
            let partner = |half: &Half| {
                let others = conjuncts.iter().enumerate().skip(at + 1);
                let mut both = others.flat_map(|(other, conjunct)| {
                    Half::of(conjunct, sides).into_iter().filter_map(move |second| Some((other, half.and(&second)?)))
                });
                both.next()
            };
            if let Some(form) = whole(&conjuncts[at], sides) {
                bands.push(Self { form, condition: conjuncts.remove(at) });
            } else if let Some((other, form)) = Half::of(&conjuncts[at], sides).iter().find_map(partner) {
                let second = conjuncts.remove(other);
                bands.push(Self { form, condition: conjuncts.remove(at).and(second) });
            } else {
                at += 1;
            }
        }
        bands
    }
}

/// `abs(x - y) <= e`, or `neighbors(x, y, w)`.
fn whole(condition: &Expr, sides: Sides<'_>) -> Option<BandForm> {
    if let Some(band) = neighbors(condition, sides) {
        return Some(band);
    }
    let (score, op, literal) = bounded(condition, sides)?;
    let Expr::ScalarFunction(call) = widened(score, sides)? else { return None };
    let ([distance], true) = (call.args.as_slice(), call.func.inner().is::<AbsFunc>()) else { return None };
    let (left, right, _) = difference(distance, sides)?;
    let inclusive = match op {
        Operator::LtEq => true,
        Operator::Lt => false,
        _ => return None,
    };
    let bounds = Bounds::at_least(-literal, inclusive).and(Bounds::at_most(literal, inclusive));
    Some(BandForm::Difference { left, right, bounds, unlimited: false })
}

/// `neighbors(x, y, w)`, under aliases.
fn neighbors(condition: &Expr, sides: Sides<'_>) -> Option<BandForm> {
    let call = match condition {
        Expr::Alias(alias) => return neighbors(&alias.expr, sides),
        Expr::ScalarFunction(call) if call.name() == functions::NEIGHBORS && functions::is_known(&call.func) => call,
        _ => return None,
    };
    let [x, y, Expr::Literal(window, _)] = call.args.as_slice() else { return None };
    let window = constant(window).filter(|window| *window >= 1.0)?;
    let (left, right) = sides.order(x, y)?;
    let bounds = Bounds::at_least(-window, false).and(Bounds::at_most(window, false));
    Some(BandForm::Difference { left, right, bounds, unlimited: true })
}

/// One end of a band.
enum Half {
    /// `left - right` within bounds that are open at one end. Two of them together exclude NaN, which stands above or
    /// below all numbers, only where they bound the same difference of floats.
    Difference { left: Expr, right: Expr, bounds: Bounds, turned_floats: bool },
    /// `value >= end` or, where not `is_low`, `value <= end`.
    End { value: Expr, value_is_left: bool, end: End, is_low: bool },
}

impl Half {
    /// The ways in which `condition` is half a band.
    fn of(condition: &Expr, sides: Sides<'_>) -> Vec<Self> {
        if let Some(half) = half_difference(condition, sides) {
            return vec![half];
        }
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return Vec::new() };
        let (is_low, inclusive) = match op {
            Operator::GtEq => (true, true),
            Operator::Gt => (true, false),
            Operator::LtEq => (false, true),
            Operator::Lt => (false, false),
            _ => return Vec::new(),
        };
        let left_first = match (sides.of(left), sides.of(right)) {
            (Some(Side::Left), Some(Side::Right)) => true,
            (Some(Side::Right), Some(Side::Left)) => false,
            _ => return Vec::new(),
        };
        let data_type = |expr: &Expr| data_type(expr, sides);
        if data_type(left) != data_type(right) || !data_type(left).is_some_and(|t| has_order(&t)) {
            return Vec::new();
        }
        let end = |value: &Expr| End { value: value.clone(), inclusive };
        vec![
            Self::End { value: (**left).clone(), value_is_left: left_first, end: end(right), is_low },
            Self::End { value: (**right).clone(), value_is_left: !left_first, end: end(left), is_low: !is_low },
        ]
    }

    /// The band of two halves that belong together.
    fn and(&self, other: &Self) -> Option<BandForm> {
        match (self, other) {
            (
                Self::Difference { left, right, bounds, turned_floats },
                Self::Difference { left: other_left, right: other_right, bounds: other, turned_floats: other_turned },
            ) if (left, right, turned_floats) == (other_left, other_right, other_turned) => {
                let bounds = bounds.and(*other);
                let finite = bounds.lower().is_some() && bounds.upper().is_some();
                finite.then(|| BandForm::Difference {
                    left: left.clone(),
                    right: right.clone(),
                    bounds,
                    unlimited: false,
                })
            }
            (
                Self::End { value, value_is_left, end, is_low },
                Self::End { value: other_value, value_is_left: other_is_left, end: other, is_low: other_is_low },
            ) if value == other_value && value_is_left == other_is_left && is_low != other_is_low => {
                let (low, high) = if *is_low { (end, other) } else { (other, end) };
                let (value, low, high) = (value.clone(), low.clone(), high.clone());
                Some(BandForm::Between { value_is_left: *value_is_left, value, low, high })
            }
            _ => None,
        }
    }
}

/// `x - y <= e`, in any direction.
fn half_difference(condition: &Expr, sides: Sides<'_>) -> Option<Half> {
    let (score, op, literal) = bounded(condition, sides)?;
    let (left, right, swapped) = difference(widened(score, sides)?, sides)?;
    let at_most = match op {
        Operator::LtEq | Operator::Lt => true,
        Operator::GtEq | Operator::Gt => false,
        _ => return None,
    };
    let inclusive = matches!(op, Operator::LtEq | Operator::GtEq);
    let bounds = match (at_most, swapped) {
        (true, false) => Bounds::at_most(literal, inclusive),
        (false, false) => Bounds::at_least(literal, inclusive),
        // y - x <= e is x - y >= -e: the negation of a difference is exact
        (true, true) => Bounds::at_least(-literal, inclusive),
        (false, true) => Bounds::at_most(-literal, inclusive),
    };
    let turned_floats = swapped && data_type(&left, sides)?.is_floating();
    Some(Half::Difference { left, right, bounds, turned_floats })
}

/// A comparison with a constant: what is compared, the operator with it on the left, and the constant.
pub(super) fn bounded<'a>(condition: &'a Expr, sides: Sides<'_>) -> Option<(&'a Expr, Operator, f64)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (score, op, value) = match (left.as_ref(), right.as_ref()) {
        (score, Expr::Literal(value, _)) => (score, *op, value),
        (Expr::Literal(value, _), score) => (score, op.swap()?, value),
        _ => return None,
    };
    match constant(value) {
        Some(number) => Some((score, op, number)),
        None if value.data_type().is_decimal() => of_decimal(score, op, value, sides),
        None => None,
    }
}

/// A number that is cast to be compared with a decimal one, as a comparison of the number itself.
fn of_decimal<'a>(
    score: &'a Expr,
    op: Operator,
    value: &ScalarValue,
    sides: Sides<'_>,
) -> Option<(&'a Expr, Operator, f64)> {
    let (inner, casts) = under_casts(score, sides)?;
    let data_type = data_type(inner, sides)?;
    let threshold = Threshold { data_type: &data_type, casts: &casts, op, constant: value };
    // the numbers that a decimal type can hold
    let domains = (1..=15).rev().map(|digits| Interval::new(-(10f64.powi(digits)), 10f64.powi(digits)));
    let (bounds, domain) = domains.filter_map(|domain| Some((threshold.bounds(domain)?, domain))).next()?;
    let (op, bound) = match (bounds.lower(), bounds.upper()) {
        (Some(lower), None) => (if lower.inclusive { Operator::GtEq } else { Operator::Gt }, lower),
        (None, Some(upper)) => (if upper.inclusive { Operator::LtEq } else { Operator::Lt }, upper),
        _ => return None,
    };
    (bound.value.abs() < domain.high).then_some((inner, op, bound.value))
}

/// A finite number below 2^53, so that comparing a difference with it as a double is exact.
fn constant(value: &ScalarValue) -> Option<f64> {
    let number = match value {
        ScalarValue::Int8(Some(n)) => f64::from(*n),
        ScalarValue::Int16(Some(n)) => f64::from(*n),
        ScalarValue::Int32(Some(n)) => f64::from(*n),
        ScalarValue::Int64(Some(n)) => *n as f64,
        ScalarValue::Float32(Some(n)) => f64::from(*n),
        ScalarValue::Float64(Some(n)) => *n,
        _ => return None,
    };
    (number.is_finite() && number.abs() < (1u64 << f64::MANTISSA_DIGITS) as f64).then_some(number)
}

/// `x - y` as the key of the left input, that of the right one, and whether they stand the other way round.
pub(super) fn difference(expr: &Expr, sides: Sides<'_>) -> Option<(Expr, Expr, bool)> {
    let Expr::BinaryExpr(BinaryExpr { left: x, op: Operator::Minus, right: y }) = widened(expr, sides)? else {
        return None;
    };
    let data_type = data_type(x, sides)?;
    if data_type != self::data_type(y, sides)? || !has_difference(&data_type) {
        return None;
    }
    let (left, right) = sides.order(x, y)?;
    let swapped = left != **x;
    Some((left, right, swapped))
}

/// An expression under aliases and casts that keep every number distinct and in order.
pub(super) fn widened<'a>(expr: &'a Expr, sides: Sides<'_>) -> Option<&'a Expr> {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64};
    match expr {
        Expr::Alias(alias) => widened(&alias.expr, sides),
        Expr::Cast(Cast { expr, field }) => match (data_type(expr, sides)?, field.data_type()) {
            // beyond 2^53 doubles round, but never past a constant below that
            (Int8, Int16 | Int32 | Int64 | Float32 | Float64)
            | (Int16, Int32 | Int64 | Float32 | Float64)
            | (Int32, Int64 | Float64)
            | (Int64, Float64)
            | (Float32, Float64) => widened(expr, sides),
            (from, to) if from == *to => widened(expr, sides),
            _ => None,
        },
        other => Some(other),
    }
}

/// Numbers whose difference has their own type and orders them.
fn has_difference(data_type: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64};
    matches!(data_type, Int8 | Int16 | Int32 | Int64 | Float32 | Float64)
}

/// Types whose values are one number in the order in which they compare.
fn has_order(data_type: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32, Float64, Int8, Int16, Int32, Int64,
        Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    matches!(
        data_type,
        Int8 | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Float32
            | Float64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Duration(_)
            | Decimal32(..)
            | Decimal64(..)
            | Decimal128(..)
    )
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.condition.human_display())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::functions::math::expr_fn::abs;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn schema(table: &str) -> DFSchema {
        let fields = ["x", "y"].map(|name| Field::new(name, DataType::Int64, true));
        DFSchema::try_from_qualified_schema(table, &Schema::new(fields.to_vec())).unwrap()
    }

    fn take(conjuncts: Vec<Expr>) -> (Vec<BandForm>, usize) {
        let (left, right) = (schema("l"), schema("r"));
        let mut conjuncts = conjuncts;
        let bands = Band::take(&mut conjuncts, Sides { left: &left, right: &right });
        (bands.into_iter().map(|band| band.form).collect(), conjuncts.len())
    }

    fn difference(low: Bounds, high: Bounds) -> BandForm {
        BandForm::Difference { left: col("l.x"), right: col("r.x"), bounds: low.and(high), unlimited: false }
    }

    #[test]
    fn differences() {
        let within = difference(Bounds::at_least(-3.0, true), Bounds::at_most(3.0, true));
        let of = |condition: Expr| take(vec![condition]);
        assert_eq!(of(abs(col("l.x") - col("r.x")).lt_eq(lit(3_i64))), (vec![within.clone()], 0));
        assert_eq!(of(lit(3_i64).gt_eq(abs(col("r.x") - col("l.x")))), (vec![within], 0));
        assert_eq!(of(abs(col("l.x") - col("r.x")).gt(lit(3_i64))), (vec![], 1));
        assert_eq!(of(abs(col("l.x") - col("l.y")).lt(lit(3_i64))), (vec![], 1));
        let halves = vec![(col("r.x") - col("l.x")).lt(lit(1_i64)), (col("l.x") - col("r.x")).lt_eq(lit(7_i64))];
        let expected = difference(Bounds::at_least(-1.0, false), Bounds::at_most(7.0, true));
        assert_eq!(take(halves), (vec![expected], 0));
    }

    #[test]
    fn ends_belong_together_by_their_value() {
        let (low, high) = (col("r.x") - lit(1_i64), col("r.y"));
        let between = BandForm::Between {
            value_is_left: true,
            value: col("l.x"),
            low: End { value: low.clone(), inclusive: true },
            high: End { value: high.clone(), inclusive: false },
        };
        let conjuncts = vec![col("l.y").lt(col("r.x")), col("l.x").gt_eq(low.clone()), high.clone().gt(col("l.x"))];
        assert_eq!(take(conjuncts), (vec![between], 1));
        assert_eq!(take(vec![col("l.x").gt_eq(low.clone()), col("l.y").lt(high)]), (vec![], 2));
        assert_eq!(take(vec![col("l.x").gt_eq(low.clone()), col("l.x").gt(low)]), (vec![], 2));
    }
}
