//! The first rows of a table by a measure against a constant.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use super::join::NearestJoinExec;

/// The first `rows` rows of a table by a measure against a constant, in order.
///
/// The first input finds them by an index of the table, the second one by the measure of every row, as stock
/// DataFusion does. The second one runs where the first one has not found them all:
///
/// | the first input | because |
/// |---|---|
/// | has fewer than `rows` rows | rows without a score come after them, or too few of the best rows satisfy a filter |
/// | leaves rows out of the index | rows without a score come first |
/// | fails | memory for the index is refused, or a value that only the index reads cannot be evaluated |
#[derive(Debug)]
pub struct IndexedTopKExec {
    nearest: Arc<dyn ExecutionPlan>,
    stock: Arc<dyn ExecutionPlan>,
    rows: usize,
    nulls_first: bool,
    /// The order of both inputs; `None` where every order is one.
    ordering: Option<LexOrdering>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndexedTopKExec {
    /// The operator over what an index finds and what stock DataFusion does, both in the same order.
    pub fn new([nearest, stock]: [Arc<dyn ExecutionPlan>; 2], rows: usize, nulls_first: bool) -> Self {
        let ordering = stock.properties().output_ordering().cloned();
        let properties = PlanProperties::new(
            stock.properties().equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { nearest, stock, rows, nulls_first, ordering, properties: Arc::new(properties), metrics }
    }

    /// How many rows come out.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether rows without a score come first.
    pub fn nulls_first(&self) -> bool {
        self.nulls_first
    }
}

impl DisplayAs for IndexedTopKExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "k={}", self.rows),
            _ => write!(f, "{}: k={}, by the first input, or else by the second", self.name(), self.rows),
        }
    }
}

impl ExecutionPlan for IndexedTopKExec {
    fn name(&self) -> &str {
        "IndexedTopKExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.nearest, &self.stock]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.ordering.clone().map(OrderingRequirements::from); 2]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true; 2]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; 2]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 2]>::try_from(children) {
            Ok(inputs) => Ok(Arc::new(Self::new(inputs, self.rows, self.nulls_first))),
            Err(children) => internal_err!("{} got {} children", self.name(), children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        // stock's plan needs no index, so that it is better than one on disk
        nearest_join(&self.nearest).into_iter().for_each(NearestJoinExec::stay_in_memory);
        let answer = Answer {
            nearest: Arc::clone(&self.nearest),
            stock: Arc::clone(&self.stock),
            rows: self.rows,
            nulls_first: self.nulls_first,
            by_stock: MetricBuilder::new(&self.metrics).counter("answered_without_index", partition),
        };
        let schema = self.stock.schema();
        let typed = Arc::clone(&schema);
        let batches = futures::stream::once(answer.batches(context)).try_flatten().map(move |batch| {
            let batch = RecordBatch::try_new(Arc::clone(&typed), batch?.columns().to_vec())?;
            baseline.output_rows().add(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One run of the operator.
struct Answer {
    nearest: Arc<dyn ExecutionPlan>,
    stock: Arc<dyn ExecutionPlan>,
    rows: usize,
    nulls_first: bool,
    by_stock: Count,
}

impl Answer {
    async fn batches(self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let found = match self.nearest.execute(0, Arc::clone(&context)) {
            Ok(stream) => stream.try_collect::<Vec<_>>().await,
            Err(error) => Err(error),
        };
        match found {
            Ok(batches) if self.is_complete(&batches) => {
                let batches = futures::stream::iter(batches.into_iter().map(Ok));
                Ok(Box::pin(RecordBatchStreamAdapter::new(self.nearest.schema(), batches)))
            }
            Err(error) if !may_be_the_index(&error) => Err(error),
            _ => {
                self.by_stock.add(1);
                self.stock.execute(0, context)
            }
        }
    }

    /// Whether no row that the index has not ranked may be among the first ones.
    fn is_complete(&self, found: &[RecordBatch]) -> bool {
        found.iter().map(RecordBatch::num_rows).sum::<usize>() == self.rows
            && (!self.nulls_first || nearest_join(&self.nearest).is_some_and(NearestJoinExec::indexes_all_rows))
    }
}

/// Whether what failed may be something that only the index needs.
fn may_be_the_index(error: &DataFusionError) -> bool {
    use DataFusionError::{ArrowError, Execution, ResourcesExhausted};
    matches!(error.find_root(), ResourcesExhausted(_) | ArrowError(..) | Execution(_))
}

/// The join in a plan that ranks the rows of a table.
fn nearest_join(plan: &Arc<dyn ExecutionPlan>) -> Option<&NearestJoinExec> {
    plan.downcast_ref().or_else(|| plan.children().into_iter().find_map(nearest_join))
}
