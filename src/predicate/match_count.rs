//! What follows from `match_count(c1, c2, ..) >= T`: an OR of ANDs that indexes serve.
//!
//! The smallest sets of conditions whose weights reach `T` are the clauses (T-occurrence: Li, Lu and Lu, 2008). A
//! condition that no index serves is taken to hold for every pair.

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::Sides;
use super::minimal_sets::{SLACK, clauses_reaching, is_served};
use super::sides::data_type;
use crate::functions::weighted_conditions;

/// More conditions than that are left alone.
const MOST_CONDITIONS: usize = 1000;

/// The clauses that follow from a count of at least `least`.
pub(super) fn clauses(call: &ScalarFunction, least: f64, sides: Sides<'_>, most: usize) -> Option<Expr> {
    let types: Option<Vec<_>> = call.args.iter().map(|argument| data_type(argument, sides)).collect();
    let mut conditions = weighted_conditions(&call.args, &types?)?;
    if conditions.len() > MOST_CONDITIONS {
        return None;
    }
    conditions.retain(|(_, weight)| *weight > 0.0);
    conditions.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let total: f64 = conditions.iter().map(|(_, weight)| weight).sum();
    let needed = least - SLACK * (total + least);
    let conditions = conditions.into_iter().map(|(condition, weight)| {
        let served = is_served(&condition, sides, most);
        (weight, served.then_some(condition))
    });
    clauses_reaching(conditions.collect(), needed, most)
}
