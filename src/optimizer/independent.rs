//! Plans whose output partitions may each run in a process of its own.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};

use crate::exec::{
    JoinExec, JoinStrategy, LinksExec, MatchingDependencyBlockExec, NearestJoinExec, RowNumbersExec, SimilarityJoinExec,
};

/// `plan` without operators whose partitions count on each other, and without those that read several partitions in one
/// of their own.
pub(super) fn with_independent_partitions(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|operator| {
        let independent = if let Some(join) = operator.downcast_ref::<SimilarityJoinExec>() {
            independent(join)?
        } else if let Some(join) = operator.downcast_ref::<MatchingDependencyBlockExec>() {
            independent(join)?
        } else if let Some(join) = operator.downcast_ref::<NearestJoinExec>() {
            independent(join)?
        } else if operator.is::<LinksExec>() || operator.is::<RowNumbersExec>() {
            Some(with_inputs_in_one_partition(&operator)?)
        } else {
            None
        };
        Ok(independent.map_or_else(|| Transformed::no(operator), Transformed::yes))
    })
    .data()
}

fn independent<M: JoinStrategy>(join: &JoinExec<M>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    match join.needs_one_process() {
        Some(_) => Ok(Some(Arc::new(join.independent()?))),
        None => Ok(None),
    }
}

fn with_inputs_in_one_partition(operator: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let in_one = |input: &Arc<dyn ExecutionPlan>| match input.properties().output_partitioning().partition_count() {
        1 => Arc::clone(input),
        _ => Arc::new(CoalescePartitionsExec::new(Arc::clone(input))),
    };
    let inputs = operator.children().into_iter().map(in_one).collect();
    Arc::clone(operator).replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
