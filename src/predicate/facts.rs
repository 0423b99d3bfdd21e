//! What follows from a condition: similarity conditions that hold wherever it does.

use datafusion::logical_expr::Expr;

use super::Condition;

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
