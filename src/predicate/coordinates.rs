//! Distances that a query spells out over separate columns, as conditions over vectors of these columns.
//!
//! ```sql
//! sqrt(power(a.x - b.x, 2) + power(a.y - b.y, 2)) <= e      power(..) + .. <= e, (a.x - b.x) * (a.x - b.x) + .. <= e
//! abs(a.x - b.x) <= e AND abs(a.y - b.y) <= e
//! ```
//!
//! What the query computes rounds in its own way, so that the similarity of vectors only filters: its bound is a little
//! wider, and the condition itself is asked of what passes. Coordinates that may wrap around, or are not finite, are
//! left to it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::math::power::PowerFunc;
use datafusion::functions::math::sqrt;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast};

use super::band::{bounded, difference, widened};
use super::sides::data_type;
use super::{Atom, Band, BandForm, Bounds, Condition, Sides, VectorCondition};
use similarity_measures::VectorMeasure;

/// The atom of a Euclidean distance.
pub(super) fn euclidean(condition: &Expr, sides: Sides<'_>) -> Option<Atom> {
    let (score, op, most) = bounded(condition, sides)?;
    if !matches!(op, Operator::Lt | Operator::LtEq) {
        return None;
    }
    let score = widened(score, sides)?;
    let (sum, most) = match score {
        Expr::ScalarFunction(call) if call.func == sqrt() => (widened(call.args.first()?, sides)?, most),
        sum => (sum, if most < 0.0 { most } else { most.sqrt() }),
    };
    let mut axes = Vec::new();
    collect_squares(sum, sides, &mut axes)?;
    (axes.len() > 1).then(|| atom(VectorMeasure::L2, axes, most, condition.clone()))
}

/// Turns bands of floating-point numbers, of which all have to hold, into one atom; without an equality a band alone
/// would pair too much.
pub(super) fn chebyshev(bands: &mut Vec<Band>, sides: Sides<'_>) -> Option<Atom> {
    let axis = |band: &Band| -> Option<(Axis, f64)> {
        let BandForm::Difference { left, right, bounds, .. } = &band.form else { return None };
        let most = bounds.upper().filter(|_| bounds.is_symmetric())?.value;
        let limits = limits(&data_type(left, sides)?)?;
        limits.is_float.then(|| (Axis { left: left.clone(), right: right.clone(), limits }, most))
    };
    let usable: Vec<bool> = bands.iter().map(|band| axis(band).is_some()).collect();
    if usable.iter().filter(|usable| **usable).count() < 2 {
        return None;
    }
    let mut usable = usable.into_iter();
    let merged: Vec<Band> = bands.extract_if(.., |_| usable.next().unwrap_or(false)).collect();
    let (axes, most): (Vec<_>, Vec<_>) = merged.iter().filter_map(axis).unzip();
    let condition = merged.into_iter().map(|band| band.condition).reduce(Expr::and)?;
    Some(atom(VectorMeasure::Linf, axes, most.into_iter().fold(f64::NEG_INFINITY, f64::max), condition))
}

/// The difference of one column of each side.
struct Axis {
    left: Expr,
    right: Expr,
    limits: Limits,
}

/// What the arithmetic of a type is good for.
#[derive(Clone, Copy)]
struct Limits {
    is_float: bool,
    /// Below this power of two neither differences nor sums of their squares wrap around or overflow.
    undecided_from: u16,
    /// How much a distance may be off, in proportion and absolutely.
    rounding: (f64, f64),
}

fn limits(difference: &DataType) -> Option<Limits> {
    let double = (1e-12, 1e-150);
    Some(match difference {
        DataType::Float64 => Limits { is_float: true, undecided_from: 465, rounding: double },
        DataType::Float32 => Limits { is_float: true, undecided_from: 60, rounding: (1e-5, 1e-18) },
        DataType::Int64 => Limits { is_float: false, undecided_from: 28, rounding: double },
        DataType::Int32 => Limits { is_float: false, undecided_from: 12, rounding: double },
        _ => return None,
    })
}

/// The axes of a sum of squares; none where a term is anything else.
fn collect_squares(sum: &Expr, sides: Sides<'_>, axes: &mut Vec<Axis>) -> Option<()> {
    match widened(sum, sides)? {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => {
            collect_squares(left, sides, axes)?;
            collect_squares(right, sides, axes)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Multiply, right }) if left == right => {
            axes.push(axis(left, sides)?);
            Some(())
        }
        Expr::ScalarFunction(call) if call.func.inner().is::<PowerFunc>() && is_two(call.args.get(1)?) => {
            axes.push(axis(call.args.first()?, sides)?);
            Some(())
        }
        _ => None,
    }
}

fn axis(expr: &Expr, sides: Sides<'_>) -> Option<Axis> {
    let (left, right, _) = difference(expr, sides)?;
    let limits = limits(&data_type(&left, sides)?)?;
    Some(Axis { left, right, limits })
}

fn is_two(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    value.cast_to(&DataType::Float64).is_ok_and(|value| value == ScalarValue::Float64(Some(2.0)))
}

fn atom(measure: VectorMeasure, axes: Vec<Axis>, most: f64, condition: Expr) -> Atom {
    let (share, rest) = axes
        .iter()
        .map(|axis| axis.limits.rounding)
        .fold((0.0, 0.0), |(a, b), (c, d)| (f64::max(a, c), f64::max(b, d)));
    let undecided_from = axes.iter().map(|axis| axis.limits.undecided_from).min();
    let bounds = Bounds::at_most(if most < 0.0 { most } else { most * (1.0 + share) + rest }, true);
    let (left, right) = axes.into_iter().map(|Axis { left, right, .. }| (number(left), number(right))).unzip();
    let similarity = Condition::Vector(VectorCondition { measure, bounds, undecided_from });
    Atom { left: make_array(left), right: make_array(right), similarity, condition, filters: true }
}

fn number(expr: Expr) -> Expr {
    cast(expr, DataType::Float64)
}
