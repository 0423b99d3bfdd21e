//! What an index of rules is built for.

use std::sync::Arc;

use crate::accelerator::Accelerator;
use crate::atoms::AtomCondition;

/// What an index of rules is built for.
#[derive(Debug, Clone)]
pub struct RuleSource {
    /// How each atom is decided.
    pub conditions: Vec<AtomCondition>,
    /// The atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
    /// The device that was [sent columns](crate::accelerator::ColumnPrefetch) of the build side ahead.
    pub sent: Option<Arc<dyn Accelerator>>,
}

impl RuleSource {
    /// A source of which no device was sent anything.
    pub fn new(conditions: Vec<AtomCondition>, clauses: Vec<Vec<usize>>) -> Self {
        Self { conditions, clauses, sent: None }
    }
}
