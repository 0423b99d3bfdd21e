//! One attribute of a weighted similarity.

use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Case, Cast, Expr, lit};

use super::super::Sides;
use super::super::interval::Interval;
use super::super::minimal_sets::is_served;
use super::super::nulls::where_null;
use super::super::range::{constant, is_null, range};
use crate::functions::Weighting;

/// An attribute that may contribute to a weighted similarity.
pub(super) struct Attribute<'a> {
    pub similarity: &'a Expr,
    pub threshold: f64,
    pub weight: f64,
    /// The most that it contributes to the sum.
    pub most: f64,
    pub missing: WhenMissing,
}

/// In which pairs a similarity is missing.
pub(super) enum WhenMissing {
    Never,
    Where(Expr),
    Unknown,
}

impl WhenMissing {
    /// What the form of a similarity says.
    fn of(similarity: &Expr, sides: Sides<'_>) -> Self {
        // NaN and infinity are missing, too
        let is_finite = range(similarity, sides).is_some_and(Interval::is_finite);
        match where_null(similarity, sides).filter(|_| is_finite) {
            None => Self::Unknown,
            Some(None) => Self::Never,
            Some(Some(condition)) => Self::Where(condition),
        }
    }
}

impl Attribute<'_> {
    /// What an index serves of the condition that the attribute contributes and is at least `bound`.
    pub fn served(&self, bound: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
        let bound = bound.max(self.threshold);
        let Some((when, then)) = conditional(self.similarity) else {
            return Some(at_least_similar(self.similarity.clone(), bound)).filter(|c| is_served(c, sides, most));
        };
        let parts = [when, at_least_similar(then, bound)];
        conjunction(parts.into_iter().filter(|part| is_served(part, sides, most)))
    }
}

/// `similarity >= bound`; what contributes is more than 0.
fn at_least_similar(similarity: Expr, bound: f64) -> Expr {
    if bound > 0.0 { similarity.gt_eq(lit(bound)) } else { similarity.gt(lit(0.0)) }
}

/// `CASE WHEN c THEN s END` as `c` and `s`, where what stands for other pairs contributes nothing.
fn conditional(similarity: &Expr) -> Option<(Expr, Expr)> {
    match similarity {
        Expr::Alias(alias) => conditional(&alias.expr),
        Expr::Cast(Cast { expr, field }) => {
            let (when, then) = conditional(expr)?;
            Some((when, Expr::Cast(Cast { expr: Box::new(then), field: field.clone() })))
        }
        Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
            let [(when, then)] = when_then_expr.as_slice() else { return None };
            let nothing = |value: &Expr| is_null(value) || constant(value).is_some_and(|value| value <= 0.0);
            let contributes = else_expr.as_ref().is_none_or(|value| nothing(value));
            contributes.then(|| (when.as_ref().clone(), then.as_ref().clone()))
        }
        _ => None,
    }
}

/// Attributes of a call, the most important first.
pub(super) fn attributes<'a>(call: &'a ScalarFunction, weighting: &Weighting, sides: Sides<'_>) -> Vec<Attribute<'a>> {
    let all = call.args.iter().step_by(3).zip(&weighting.attributes).filter(|(_, constants)| constants.weight > 0.0);
    let attributes = all.map(|(similarity, constants)| {
        let highest = range(similarity, sides).map_or(f64::INFINITY, |values| values.high.max(0.0));
        let (threshold, weight) = (constants.threshold, constants.weight);
        let missing = WhenMissing::of(similarity, sides);
        Attribute { similarity, threshold, weight, most: weight * highest, missing }
    });
    let mut attributes: Vec<_> = attributes.collect();
    attributes.sort_by(|one, other| other.most.total_cmp(&one.most));
    attributes
}
