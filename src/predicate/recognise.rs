//! Recognises a similarity condition: a comparison of a known measure with a literal.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

use super::interval::Interval;
use super::range::range;
use super::sides::Side;
use super::sides::data_type;
use super::threshold::{Threshold, under_casts};
use super::{Atom, Bounds, Condition, Sides, VectorCondition};
use crate::functions;
use similarity_measures::{EditMeasure, Parameter, Power, SetMeasure, Tokenizer, VectorMeasure};

/// The atom that `condition` states, `None` where it compares no measure of both sides, and the reason where
/// it does but cannot be accelerated exactly.
pub(super) fn atom(condition: &Expr, sides: Sides<'_>) -> Result<Option<Atom>, String> {
    let Some((score, op, literal)) = comparison(condition) else { return unsupported_use(condition, sides) };
    let (call, bounds) = match widened_call(score, sides) {
        Some(call) => (call, bounds(op, literal)),
        None => match rounded(score, op, literal, sides) {
            Some((call, bounds)) => (call, Ok(bounds)),
            None => return unsupported_use(condition, sides),
        },
    };
    if sides.of(score) != Some(Side::Both) {
        return Ok(None);
    }
    let Some(measure) = measure(call) else { return unsupported_use(condition, sides) };
    let bounds = bounds?;
    let (left, right, similarity) = bounded(measure, call, bounds, sides)?;
    Ok(Some(Atom { left, right, similarity, condition: condition.clone(), filters: false }))
}

/// Both keys, in order, and the similarity, which accepts every score, where `score` is a known measure of an
/// expression of either side.
pub fn measured(score: &Expr, sides: Sides<'_>) -> Option<(Expr, Expr, Condition)> {
    let call = widened_call(score, sides)?;
    match measure(call)? {
        // up to its limit it is a distance, beyond it is none
        Measure::LevenshteinLessEqual => None,
        measure => bounded(measure, call, Bounds::everything(), sides).ok(),
    }
}

/// Both keys, in order, and the similarity condition that scores are within `bounds`, where `call` is of a known
/// measure of an expression of either side.
pub(super) fn scored(call: &ScalarFunction, bounds: Bounds, sides: Sides<'_>) -> Option<(Expr, Expr, Condition)> {
    bounded(measure(call)?, call, bounds, sides).ok()
}

/// Whether `call` is of a known measure.
pub fn is_measure(call: &ScalarFunction) -> bool {
    measure(call).is_some()
}

/// The keys of a measure, and the similarity condition that its scores are within `bounds`.
fn bounded(
    measure: Measure,
    call: &ScalarFunction,
    bounds: Bounds,
    sides: Sides<'_>,
) -> Result<(Expr, Expr, Condition), String> {
    let (left, right) = keys(call, sides)?;
    Ok(match measure {
        Measure::Set(measure) => {
            let (left, right, tokenizer) = sets(measure, call, (left, right), sides)?;
            let measure = measure.with(&constants(measure.descriptor().parameters, call)?).ok_or(LACKS_ARGUMENT)?;
            let measure = if is_reversed(call, sides) { measure.reversed() } else { measure };
            (left, right, Condition::Set { tokenizer, measure, bounds })
        }
        Measure::Edit(measure) => {
            let measure = measure.with(&constants(measure.descriptor().parameters, call)?).ok_or(LACKS_ARGUMENT)?;
            (left, right, Condition::Edit { measure, bounds })
        }
        Measure::Vector(measure) => {
            let stock = functions::is_stock_vector_measure(&call.func);
            if stock && key_type(&left, sides)? != key_type(&right, sides)? {
                return Err("its vectors are a list and a large list, which it may not compare".into());
            }
            let undecided_from = stock.then_some(NEAR_OVERFLOW);
            (left, right, Condition::Vector(VectorCondition { measure, bounds, undecided_from }))
        }
        Measure::LevenshteinLessEqual => {
            let bounds = levenshtein_less_equal_bounds(call, bounds)?;
            (left, right, Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds })
        }
    })
}

/// A measure inside an expression that is not a plain comparison with a literal is a near miss worth naming.
fn unsupported_use(condition: &Expr, sides: Sides<'_>) -> Result<Option<Atom>, String> {
    let over_both = condition
        .exists(|e| {
            Ok(matches!(e, Expr::ScalarFunction(call) if measure(call).is_some()) && sides.of(e) == Some(Side::Both))
        })
        .unwrap_or(false);
    if over_both {
        return Err(
            "a similarity condition compares a measure with a constant, as in `jaccard(a.x, b.x) >= 0.8`, and no bound \
             on a measure follows from it"
                .into()
        );
    }
    Ok(None)
}

/// A comparison as score, operator (score on the left) and literal.
pub(super) fn comparison(condition: &Expr) -> Option<(&Expr, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    match (left.as_ref(), right.as_ref()) {
        (score, Expr::Literal(value, _)) => Some((score, *op, value)),
        (Expr::Literal(value, _), score) => Some((score, op.swap()?, value)),
        _ => None,
    }
}

