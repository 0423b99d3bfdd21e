//! The operator that runs a nested loop on all cores where memory has no limit.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
    replace_children_if_necessary,
};
use futures::StreamExt;

use super::small_batches::SmallBatchesExec;

/// Runs a nested loop whose right rows are dealt to all cores, in the partitions that the loop has without that.
///
/// Where the memory pool has a limit, the rows are not dealt: DataFusion's nested loop spills only with few partitions.
#[derive(Debug)]
pub struct DealtLoopExec {
    /// Loop with dealt rows.
    dealt: Arc<dyn ExecutionPlan>,
    /// Loop as DataFusion has planned it.
    stock: Arc<dyn ExecutionPlan>,
}

impl DealtLoopExec {
    /// The loop `stock`, a [`NestedLoopJoinExec`], with its right rows dealt to so many cores in batches of `rows`
    /// rows.
    ///
    /// # Errors
    /// Any other operator.
    pub fn try_new(stock: &Arc<dyn ExecutionPlan>, cores: usize, rows: usize) -> Result<Self> {
        let Some(join) = stock.downcast_ref::<NestedLoopJoinExec>() else {
            return internal_err!("{} is no nested loop", stock.name());
        };
        let right = Arc::new(SmallBatchesExec::new(rows, Arc::clone(join.right())));
        let right = Arc::new(RepartitionExec::try_new(right, Partitioning::RoundRobinBatch(cores))?);
        Self::of_dealt(replace_children_if_necessary(Arc::clone(stock), vec![Arc::clone(join.left()), right])?)
    }

    /// The operator over a nested loop whose rows are dealt already.
    ///
    /// # Errors
    /// A loop whose rows are not dealt, and any other operator.
    pub fn of_dealt(dealt: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let Some((join, right)) = dealt.downcast_ref().and_then(|join| Some((join, undealt(join)?))) else {
            return internal_err!("{} has no rows that are dealt to cores", dealt.name());
        };
        let stock = replace_children_if_necessary(Arc::clone(&dealt), vec![Arc::clone(join.left()), right])?;
        Ok(Self { dealt, stock })
    }

    /// Whether the right rows of a nested loop are dealt already.
    pub(crate) fn has_dealt_rows(join: &NestedLoopJoinExec) -> bool {
        undealt(join).is_some()
    }
}

/// The right input of a nested loop before its rows are dealt, if they are.
fn undealt(join: &NestedLoopJoinExec) -> Option<Arc<dyn ExecutionPlan>> {
    let batches = join.right().downcast_ref::<RepartitionExec>()?.input().downcast_ref::<SmallBatchesExec>()?;
    Some(Arc::clone(batches.input()))
}

impl DisplayAs for DealtLoopExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.properties().partitioning.partition_count();
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "partitions={partitions}"),
            _ => write!(f, "{}: partitions={partitions}", self.name()),
        }
    }
}

impl ExecutionPlan for DealtLoopExec {
    fn name(&self) -> &str {
        "DealtLoopExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.dealt]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(dealt), None) => Ok(Arc::new(Self::of_dealt(dealt)?)),
            _ => internal_err!("DealtLoopExec has one input"),
        }
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] if args.partition().is_none() => Ok(Arc::clone(input)),
            [_] => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
            _ => internal_err!("DealtLoopExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !matches!(context.memory_pool().memory_limit(), MemoryLimit::Infinite) {
            return self.stock.execute(partition, context);
        }
        let partitions = self.properties().partitioning.partition_count();
        let cores = self.dealt.properties().partitioning.partition_count();
        let mut rows = RecordBatchReceiverStreamBuilder::new(self.schema(), cores.div_ceil(partitions));
        for core in (partition..cores).step_by(partitions) {
            let (mut batches, to) = (self.dealt.execute(core, Arc::clone(&context))?, rows.tx());
            rows.spawn(async move {
                while let Some(batch) = batches.next().await {
                    // nobody listens where the query has ended
                    let failed = batch.is_err();
                    if to.send(batch).await.is_err() || failed {
                        break;
                    }
                }
                Ok(())
            });
        }
        Ok(rows.build())
    }
}
