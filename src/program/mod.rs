//! The small program that an operator runs: how a join condition is entered, and what verifies it.
//!
//! [`Program`] is a single conjunction; [`Rules`] are an OR of them, planned by [`RulePlan`] into entries with an
//! [`ExecutionTree`] each.

mod compile;
mod conjunctive;
pub mod cost;
mod display;
mod plan;
mod rules;
mod tree;

pub use compile::{Compiled, Declined, compile};
pub use conjunctive::Program;
pub use plan::{AssumedStatistics, AtomKind, Entry, EntryGroup, IN_BAND, RulePlan, Statistics};
pub use rules::{RuleAtom, Rules};
pub use tree::{AtomEstimate, ExecutionTree, Reading, Step};
