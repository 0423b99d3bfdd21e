//! The operator that hands on its input in small batches.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs};
use futures::{StreamExt, TryStreamExt, stream};

/// Hands on the rows of its input in batches of at most so many.
///
/// Where each row means much work, batches of 8,192 rows cannot be dealt evenly to many cores.
#[derive(Debug)]
pub struct SmallBatchesExec {
    rows: usize,
    input: Arc<dyn ExecutionPlan>,
}

impl SmallBatchesExec {
    /// The rows of `input`, `rows` of them in a batch at most, at least 1.
    pub fn new(rows: usize, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { rows: rows.max(1), input }
    }

    /// The operator whose rows are handed on.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The most rows of a batch.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl DisplayAs for SmallBatchesExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "rows={}", self.rows),
            _ => write!(f, "{}: rows={}", self.name(), self.rows),
        }
    }
}

impl ExecutionPlan for SmallBatchesExec {
    fn name(&self) -> &str {
        "SmallBatchesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => Ok(Arc::new(Self::new(self.rows, input))),
            _ => internal_err!("SmallBatchesExec has one input"),
        }
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("SmallBatchesExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows;
        let batches = self.input.execute(partition, context)?.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(rows);
            stream::iter(starts.map(move |start| Ok(batch.slice(start, rows.min(batch.num_rows() - start)))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches.try_flatten().boxed())))
    }
}