/// The call under aliases and casts that keep every score distinct and in order.
fn widened_call<'a>(score: &'a Expr, sides: Sides<'_>) -> Option<&'a ScalarFunction> {
    match score {
        Expr::ScalarFunction(call) => Some(call),
        Expr::Alias(alias) => widened_call(&alias.expr, sides),
        Expr::Cast(Cast { expr, field }) if widens(expr, field.data_type(), sides)? => widened_call(expr, sides),
        _ => None,
    }
}

/// The call under casts that may round, and the scores that satisfy the comparison.
fn rounded<'a>(
    score: &'a Expr,
    op: Operator,
    literal: &ScalarValue,
    sides: Sides<'_>,
) -> Option<(&'a ScalarFunction, Bounds)> {
    let (inner, casts) = under_casts(score, sides)?;
    let Expr::ScalarFunction(call) = inner else { return None };
    let domain = match measure(call)? {
        Measure::Vector(VectorMeasure::Cosine) => Interval::new(-1.5, 1.5),
        Measure::Vector(measure) if measure.is_distance() => Interval::new(0.0, BELOW_OVERFLOW),
        Measure::Vector(_) => Interval::new(-BELOW_OVERFLOW, BELOW_OVERFLOW),
        _ => range(inner, sides)?,
    };
    let data_type = data_type(inner, sides)?;
    let threshold = Threshold { data_type: &data_type, casts: &casts, op, constant: literal };
    Some((call, threshold.bounds(domain)?))
}

/// Numbers of which stock DataFusion casts all to the decimal type that it compares doubles as.
const BELOW_OVERFLOW: f64 = 9e14;

fn widens(expr: &Expr, to: &DataType, sides: Sides<'_>) -> Option<bool> {
    use DataType::{Float32, Float64, Int32, Int64};
    let schema = sides.left.join(sides.right).ok()?;
    let from = expr.get_type(&schema).ok()?;
    // distances are far below 2^53, so that an Int64 distance is exact in Float64
    Some(from == *to || matches!((from, to), (Int32, Int64 | Float64) | (Int64, Float64) | (Float32, Float64)))
}

fn bounds(op: Operator, literal: &ScalarValue) -> Result<Bounds, String> {
    let value = match literal {
        ScalarValue::Float64(Some(v)) => *v,
        ScalarValue::Float32(Some(v)) => f64::from(*v),
        ScalarValue::Int64(Some(v)) => *v as f64,
        ScalarValue::Int32(Some(v)) => f64::from(*v),
        other => return Err(format!("the threshold is a {}; write a number", other.data_type())),
    };
    match op {
        Operator::GtEq => Ok(Bounds::at_least(value, true)),
        Operator::Gt => Ok(Bounds::at_least(value, false)),
        Operator::LtEq => Ok(Bounds::at_most(value, true)),
        Operator::Lt => Ok(Bounds::at_most(value, false)),
        Operator::Eq => Ok(Bounds::exactly(value)),
        other => Err(format!("`{other}` does not bound a score; use >=, >, <=, <, = or BETWEEN")),
    }
}

/// Vectors of up to 2^90 elements below this power of two have products and sums that are finite.
const NEAR_OVERFLOW: u16 = 465;

enum Measure {
    Set(SetMeasure),
    Edit(EditMeasure),
    Vector(VectorMeasure),
    LevenshteinLessEqual,
}

/// The measure that `call` computes, if the function is really that one and not a namesake.
fn measure(call: &ScalarFunction) -> Option<Measure> {
    let measure = match call.name() {
        "levenshtein_less_equal" => Measure::LevenshteinLessEqual,
        "array_distance" => Measure::Vector(VectorMeasure::L2),
        "lp_distance" => Measure::Vector(VectorMeasure::Lp(power(call)?)),
        name => named(name)?,
    };
    functions::is_known(&call.func).then_some(measure)
}

/// The measure with the name of its SQL function.
fn named(name: &str) -> Option<Measure> {
    let set = SetMeasure::named(name).map(Measure::Set);
    let edit = || EditMeasure::named(name).map(Measure::Edit);
    set.or_else(edit).or_else(|| VectorMeasure::named(name).map(Measure::Vector))
}

/// The `p` of `lp_distance(a, b, p)`, where it is a constant that makes a distance.
fn power(call: &ScalarFunction) -> Option<Power> {
    number(call.args.get(2)?).and_then(Power::new)
}

/// A literal as a number.
fn number(expr: &Expr) -> Option<f64> {
    let Expr::Literal(value, _) = expr else { return None };
    match value.cast_to(&DataType::Float64).ok()? {
        ScalarValue::Float64(number) => number,
        _ => None,
    }
}

/// Whether `expr` calls a measure that an index knows.
pub fn mentions_measure(expr: &Expr) -> bool {
    // the closure never fails
    expr.exists(|e| Ok(matches!(e, Expr::ScalarFunction(call) if measure(call).is_some()))).unwrap_or(false)
}

