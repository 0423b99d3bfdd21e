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

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, Operator};

use super::band::data_type;
use super::interval::Interval;
use super::inverse::within;
use super::nulls::never_null;
use super::range::{hull, is_null, range};
use super::{Atom, Condition, Sides, lengths};

/// What follows for a measure of one key of each side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub left: Expr,
    pub right: Expr,
    pub similarity: Condition,
}

/// What follows, all of it; `None`, where the condition holds for no pair.
pub(super) type Facts = Option<Vec<Fact>>;

/// Nothing follows.
pub(super) const NOTHING: Facts = Some(Vec::new());

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

/// What both say.
pub(super) fn and(one: Facts, other: Facts) -> Facts {
    let mut all = one?;
    for fact in other? {
        match all.iter_mut().find_map(|known| Some((known.both(&fact)?, known))) {
            Some((both, known)) => *known = both,
            None => all.push(fact),
        }
    }
    Some(all)
}

/// What either says.
pub(super) fn or(one: Facts, other: Facts) -> Facts {
    match (one, other) {
        (None, facts) | (facts, None) => facts,
        (Some(one), Some(other)) => {
            Some(one.iter().filter_map(|fact| other.iter().find_map(|second| fact.either(second))).collect())
        }
    }
}

impl Fact {
    fn both(&self, other: &Self) -> Option<Self> {
        self.merged(other, Condition::and)
    }

    fn either(&self, other: &Self) -> Option<Self> {
        self.merged(other, Condition::or)
    }

    fn merged(&self, other: &Self, merge: impl Fn(Condition, Condition) -> Option<Condition>) -> Option<Self> {
        let same_keys = self.left == other.left && self.right == other.right;
        let similarity = if same_keys { merge(self.similarity, other.similarity) } else { None }?;
        Some(Self { similarity, ..self.clone() })
    }
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
pub(super) fn any_branch(case: &Case, sides: Sides<'_>, wanted: impl Fn(&Expr) -> Facts) -> Facts {
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
