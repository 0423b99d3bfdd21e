//! The operators that divide a join into cells, each of which joins some rows of one side with some of the other.
//!
//! ```text
//!   input --CellsExec--> rows with a cell --hash partitioning--> one cell a partition --OneCellExec--> rows
//! ```
//! A row is in several cells, and each pair of rows in one of them. So pairs come out once.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_uint32_array;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::repartition::{REPARTITION_RANDOM_STATE, RepartitionExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties,
};
use futures::StreamExt;

/// The column that says which cell a row is in.
const CELL: &str = "__cell";

/// The seed of the hashes that choose slices, which have nothing to do with those that choose partitions.
const SLICES: RandomState = RandomState::with_seed(0x63_65_6c_6c);

/// Puts each row into the cells of its slice, which a hash of the whole row chooses.
#[derive(Debug)]
pub struct CellsExec {
    input: Arc<dyn ExecutionPlan>,
    /// The cells of each slice.
    slices: Arc<[Vec<u32>]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CellsExec {
    /// The rows of `input`, those of the first slice in the cells that stand first in `slices`, and so on.
    pub fn new(input: Arc<dyn ExecutionPlan>, slices: Arc<[Vec<u32>]>) -> Self {
        let mut fields = input.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(CELL, DataType::UInt32, false)));
        let schema = Arc::new(Schema::new_with_metadata(fields, input.schema().metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(input.properties().partitioning.partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { input, slices, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The cells of each slice.
    pub fn slices(&self) -> &Arc<[Vec<u32>]> {
        &self.slices
    }

    /// `input` as partitions of one cell each.
    ///
    /// # Errors
    /// Where DataFusion cannot repartition.
    pub fn one_cell_each(
        input: Arc<dyn ExecutionPlan>,
        slices: Arc<[Vec<u32>]>,
        partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let cells: Arc<dyn ExecutionPlan> = Arc::new(Self::new(input, slices));
        let by_cell = Partitioning::Hash(vec![cell_of(&cells.schema())?], partitions);
        Ok(Arc::new(OneCellExec::try_new(Arc::new(RepartitionExec::try_new(cells, by_cell)?))?))
    }
}

/// Numbers of cells that hash partitioning sends to `partitions` partitions, one to each.
///
/// # Errors
/// Where DataFusion cannot hash.
pub fn cells_of_partitions(partitions: usize) -> Result<Vec<u32>> {
    let mut cells = vec![None; partitions];
    let (mut left, mut first) = (partitions, 0);
    while left > 0 {
        let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(first..first + 1024));
        let mut hashes = vec![0; 1024];
        create_hashes([&numbers], REPARTITION_RANDOM_STATE.random_state(), &mut hashes)?;
        for (number, hash) in (first..).zip(hashes) {
            let cell = &mut cells[(hash % partitions as u64) as usize];
            left -= usize::from(cell.is_none());
            cell.get_or_insert(number);
        }
        first += 1024;
    }
    Ok(cells.into_iter().flatten().collect())
}

fn cell_of(schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(Column::new_with_schema(CELL, schema)?))
}

impl DisplayAs for CellsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copies: usize = self.slices.iter().map(Vec::len).sum();
        let copies = copies as f64 / self.slices.len() as f64;
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "slices={}", self.slices.len()),
            _ => write!(f, "CellsExec: slices={}, cells_per_row={copies:.1}", self.slices.len()),
        }
    }
}

impl ExecutionPlan for CellsExec {
    fn name(&self) -> &str {
        "CellsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
            (Some(input), None) => Ok(Arc::new(Self::new(input, Arc::clone(&self.slices)))),
            _ => internal_err!("CellsExec has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (slices, schema) = (Arc::clone(&self.slices), self.schema());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = rows.flat_map(move |batch| {
            let timer = metrics.elapsed_compute().timer();
            let placed = batch.and_then(|batch| placed(&batch, &slices, &schema));
            timer.done();
            let placed = match placed {
                Ok(placed) => placed.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            let rows: usize = placed.iter().flatten().map(RecordBatch::num_rows).sum();
            metrics.output_rows().add(rows);
            futures::stream::iter(placed)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// The rows of a batch in their cells: one batch for the first cell of each row, one for the second, and so on.
fn placed(batch: &RecordBatch, slices: &[Vec<u32>], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let mut hashes = vec![0; batch.num_rows()];
    create_hashes(batch.columns(), &SLICES, &mut hashes)?;
    let of_rows: Vec<&[u32]> =
        hashes.iter().map(|hash| slices[(hash % slices.len() as u64) as usize].as_slice()).collect();
    let most = of_rows.iter().map(|cells| cells.len()).max().unwrap_or_default();
    let mut batches = Vec::with_capacity(most);
    for copy in 0..most {
        let (rows, cells): (Vec<u32>, Vec<u32>) =
            (0..).zip(&of_rows).filter_map(|(row, cells)| Some((row, *cells.get(copy)?))).unzip();
        let rows = match rows.len() == batch.num_rows() {
            true => batch.clone(),
            false => take_record_batch(batch, &UInt32Array::from(rows))?,
        };
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(UInt32Array::from(cells)));
        batches.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
    }
    Ok(batches)
}

/// Passes on the rows of the one cell of each partition, without its number.
///
/// Processes that hash differently would bring several cells into one partition, whose pairs would come out that no
/// query asks for. That is an error.
#[derive(Debug)]
pub struct OneCellExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OneCellExec {
    /// The rows of `input`, whose last column says the cell.
    ///
    /// # Errors
    /// Where there is no such column.
    pub fn try_new(input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let schema = input.schema();
        let Some((cell, fields)) = schema.fields().split_last() else { return internal_err!("a row has no cell") };
        if cell.name() != CELL || *cell.data_type() != DataType::UInt32 {
            return internal_err!("the last column is {} instead of a cell", cell.name());
        }
        let schema = Arc::new(Schema::new_with_metadata(fields.to_vec(), schema.metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(input.properties().partitioning.partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { input, properties: Arc::new(properties) })
    }
}

impl DisplayAs for OneCellExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for OneCellExec {
    fn name(&self) -> &str {
        "OneCellExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match cell_of(&self.input.schema()) {
            Ok(cell) => Distribution::KeyPartitioned(vec![cell]),
            Err(_) => Distribution::UnspecifiedDistribution,
        }])
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
            (Some(input), None) => Ok(Arc::new(Self::try_new(input)?)),
            _ => internal_err!("OneCellExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let mut only = None;
        let rows = rows.map(move |batch| {
            let batch = batch?;
            let cells = as_uint32_array(batch.column(batch.num_columns() - 1))?;
            if let Some(&first) = cells.values().first() {
                let cell = *only.get_or_insert(first);
                if cells.values().iter().any(|&other| other != cell) {
                    return exec_err!(
                        "rows of several cells of a join have come into one partition; run the same build of this \
                         release on every machine"
                    );
                }
            }
            Ok(batch.project(&(0..batch.num_columns() - 1).collect::<Vec<_>>())?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_a_cell() {
        for partitions in [1, 2, 3, 16, 100] {
            let cells = cells_of_partitions(partitions).unwrap();
            let numbers: ArrayRef = Arc::new(UInt32Array::from(cells));
            let mut hashes = vec![0; partitions];
            create_hashes([&numbers], REPARTITION_RANDOM_STATE.random_state(), &mut hashes).unwrap();
            let places: Vec<u64> = hashes.into_iter().map(|hash| hash % partitions as u64).collect();
            assert_eq!(places, (0..partitions as u64).collect::<Vec<_>>());
        }
    }
}
