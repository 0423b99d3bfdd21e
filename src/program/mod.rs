//! The small program that an operator runs: how a join condition is entered, and what verifies it.
//!
//! [`Program`] is a single conjunction; [`Rules`] are an OR of them, planned by [`RulePlan`](similarity_engine::plan::RulePlan) into entries with an
//! [`ExecutionTree`](similarity_engine::plan::ExecutionTree) each.

mod compile;
mod conjunctive;
mod rules;

pub use compile::{Compiled, Declined, compile};
pub use conjunctive::Program;
pub use rules::{RuleAtom, Rules};
