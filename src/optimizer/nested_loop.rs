//! Nested loops on all cores.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, replace_children_if_necessary};

use crate::config::SimilarityOptions;
use crate::exec::{SmallBatchesExec, most_rows};

/// Nested loops of fewer pairs stay as they are.
const WORTH_SHARING: usize = 1 << 20;

/// The least rows of a batch: a nested loop takes several left rows at once for fewer right rows than a tenth of a
/// batch of DataFusion.
const LEAST_ROWS: usize = 128;

/// How many batches each core gets, so that none waits long for the last one of another.
const BATCHES_A_CORE: usize = 8;

/// Deals the right rows of each nested loop to all cores, in small batches.
///
/// Stock DataFusion runs a nested loop on as many cores as its right input has partitions with rows. A table of one
/// file, or made by one, has all rows in one of them.
#[derive(Debug, Default)]
pub struct NestedLoopRule;

impl PhysicalOptimizerRule for NestedLoopRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let (options, cores) = (SimilarityOptions::of(config), config.execution.target_partitions);
        // processes of their own would each deal out all rows
        if !options.enabled || options.independent_partitions || cores < 2 {
            return Ok(plan);
        }
        plan.transform_up(|operator| match operator.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => shared(join, &operator, config),
            None => Ok(Transformed::no(operator)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "nested_loop"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A nested loop whose right rows are dealt to all cores; in one partition, if it was in one before.
fn shared(
    join: &NestedLoopJoinExec,
    operator: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let cores = config.execution.target_partitions;
    let (left, right) = (most_rows(join.left())?, most_rows(join.right())?);
    let pairs = left.zip(right).map(|(left, right)| left.saturating_mul(right));
    let is_dealt = |input: &Arc<dyn ExecutionPlan>| {
        input.downcast_ref::<RepartitionExec>().is_some_and(|dealt| dealt.input().is::<SmallBatchesExec>())
    };
    if pairs.is_some_and(|pairs| pairs < WORTH_SHARING) || is_dealt(join.right()) {
        return Ok(Transformed::no(Arc::clone(operator)));
    }
    let rows = right.map_or(0, |rows| rows / (cores * BATCHES_A_CORE));
    let rows = rows.clamp(LEAST_ROWS, config.execution.batch_size.get().max(LEAST_ROWS));
    let batches = Arc::new(SmallBatchesExec::new(rows, Arc::clone(join.right())));
    let right = Arc::new(RepartitionExec::try_new(batches, Partitioning::RoundRobinBatch(cores))?);
    let left = Arc::clone(join.left());
    let dealt = replace_children_if_necessary(Arc::clone(operator), vec![left, right])?;
    let was_one = operator.properties().partitioning.partition_count() == 1;
    Ok(Transformed::yes(if was_one { Arc::new(CoalescePartitionsExec::new(dealt)) } else { dealt }))
}
