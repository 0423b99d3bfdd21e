//! What joins and rankings make of `match_count(c1, c2, ..)`.
//!
//! From `match_count(..) >= T` an OR of ANDs follows that indexes serve. The smallest sets of conditions whose weights
//! reach `T` are the clauses (T-occurrence: Li, Lu and Lu, 2008). A condition that no index serves is taken to hold for
//! every pair.
//!
//! A ranking counts conditions that are one comparison of places. An index finds the pairs of others, and what is left
//! is bounded.

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::disjunction;

use super::minimal_sets::{SLACK, clauses_reaching, is_served};
use super::sides::data_type;
use super::{Band, BandForm, Conjunction, EqualityKey, Sides};
use crate::functions::{self, MATCH_COUNT, weighted_conditions};

/// More conditions than that are left alone.
const MOST_CONDITIONS: usize = 1000;

/// Whole numbers up to this one are exact in double precision.
const MOST_EXACT: f64 = 9e15;

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

/// A condition that a ranking counts.
#[derive(Debug, Clone)]
pub enum Counted {
    /// Both sides have the same value.
    Equality(Box<EqualityKey>),
    /// A value of one side lies in a range of the other.
    Band(Box<Band>),
}

impl Counted {
    /// One comparison of both sides that holds wherever the condition does, and whether it is all of the condition.
    fn of(condition: &Expr, sides: Sides<'_>) -> Option<(Self, bool)> {
        let Conjunction { mut keys, atoms, mut bands, residual, refused } = Conjunction::of(condition, sides);
        let is_all = keys.len() + bands.len() == 1 && atoms.is_empty() && residual.is_empty() && refused.is_empty();
        let equality = keys.pop().map(|key| Self::Equality(Box::new(key)));
        let counted = equality.or_else(|| bands.pop().map(|band| Self::Band(Box::new(band))))?;
        Some((counted, is_all))
    }
}

impl Counted {
    /// The value of the right side, or the low end of its interval.
    pub fn into_right(self) -> Expr {
        match self {
            Self::Equality(key) => key.right,
            Self::Band(band) => match band.form {
                BandForm::Difference { right, .. } => right,
                BandForm::Between { value_is_left: false, value, .. } => value,
                BandForm::Between { low, .. } => low.value,
            },
        }
    }
}

/// What a ranking by a match count counts.
#[derive(Debug)]
pub struct CountedScore {
    /// Conditions that are one comparison of both sides each, in order.
    pub conditions: Vec<Counted>,
    /// The weight of each, where the match count has any.
    pub weights: Option<Vec<f64>>,
    /// Greatest excess of the score over what is counted. `None` where both are the same.
    pub excess: Option<f64>,
    /// Other conditions that indexes serve.
    pub found: Option<FoundConditions>,
}

/// Conditions that are not counted, but whose pairs an index finds.
#[derive(Debug)]
pub struct FoundConditions {
    /// One of them holds.
    pub any: Expr,
    /// Greatest excess of the score over what is counted, for pairs of which none holds.
    pub excess: f64,
}

/// What is counted for `score`, with up to `most` clauses for what else is found. There is nothing where it is no match
/// count, or where conditions that no index serves add as much as those that are counted.
pub fn counted(score: &Expr, sides: Sides<'_>, most: usize) -> Option<CountedScore> {
    let call = match score {
        Expr::Alias(alias) => return counted(&alias.expr, sides, most),
        Expr::ScalarFunction(call) if call.name() == MATCH_COUNT && functions::is_known(&call.func) => call,
        _ => return None,
    };
    let types: Option<Vec<_>> = call.args.iter().map(|argument| data_type(argument, sides)).collect();
    let all = weighted_conditions(&call.args, &types?)?;
    let has_weights = all.len() < call.args.len();
    let (mut conditions, mut weights, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let (mut is_all, mut of_found, mut of_others) = (true, 0.0, 0.0);
    for (condition, weight) in &all {
        match Counted::of(condition, sides) {
            // a condition that is counted in part adds no more than its part
            Some((counted, is_condition)) => {
                is_all &= is_condition;
                conditions.push(counted);
                weights.push(*weight);
            }
            None if is_served(condition, sides, most) => {
                found.push(condition.clone());
                of_found += weight;
            }
            None => of_others += weight,
        }
    }
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    // sums of whole numbers are exact; so are those of the same numbers in the same order
    let is_exact = total < MOST_EXACT && all.iter().all(|(_, weight)| weight.fract() == 0.0);
    let with_slack = |sum: f64| if is_exact || sum == 0.0 { sum } else { sum + SLACK * total };
    let is_all = is_all && conditions.len() == all.len();
    let of_counted: f64 = weights.iter().sum();
    if !is_all && of_others >= of_counted || !(is_all || is_exact || all.len() <= MOST_CONDITIONS) {
        return None;
    }
    let any = disjunction(found);
    Some(CountedScore {
        conditions,
        weights: has_weights.then_some(weights),
        excess: (!is_all).then(|| with_slack(of_found + of_others)),
        found: any.map(|any| FoundConditions { any, excess: with_slack(of_others) }),
    })
}
