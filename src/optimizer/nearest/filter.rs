//! Conditions over the left input of a join with NEAREST, above it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::node::NearestJoinNode;
use crate::predicate::Side;

/// Moves conditions over the left input alone below a join with NEAREST: a left row that is not wanted need not be
/// joined.
///
/// DataFusion's own push-down would move a condition into both inputs or into none, and the right one is what is
/// ranked.
#[derive(Debug, Default)]
pub struct NearestFilterRule;

impl OptimizerRule for NearestFilterRule {
    fn name(&self) -> &str {
        "nearest_filter"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(extension) = filter.input.as_ref() else { return Ok(Transformed::no(plan)) };
        let Some(join) = extension.node.as_any().downcast_ref::<NearestJoinNode>() else {
            return Ok(Transformed::no(plan));
        };
        let of_left = |condition: &Expr| join.sides().of(condition) == Some(Side::Left) && !condition.is_volatile();
        let conditions = split_conjunction(&filter.predicate).into_iter().cloned();
        let (moved, kept): (Vec<_>, Vec<_>) = conditions.partition(of_left);
        let Some(moved) = conjunction(moved) else { return Ok(Transformed::no(plan)) };
        let left = LogicalPlan::Filter(Filter::try_new(moved, Arc::new(join.left().clone()))?);
        let join = LogicalPlan::Extension(Extension { node: Arc::new(join.with_left(left)?) });
        Ok(Transformed::yes(match conjunction(kept) {
            Some(kept) => LogicalPlan::Filter(Filter::try_new(kept, Arc::new(join))?),
            None => join,
        }))
    }
}
