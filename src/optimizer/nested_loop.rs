//! Nested loops on all cores.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::{AcrossPartitions, ConstExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::config::SimilarityOptions;
use crate::exec::{DealtLoopExec, most_rows};

/// Nested loops of fewer pairs stay as they are.
const WORTH_DEALING: usize = 1 << 20;

/// The least rows of a batch. For each batch DataFusion's nested loop takes as many left rows as make 8,192 pairs.
const LEAST_ROWS: usize = 128;

/// How many batches each core gets, so that none waits long for the last one of another.
const BATCHES_A_CORE: usize = 8;

/// Deals the right rows of nested loops to all cores, in small batches.
///
/// Stock DataFusion runs a nested loop on as many cores as its right input has partitions with rows. The table of a
/// small file, or one that a statement has made of it, has all rows in one of them.
#[derive(Debug, Default)]
pub struct NestedLoopRule;

impl PhysicalOptimizerRule for NestedLoopRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let (options, cores) = (SimilarityOptions::of(config), config.execution.target_partitions);
        // of several processes, each would deal out all rows
        let in_one_process = !options.independent_partitions;
        if !options.enabled || !in_one_process || cores < 2 || !config.optimizer.enable_round_robin_repartition {
            return Ok(plan);
        }
        plan.transform_down(|operator| {
            // each step of a recursion would deal its few rows
            if operator.is::<RecursiveQueryExec>() {
                return Ok(Transformed::new(operator, false, TreeNodeRecursion::Jump));
            }
            match operator.downcast_ref::<NestedLoopJoinExec>() {
                Some(join) => dealt(join, &operator, config),
                None => Ok(Transformed::no(operator)),
            }
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

/// A nested loop whose right rows are dealt to all cores, where that may pay and nobody counts on how they are divided.
fn dealt(
    join: &NestedLoopJoinExec,
    operator: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let (left, right) = (most_rows(join.left())?, most_rows(join.right())?);
    let pairs = left.zip(right).map(|(left, right)| left.saturating_mul(right));
    let partitioning = &join.right().properties().partitioning;
    // rows of a UNION may have another constant in each partition, on which sorts above count
    let known = operator.properties().equivalence_properties();
    let is_uniform = |constant: &ConstExpr| matches!(constant.across_partitions, AcrossPartitions::Uniform(_));
    let is_divided_by_values = partitioning.partition_count() > 1
        && (!matches!(partitioning, Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_))
            || !known.constants().iter().all(is_uniform))
        || operator.properties().output_ordering().is_some();
    let is_little = pairs.is_some_and(|pairs| pairs < WORTH_DEALING) || right.is_some_and(|rows| rows <= LEAST_ROWS);
    if is_little || is_divided_by_values || DealtLoopExec::has_dealt_rows(join) {
        return Ok(Transformed::no(Arc::clone(operator)));
    }
    let cores = config.execution.target_partitions;
    let rows = right.map_or(0, |rows| rows / (cores * BATCHES_A_CORE));
    let rows = rows.clamp(LEAST_ROWS, config.execution.batch_size.get().max(LEAST_ROWS));
    Ok(Transformed::yes(Arc::new(DealtLoopExec::try_new(operator, cores, rows)?)))
}
