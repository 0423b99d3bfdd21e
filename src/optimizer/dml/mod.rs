//! DELETE and UPDATE: from the statement as it was parsed to the operator.
//!
//! DataFusion reads the conditions of a statement off its optimized plan, where a sub-query has become a join, and a
//! condition that never holds an empty relation: what it finds no condition of, it changes whole. It also has the table
//! changed while the statement is planned, so that EXPLAIN changes it too. Here the conditions are read before any
//! rule has rewritten them, and the table is changed when the plan is executed.

mod analyze;
mod node;
mod planner;

pub use analyze::DmlRule;
pub use node::DmlNode;
pub(super) use planner::plan;
