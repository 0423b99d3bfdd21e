//! The optimizer rule: a join with a similarity condition becomes a [`SimilarityJoinNode`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, Extension, Join, LogicalPlan};
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::declined::{JoinCondition, why_declined};
use super::input_filters::with_filtered_inputs;
use super::node::SimilarityJoinNode;
use crate::config::SimilarityOptions;
use crate::functions::{contract, recalled, without_recall};

/// Recognises joins with a similarity condition. To be appended after DataFusion's own rules.
///
/// Appended, because before `push_down_filter` the condition of an inner join may stand in a filter above it.
/// What it declines stays as it was. A join under the SIMILARITY JOIN contract that it declines keeps its mark,
/// which [`SimilarityQueryPlanner`](super::SimilarityQueryPlanner) turns into an error that names the condition.
#[derive(Debug, Default)]
pub struct SimilarityJoinRule;

impl OptimizerRule for SimilarityJoinRule {
    fn name(&self) -> &str {
        "similarity_join"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let options = SimilarityOptions::of(&config.options());
        if !options.enabled {
            return with_keys(plan.map_expressions(without_marks)?, config);
        }
        let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
        let condition = JoinCondition::of(&join);
        if why_declined(&join, &condition, options.max_clauses).is_some() {
            return with_keys(LogicalPlan::Join(join).map_expressions(without_recall)?, config);
        }
        let JoinCondition { whole, contract, recall } = condition;
        let Join { left, right, join_type, .. } = join;
        let (left, right, whole) = if contract {
            with_filtered_inputs(Arc::unwrap_or_clone(left), Arc::unwrap_or_clone(right), join_type, &whole)?
        } else {
            (Arc::unwrap_or_clone(left), Arc::unwrap_or_clone(right), whole)
        };
        let node = SimilarityJoinNode::try_new(left, right, join_type, whole, contract, recall)?;
        Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
    }
}

/// A join whose condition has come out of a mark, with the equalities in it as keys, which DataFusion could not see
/// before.
fn with_keys(plan: Transformed<LogicalPlan>, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan.transformed {
        true => Ok(Transformed::yes(ExtractEquijoinPredicate::new().rewrite(plan.data, config)?.data)),
        false => Ok(plan),
    }
}

/// Condition without the marks of SIMILARITY JOIN and of recall, for sessions that switch the acceleration off:
/// SIMILARITY JOIN is the plain join there. The mark of a condition over one side alone may have been pushed below the
/// join.
fn without_marks(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_down(|e| {
        Ok(match contract::marked(&e).or_else(|| recalled(&e).map(|(condition, _)| condition)) {
            Some(condition) => Transformed::yes(condition.clone()),
            None => Transformed::no(e),
        })
    })
}
