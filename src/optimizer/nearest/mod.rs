//! Joins with NEAREST: from the mark in an ON condition to the operator.

mod analyze;
mod filter;
mod node;
mod planner;

pub use analyze::NearestJoinRule;
pub use filter::NearestFilterRule;
pub use node::NearestJoinNode;
pub(super) use planner::plan;
