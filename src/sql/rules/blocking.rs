//! What an alternative asks of two rows before it compares them by a measure, and what it asks of one row alone.

use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use similarity_measures::{EditMeasure, SetMeasure, VectorMeasure};

use super::build::call;
use super::calls::{arguments, plain_arguments};
use super::clauses::{bare, operands};
use super::qualifiers::Sides;
use super::rule::Rule;
use super::scores::score;
use crate::functions;
use crate::sql::visit::for_each_expr;

/// What an alternative asks of two rows and of one row, as texts over the rows `a` and `b`.
#[derive(Debug)]
pub struct Blocking {
    /// The parts that have to hold together and compute no measure; none where every part computes one.
    pub pairs: Option<String>,
    /// Conditions over one row, `a` and then `b`. A row that fails one of its own matches no row.
    pub rows: [Vec<String>; 2],
    /// What has to be equal of the rows `a` and `b`.
    pub equal: Vec<[String; 2]>,
    /// What is compared by a measure of sets.
    pub sets: Vec<SetPart>,
}

/// A part that compares sets with a constant.
#[derive(Debug)]
pub struct SetPart {
    /// The part.
    pub sql: String,
    /// The lists or texts of the rows `a` and `b`.
    pub sides: [String; 2],
    /// The length of the q-grams of texts, where the part says it.
    pub q: Option<String>,
}

impl Blocking {
    pub(super) fn of(clause: &Expr, rule: &Rule, state: &SessionState) -> Self {
        let mut parts = Vec::new();
        conjuncts(clause, &mut parts);
        let pairs: Vec<String> =
            parts.iter().filter(|part| !measures(part, rule, state)).map(|part| format!("({part})")).collect();
        let mut rows = [Vec::new(), Vec::new()];
        for part in &parts {
            of_one_row(bare(part), rule, state, &mut rows);
        }
        Self {
            pairs: (!pairs.is_empty()).then(|| pairs.join(" AND ")),
            rows,
            equal: parts.iter().filter_map(|part| equal(bare(part), rule)).collect(),
            sets: parts.iter().filter_map(|part| set(bare(part), rule, state)).collect(),
        }
    }
}

/// The operands of all ANDs at the top of `expr`, in order.
fn conjuncts<'a>(expr: &'a Expr, parts: &mut Vec<&'a Expr>) {
    match operands(bare(expr), &BinaryOperator::And).as_slice() {
        [part] => parts.push(part),
        several => several.iter().for_each(|part| conjuncts(part, parts)),
    }
}

/// The sides of an equality between the two rows.
fn equal(part: &Expr, rule: &Rule) -> Option<[String; 2]> {
    match part {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => of_both(left, right, rule),
        _ => None,
    }
}

/// Two expressions over one row each, that of `a` first.
fn of_both(one: &Expr, other: &Expr, rule: &Rule) -> Option<[String; 2]> {
    match (rule.sides(one), rule.sides(other)) {
        (Sides::LEFT, Sides::RIGHT) => Some([one.to_string(), other.to_string()]),
        (Sides::RIGHT, Sides::LEFT) => Some([other.to_string(), one.to_string()]),
        _ => None,
    }
}

fn set(part: &Expr, rule: &Rule, state: &SessionState) -> Option<SetPart> {
    let measure = score(part, rule)?;
    SetMeasure::named(&known(measure, state)?)?;
    let Expr::Function(function) = measure else { return None };
    let (one, other) = arguments(measure)?;
    let more = plain_arguments(function)?;
    let q = more.get(2).map(|q| q.to_string());
    Some(SetPart { sql: part.to_string(), sides: of_both(one, other, rule)?, q })
}

/// Whether `part` compares the two rows by a measure.
fn measures(part: &Expr, rule: &Rule, state: &SessionState) -> bool {
    let mut found = false;
    for_each_expr(&mut part.clone(), |expr| {
        found |= rule.sides(expr) == Sides::BOTH && known(expr, state).is_some_and(|name| name != functions::NEIGHBORS);
    });
    found
}

/// The name of the function that `expr` calls, if it is one of ours or a measure of DataFusion's.
fn known(expr: &Expr, state: &SessionState) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let name = function.name.to_string().to_lowercase();
    state.scalar_functions().get(&name).is_some_and(|known| functions::is_known(known)).then_some(name)
}

/// Adds what `part` asks of either row.
fn of_one_row(part: &Expr, rule: &Rule, state: &SessionState, rows: &mut [Vec<String>; 2]) {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    // an expression, and the condition on the row that it reads alone
    let mut asked: Vec<(&Expr, String)> = vec![(part, part.to_string())];
    let has_value = |expr: &Expr| format!("({expr}) IS NOT NULL");
    // measures have no value where an argument has none
    let strict = |name: &String| {
        SetMeasure::named(name).is_some() || EditMeasure::named(name).is_some() || VectorMeasure::named(name).is_some()
    };
    let measure = |expr: &Expr| known(expr, state).filter(strict);
    match part {
        Expr::BinaryOp { left, op: op @ (Eq | NotEq | Lt | LtEq | Gt | GtEq), right } => {
            let sides = [(bare(left), [Gt, GtEq]), (bare(right), [Lt, LtEq])];
            for (at, (side, least)) in sides.into_iter().enumerate() {
                asked.push((side, has_value(side)));
                let (Some(name), Some((one, other))) = (measure(side), arguments(side)) else { continue };
                for expr in [one, other] {
                    asked.push((expr, has_value(expr)));
                    // no set is more similar than the set itself
                    let bound = if at == 0 { right } else { left };
                    let of_bound = rule.sides(bound);
                    let alone = of_bound == Sides::NONE || of_bound == rule.sides(expr);
                    if alone && SetMeasure::named(&name).is_some() && least.contains(op) {
                        let with_itself = with_arguments(side, expr);
                        let condition = match at {
                            0 => format!("{with_itself} {op} {bound}"),
                            _ => format!("{bound} {op} {with_itself}"),
                        };
                        asked.push((expr, condition));
                    }
                }
            }
        }
        Expr::Function(_) if known(part, state).is_some_and(|name| name == functions::NEIGHBORS) => {
            let ends = arguments(part).map(|(one, other)| [one, other]);
            asked.extend(ends.into_iter().flatten().map(|expr| (expr, has_value(expr))));
        }
        _ => {}
    }
    for (expr, condition) in asked {
        match rule.sides(expr) {
            Sides::LEFT => rows[0].push(condition),
            Sides::RIGHT => rows[1].push(condition),
            _ => {}
        }
    }
}

/// The call with `expr` as its first two arguments.
fn with_arguments(function: &Expr, expr: &Expr) -> Expr {
    let Expr::Function(of) = function else { return function.clone() };
    let more = plain_arguments(of).unwrap_or_default().into_iter().skip(2).cloned();
    call(&of.name.to_string(), [expr.clone(), expr.clone()].into_iter().chain(more))
}
