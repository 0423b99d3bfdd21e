//! Joins with NEAREST: from the mark in an ON condition to the operator.

mod analyze;
mod filter;
mod indexed_top_k;
mod node;
mod planner;

pub use analyze::NearestJoinRule;
pub use filter::NearestFilterRule;
pub use indexed_top_k::IndexedTopKNode;
pub(super) use indexed_top_k::with_indexed_top_k;
pub use node::NearestJoinNode;
pub(super) use planner::plan;
