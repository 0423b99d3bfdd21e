//! The way from a join of the logical plan to the operator that runs it.
//!
//! [`SimilarityJoinRule`] recognises a join with a similarity condition and puts a [`SimilarityJoinNode`] in its
//! place; [`SimilarityJoinPlanner`] analyses the node's condition again (later passes may have rewritten it) and
//! plans the operator. A join that is not recognised exactly stays what it was, and [`SimilarityQueryPlanner`]
//! tells EXPLAIN VERBOSE why.
//!
//! [`SubqueryConditionRule`] takes sub-queries out of the condition of SIMILARITY JOIN, where no rule would see them.
//!
//! A join with NEAREST becomes a [`NearestJoinNode`] before any of that, in the analyzer: [`NearestJoinRule`] says why.
//! So do DELETE and UPDATE, the last step of removing duplicates, by [`DmlRule`].

mod build_side;
mod declined;
mod dml;
mod independent;
mod indexes;
mod input_filters;
mod lateral;
mod links;
mod nearest;
mod nested_loop;
mod node;
mod pair_value;
mod physical;
mod planner;
mod query_planner;
mod row_numbers;
mod rule;
mod rule_strategy;
mod same_input;
mod subquery;
mod symmetric_rules;

pub use dml::{DmlNode, DmlRule};
pub use independent::Processes;
pub use indexes::IndexCatalog;
pub use links::{LinksNode, links};
pub use nearest::{IndexedTopKNode, NearestFilterRule, NearestJoinNode, NearestJoinRule};
pub use nested_loop::NestedLoopRule;
pub use node::SimilarityJoinNode;
pub use pair_value::PairValueRule;
pub use planner::SimilarityJoinPlanner;
pub use query_planner::SimilarityQueryPlanner;
pub use rule::SimilarityJoinRule;
pub use subquery::SubqueryConditionRule;
