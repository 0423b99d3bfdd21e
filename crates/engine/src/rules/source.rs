//! What an index of rules is built for.

use crate::atoms::AtomCondition;
use crate::plan::AtomKind;

/// What an index of rules is built for.
#[derive(Debug, Clone)]
pub struct RuleSource {
    /// How each atom is decided.
    pub conditions: Vec<AtomCondition>,
    /// What each atom is to the plan.
    pub kinds: Vec<AtomKind>,
    /// The atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
}
