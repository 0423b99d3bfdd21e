//! The operator that has its input in one partition, whatever later passes make of the plan.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};

/// Passes on the rows of its input, which comes in one partition.
///
/// A plan that is divided into stages is planned once more in parts. A [`CoalescePartitionsExec`] that nothing asks for
/// is left out then, and each task would see the rows of its own partitions only.
#[derive(Debug)]
pub struct GatherExec {
    input: Arc<dyn ExecutionPlan>,
}

impl GatherExec {
    /// All rows of `input` in one partition, in any order.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.properties().partitioning.partition_count();
        Self { input: if partitions == 1 { input } else { Arc::new(CoalescePartitionsExec::new(input)) } }
    }
}

impl DisplayAs for GatherExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for GatherExec {
    fn name(&self) -> &str {
        "GatherExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
            (Some(input), None) => Ok(Arc::new(Self { input })),
            _ => internal_err!("GatherExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
