//! The program that runs a join condition.

use datafusion::logical_expr::Expr;

use super::conjunctive::ConjunctionPlan;
use super::rules::{RuleAtom, Rules};
use crate::predicate::{Conjunction, NormalForm, Refusal, Sides, TooManyClauses, mentions_measure, with_clauses};

/// What runs a condition.
#[derive(Debug, Clone)]
pub enum Compiled {
    /// An AND that is entered by one similarity condition.
    Conjunction(Box<ConjunctionPlan>),
    /// An OR of ANDs.
    Rules(Rules),
}

/// Why a condition is left to stock DataFusion.
#[derive(Debug, Clone)]
pub enum Declined {
    /// Conditions over a measure that no index serves.
    Refused(Vec<Refusal>),
    /// More clauses than the session allows.
    TooManyClauses(TooManyClauses),
    /// No similarity condition or band that every pair has to satisfy, and no OR with an index for its clauses.
    NoSimilarity,
}

/// What is taken from stock's hash join, which serves the equalities that a whole condition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// What has a similarity.
    Similar,
    /// Clauses with equalities of their own, too. One table joined with itself is searched for duplicates, and many of
    /// its rows agree in what all clauses ask.
    OneTable,
    /// All that an index serves: the join is under the contract of SIMILARITY JOIN.
    Contract,
}

/// The program of `condition`, which may have up to `most_clauses` clauses, where the `claim` covers it.
///
/// # Errors
/// Where no index serves it, or stock DataFusion does as well.
pub fn compile(condition: &Expr, sides: Sides<'_>, most_clauses: usize, claim: Claim) -> Result<Compiled, Declined> {
    // fewer clauses of a weighted similarity are weaker ones, but leave room for those of other conditions
    let mut most = most_clauses;
    while most > 0
        && let Some(extended) = with_clauses(condition, sides, most)
    {
        match compile_as_written(&extended, sides, most_clauses, claim) {
            Err(Declined::TooManyClauses(_)) => most /= 2,
            Err(_) => break,
            compiled => return compiled,
        }
    }
    compile_as_written(condition, sides, most_clauses, claim)
}

/// The program of `condition` by what it says itself.
fn compile_as_written(
    condition: &Expr,
    sides: Sides<'_>,
    most_clauses: usize,
    claim: Claim,
) -> Result<Compiled, Declined> {
    let parts = Conjunction::of(condition, sides);
    let hashed = !parts.keys.is_empty();
    let refused = parts.refused.clone();
    let declined = || if refused.is_empty() { Declined::NoSimilarity } else { Declined::Refused(refused.clone()) };
    if is_served(&parts, claim) {
        return Ok(of_conjunction(parts));
    }
    let form = NormalForm::of(condition, sides, most_clauses).map_err(Declined::TooManyClauses)?;
    if form.clauses.is_empty() {
        let whole = form.common.iter().cloned().reduce(Expr::and).ok_or_else(declined)?;
        let parts = Conjunction::of(&whole, sides);
        return if is_served(&parts, claim) { Ok(of_conjunction(parts)) } else { Err(declined()) };
    }
    let rules = Rules::of(&form, sides);
    let similar = rules.atoms.iter().any(|atom| matches!(atom, RuleAtom::Similarity(_)));
    // an equality that all clauses share makes it a hash join, and a clause without an index a nested loop, which are
    // as good where nothing is similar and few rows share that equality
    let is_left =
        || hashed && (claim == Claim::Similar || !form.clauses.iter().all(|clause| has_equality(clause, sides)));
    if similar || claim == Claim::Contract || (!is_left() && !rules.verifies_all_pairs() && rules.has_entry()) {
        Ok(Compiled::Rules(rules))
    } else {
        Err(declined())
    }
}

/// Whether an index serves a conjunction. A band within equalities is left to stock's hash join.
fn is_served(parts: &Conjunction, claim: Claim) -> bool {
    !parts.atoms.is_empty() || (!parts.bands.is_empty() && (claim == Claim::Contract || parts.keys.is_empty()))
}

/// Whether some part of a clause is an equality of both sides.
fn has_equality(clause: &[Expr], sides: Sides<'_>) -> bool {
    clause.iter().any(|part| !Conjunction::of(part, sides).keys.is_empty())
}

/// Program of a conjunction. With several indexed conditions the data says which is the best entry, so that they are a
/// rule of one clause.
fn of_conjunction(parts: Conjunction) -> Compiled {
    match ConjunctionPlan::of(parts.clone()) {
        Some(program) => Compiled::Conjunction(Box::new(program)),
        None => Compiled::Rules(Rules::of_one(parts)),
    }
}

impl Declined {
    /// The reason, as a user reads it.
    pub fn explain(&self, condition: &Expr) -> String {
        match self {
            Self::Refused(refused) => refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            Self::TooManyClauses(TooManyClauses { most }) => format!(
                "{}: as an OR of ANDs it has more than similarity.max_clauses = {most} clauses",
                condition.human_display()
            ),
            Self::NoSimilarity if mentions_measure(condition) => format!(
                "{}: no similarity condition in it excludes any pair, whatever else holds",
                condition.human_display()
            ),
            Self::NoSimilarity => format!(
                "{}: no condition compares a measure of both sides with a constant, as in `jaccard(a.x, b.x) >= 0.8`, or \
                 bounds a difference, as in `abs(a.x - b.x) <= 5`",
                condition.human_display()
            ),
        }
    }
}
