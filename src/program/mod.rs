//! What an operator runs: how a join condition is entered, and what verifies it.
//!
//! [`ConjunctionPlan`] is a single conjunction. [`Rules`] are an OR of them, which the engine plans over the data, see
//! [`RulePlan`](similarity_engine::plan::RulePlan).

mod compile;
mod conjunctive;
mod rules;

pub use compile::{Claim, Compiled, Declined, compile};
pub use conjunctive::ConjunctionPlan;
pub use rules::{RuleAtom, Rules};
