//! How an OR of ANDs is run: [`RulePlan`] groups its clauses into entries, with an [`ExecutionTree`] each.

pub mod cost;
mod display;
mod rule_plan;
mod tree;

pub use display::DisplayPlan;
pub use rule_plan::{AssumedStatistics, AtomKind, Entry, EntryGroup, IN_BAND, Prefilter, RulePlan, Statistics};
pub use tree::{AtomEstimate, ExecutionTree, Reading, Step};
