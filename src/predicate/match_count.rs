//! What joins and rankings make of `match_count(c1, c2, ..)`.
//!
//! From `match_count(..) >= T` an OR of ANDs follows that indexes serve. The smallest sets of conditions whose weights
//! reach `T` are the clauses (T-occurrence: Li, Lu and Lu, 2008). A condition that no index serves is taken to hold for
//! every pair.
//!
//! A ranking counts the conditions themselves, where each of them is one comparison of places.

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::minimal_sets::{SLACK, clauses_reaching, is_served};
use super::sides::data_type;
use super::{Band, BandForm, Conjunction, EqualityKey, Sides};
use crate::functions::{self, MATCH_COUNT, weighted_conditions};

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

/// A condition that a ranking counts.
#[derive(Debug, Clone)]
pub enum Counted {
    /// Both sides have the same value.
    Equality(Box<EqualityKey>),
    /// A value of one side lies in a range of the other.
    Band(Box<Band>),
}

impl Counted {
    /// The condition as one comparison of both sides, if it is one.
    fn of(condition: &Expr, sides: Sides<'_>) -> Option<Self> {
        let Conjunction { mut keys, atoms, mut bands, residual, refused } = Conjunction::of(condition, sides);
        if !(atoms.is_empty() && residual.is_empty() && refused.is_empty()) {
            return None;
        }
        match (keys.len(), bands.len()) {
            (1, 0) => keys.pop().map(|key| Self::Equality(Box::new(key))),
            (0, 1) => bands.pop().map(|band| Self::Band(Box::new(band))),
            _ => None,
        }
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

/// The conditions that `score` counts, with their weights where it has any; none where `score` is no match count, or
/// one of a condition that is no single equality or range between both sides.
pub fn counted(score: &Expr, sides: Sides<'_>) -> Option<(Vec<Counted>, Option<Vec<f64>>)> {
    let call = match score {
        Expr::Alias(alias) => return counted(&alias.expr, sides),
        Expr::ScalarFunction(call) if call.name() == MATCH_COUNT && functions::is_known(&call.func) => call,
        _ => return None,
    };
    let types: Option<Vec<_>> = call.args.iter().map(|argument| data_type(argument, sides)).collect();
    let conditions = weighted_conditions(&call.args, &types?)?;
    let has_weights = conditions.len() < call.args.len();
    let counted: Option<Vec<_>> = conditions.iter().map(|(condition, _)| Counted::of(condition, sides)).collect();
    let weights = has_weights.then(|| conditions.iter().map(|(_, weight)| *weight).collect());
    Some((counted?, weights))
}