fn keys(call: &ScalarFunction, sides: Sides<'_>) -> Result<(Expr, Expr), String> {
    let [a, b, ..] = call.args.as_slice() else { return Err(LACKS_ARGUMENT.into()) };
    sides
        .order(a, b)
        .ok_or_else(|| "each argument of the measure has to read one side of the join, and not the same".into())
}

/// Whether the first argument of the measure reads the right input.
fn is_reversed(call: &ScalarFunction, sides: Sides<'_>) -> bool {
    call.args.first().and_then(|first| sides.of(first)) == Some(Side::Right)
}

/// Keys that become sets, and how.
fn sets(
    measure: SetMeasure,
    call: &ScalarFunction,
    (left, right): (Expr, Expr),
    sides: Sides<'_>,
) -> Result<(Expr, Expr, Tokenizer), String> {
    Ok(if let Some(tokenizer) = measure.descriptor().tokenizer {
        (left, right, tokenizer)
    } else if is_string(&left, sides)? {
        let place = 2 + measure.descriptor().parameters.len();
        (left, right, Tokenizer::QGrams { q: gram_length(call.args.get(place))?, pad: None })
    } else {
        tokenised(left, right)
    })
}

fn key_type(key: &Expr, sides: Sides<'_>) -> Result<DataType, String> {
    let schema = sides.left.join(sides.right).map_err(|e| e.to_string())?;
    key.get_type(&schema).map_err(|e| e.to_string())
}

fn is_string(key: &Expr, sides: Sides<'_>) -> Result<bool, String> {
    Ok(match &key_type(key, sides)? {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    })
}

const LACKS_ARGUMENT: &str = "the measure lacks an argument";

/// The constants that a call gives of the parameters of its measure.
fn constants(parameters: &[Parameter], call: &ScalarFunction) -> Result<Vec<f64>, String> {
    let constants = parameters.iter().zip(call.args.iter().skip(2)).map(|(parameter, argument)| {
        let number = number(argument).and_then(|number| parameter.checked(number));
        number.ok_or_else(|| format!("{} has to be a constant {}", parameter.name, parameter.range()))
    });
    constants.collect()
}

/// The `q` of `jaccard(a, b [, q])` over strings.
fn gram_length(q: Option<&Expr>) -> Result<usize, String> {
    match q {
        None => Ok(1),
        Some(q) => positive(q).ok_or_else(|| "q has to be a positive constant".into()),
    }
}

/// Both keys under the tokeniser that they share; the lists themselves where they share none.
fn tokenised(left: Expr, right: Expr) -> (Expr, Expr, Tokenizer) {
    match (tokenizer_call(&left), tokenizer_call(&right)) {
        (Some((l, a)), Some((r, b))) if a == b => (l, r, a),
        _ => (left, right, Tokenizer::Elements),
    }
}

/// `word_tokens(x)` or `qgrams(x, q [, pad])` as `x` and its tokeniser, also under a cast between list types.
fn tokenizer_call(key: &Expr) -> Option<(Expr, Tokenizer)> {
    match key {
        Expr::Alias(alias) => tokenizer_call(&alias.expr),
        Expr::Cast(Cast { expr, field }) if is_list_of_strings(field.data_type()) => tokenizer_call(expr),
        Expr::ScalarFunction(call) if functions::is_known(&call.func) => match (call.name(), call.args.as_slice()) {
            ("word_tokens", [s]) => Some((s.clone(), Tokenizer::Words)),
            ("qgrams", [s, q]) => Some((s.clone(), Tokenizer::QGrams { q: positive(q)?, pad: None })),
            ("qgrams", [s, q, pad]) => {
                Some((s.clone(), Tokenizer::QGrams { q: positive(q)?, pad: Some(character(pad)?) }))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_list_of_strings(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(f) | DataType::LargeList(f) if f.data_type().is_string())
}

fn positive(expr: &Expr) -> Option<usize> {
    let Expr::Literal(value, _) = expr else { return None };
    match value.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(q)) if q >= 1 => usize::try_from(q).ok(),
        _ => None,
    }
}

fn character(expr: &Expr) -> Option<char> {
    let Expr::Literal(value, _) = expr else { return None };
    let text = value.try_as_str()??;
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// `levenshtein_less_equal(a, b, k)` is the distance up to `k` and `k + 1` beyond: bounds that exclude `k + 1`
/// bound the distance itself.
fn levenshtein_less_equal_bounds(call: &ScalarFunction, bounds: Bounds) -> Result<Bounds, String> {
    let k = match call.args.get(2) {
        Some(Expr::Literal(value, _)) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(k))) if k >= 0 => k,
            _ => return Err("k has to be a constant of at least 0".into()),
        },
        _ => return Err("k has to be a constant of at least 0".into()),
    };
    if bounds.contains((k + 1) as f64) {
        return Err("every distance beyond k is accepted, so that nothing can be skipped".into());
    }
    Ok(bounds.and(Bounds::at_most(k as f64, true)))
}
