//! The operator that says which way round pairs of a divided self-join count.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, apply_expression_roots};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::StreamExt;

use super::output::{Output, SideRows};
use super::residual::{RowPairs, satisfying};

/// Reads pairs of rows of one input, each once, and passes them on the way round for which a condition holds, which may
/// be both.
#[derive(Debug)]
pub struct EitherWayExec {
    /// Columns of the one row, and then those of the other.
    pairs: Arc<dyn ExecutionPlan>,
    condition: JoinFilter,
    projection: Option<Vec<usize>>,
    output: Output,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl EitherWayExec {
    /// The rows of `pairs` that satisfy `condition`; of their columns those that `projection` names.
    ///
    /// # Errors
    /// Rows that are no pairs of the same columns.
    pub fn try_new(
        pairs: Arc<dyn ExecutionPlan>,
        condition: JoinFilter,
        projection: Option<Vec<usize>>,
    ) -> Result<Self> {
        let schema = side(&pairs.schema())?;
        let output = Output::new(&schema, &schema, JoinType::Inner, projection.as_deref());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&output.schema)),
            Partitioning::UnknownPartitioning(pairs.properties().partitioning.partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Ok(Self { pairs, condition, projection, output, properties, metrics })
    }

    /// The condition of a left row and a right row.
    pub fn condition(&self) -> &JoinFilter {
        &self.condition
    }

    /// The columns that come out, where not all do.
    pub fn projection(&self) -> Option<&[usize]> {
        self.projection.as_deref()
    }
}

/// The columns of either row of a pair.
fn side(pairs: &Schema) -> Result<SchemaRef> {
    let (one, other) = pairs.fields().split_at(pairs.fields().len() / 2);
    let same_types = one.iter().map(|field| field.data_type()).eq(other.iter().map(|field| field.data_type()));
    match same_types {
        true => Ok(Arc::new(Schema::new_with_metadata(one.to_vec(), pairs.metadata().clone()))),
        false => internal_err!("the rows of a pair have different columns"),
    }
}

/// A condition that holds where `condition` does, one way round or the other.
///
/// # Errors
/// A column that the condition does not say the side of.
pub(crate) fn either_way(condition: &JoinFilter) -> Result<JoinFilter> {
    let columns = condition.column_indices();
    let turned = columns.iter().map(|ColumnIndex { index, side }| ColumnIndex { index: *index, side: side.negate() });
    let indices: Vec<ColumnIndex> = columns.iter().cloned().chain(turned).collect();
    let fields = condition.schema().fields();
    let schema = Schema::new(fields.iter().chain(fields).cloned().collect::<Vec<_>>());
    let shift = fields.len();
    let other_way = Arc::clone(condition.expression()).transform(|expression| {
        Ok(match expression.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), column.index() + shift)) as _),
            None => Transformed::no(expression),
        })
    });
    let either = BinaryExpr::new(Arc::clone(condition.expression()), Operator::Or, other_way.data()?);
    Ok(JoinFilter::new(Arc::new(either), indices, Arc::new(schema)))
}

impl DisplayAs for EitherWayExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "filter={}", self.condition.expression()),
            _ => write!(f, "EitherWayExec: filter={}", self.condition.expression()),
        }
    }
}

impl ExecutionPlan for EitherWayExec {
    fn name(&self) -> &str {
        "EitherWayExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.pairs]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots([self.condition.expression()], f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(pairs), None) => Ok(Arc::new(Self::try_new(pairs, self.condition.clone(), self.projection.clone())?)),
            _ => internal_err!("EitherWayExec has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let pairs = self.pairs.execute(partition, context)?;
        let (output, condition) = (self.output.clone(), self.condition.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = pairs.flat_map(move |pairs| {
            let timer = metrics.elapsed_compute().timer();
            let ways = pairs.and_then(|pairs| both_ways(&pairs, &condition, &output));
            timer.done();
            let ways = match ways {
                Ok(ways) => ways.into_iter().filter(|batch| batch.num_rows() > 0).map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            let rows: usize = ways.iter().flatten().map(RecordBatch::num_rows).sum();
            metrics.output_rows().add(rows);
            futures::stream::iter(ways)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The pairs for which the condition holds as they are, and then those for which it holds the other way round.
fn both_ways(pairs: &RecordBatch, condition: &JoinFilter, output: &Output) -> Result<[RecordBatch; 2]> {
    let columns = pairs.num_columns() / 2;
    let of = |first: usize| pairs.project(&(first..first + columns).collect::<Vec<_>>());
    let (one, other) = (of(0)?, of(columns)?);
    let way = |left: &RecordBatch, right: &RecordBatch| {
        let all = UInt32Array::from_iter_values(0..pairs.num_rows() as u32);
        let all = RowPairs { left: all.clone(), right: all };
        let found = satisfying(std::slice::from_ref(condition), all, left, right)?;
        let left = SideRows { batch: left, rows: Some(&found.left) };
        let right = SideRows { batch: right, rows: Some(&found.right) };
        output.assemble(left, right, found.len())
    };
    Ok([way(&one, &other)?, way(&other, &one)?])
}
