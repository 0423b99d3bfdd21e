//! The operator that numbers its rows in several orders at once.

use std::fmt;
use std::mem;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ColumnStatistics, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, Statistics,
    StatisticsArgs, collect_partitioned,
};
use futures::{StreamExt, TryStreamExt};
use similarity_engine::parallel::{each_in_parallel, sort};

use super::batch_bytes::bytes_of;
use super::blocking::blocking;

/// A column of row numbers.
#[derive(Debug, Clone)]
pub struct RowNumber {
    /// The column.
    pub field: FieldRef,
    /// The order in which rows are numbered. Rows that it does not tell apart stay in the order of the input.
    pub order: Vec<PhysicalSortExpr>,
}

/// Adds the place of each row in some orders, from 1, as `row_number() OVER (ORDER BY ..)` does.
///
/// Stock DataFusion sorts the rows once for each order. Here rows stay where they are, and only their keys are sorted,
/// in all orders side by side. All rows are held in memory.
#[derive(Debug)]
pub struct RowNumbersExec {
    numbers: Vec<RowNumber>,
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RowNumbersExec {
    /// The operator over `input`, whose columns come first.
    pub fn new(numbers: Vec<RowNumber>, input: Arc<dyn ExecutionPlan>) -> Self {
        let mut fields = input.schema().fields().to_vec();
        fields.extend(numbers.iter().map(|number| Arc::clone(&number.field)));
        let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, input.schema().metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { numbers, input, schema, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The columns of numbers, in the order in which they come out.
    pub fn numbers(&self) -> &[RowNumber] {
        &self.numbers
    }

    /// Whether rows can be numbered in such an order.
    pub fn supports(order: &[PhysicalSortExpr], input: &Schema) -> bool {
        sort_fields(order, input).is_ok_and(|fields| RowConverter::supports_fields(&fields))
    }
}

fn sort_fields(order: &[PhysicalSortExpr], input: &Schema) -> Result<Vec<SortField>> {
    let field = |sort: &PhysicalSortExpr| Ok(SortField::new_with_options(sort.expr.data_type(input)?, sort.options));
    order.iter().map(field).collect()
}

impl DisplayAs for RowNumbersExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = |number: &RowNumber| {
            let by: Vec<String> = number.order.iter().map(ToString::to_string).collect();
            format!("[{}]", by.join(", "))
        };
        let orders: Vec<String> = self.numbers.iter().map(order).collect();
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "order by={}", orders.join("; ")),
            _ => write!(f, "{}: order by={}", self.name(), orders.join("; ")),
        }
    }
}

impl ExecutionPlan for RowNumbersExec {
    fn name(&self) -> &str {
        "RowNumbersExec"
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
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for sort in self.numbers.iter().flat_map(|number| &number.order) {
            if f(&sort.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => Ok(Arc::new(Self::new(self.numbers.clone(), input))),
            _ => internal_err!("RowNumbersExec has one input"),
        }
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let [input] = inputs else { return internal_err!("RowNumbersExec has one input") };
        let mut columns = input.column_statistics.clone();
        columns.resize_with(self.schema.fields().len(), ColumnStatistics::new_unknown);
        let unknown = Statistics::new_unknown(&self.schema);
        Ok(Arc::new(Statistics { num_rows: input.num_rows, column_statistics: columns, ..unknown }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = collect_partitioned(Arc::clone(&self.input), Arc::clone(&context));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let reservation = MemoryConsumer::new("RowNumbersExec").register(context.memory_pool());
        let (numbers, schema) = (self.numbers.clone(), Arc::clone(&self.schema));
        let rows = async move {
            let batches: Vec<RecordBatch> = batches.await?.into_iter().flatten().collect();
            reservation.try_resize(batches.iter().map(bytes_of).sum())?;
            let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
            if u32::try_from(count).is_err() {
                return exec_err!("RowNumbersExec numbers up to {} rows, got {count}", u32::MAX);
            }
            // keys, their places, and the numbers
            reservation.try_grow(numbers.len() * count * (size_of::<Key>() + size_of::<u64>()))?;
            let timer = metrics.elapsed_compute().timer();
            let (batches, columns) = blocking(move || {
                let columns = each_in_parallel(numbers.iter(), |number| numbered(&number.order, &batches, count));
                Ok((batches, columns.into_iter().collect::<Result<Vec<_>>>()?))
            })
            .await?;
            timer.done();
            let mut first = 0;
            Ok(futures::stream::iter(batches).map(move |batch| {
                let _held = &reservation;
                let rows = batch.num_rows();
                let mut all = batch.columns().to_vec();
                all.extend(columns.iter().map(|column| -> ArrayRef { Arc::new(column.slice(first, rows)) }));
                first += rows;
                metrics.output_rows().add(rows);
                Ok(RecordBatch::try_new(Arc::clone(&schema), all)?)
            }))
        };
        let batches = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// The beginning of a row's key, and the row.
type Key = ([u64; 3], u32);

/// The number of each row.
fn numbered(order: &[PhysicalSortExpr], batches: &[RecordBatch], count: usize) -> Result<UInt64Array> {
    let Some(first) = batches.first() else { return Ok(UInt64Array::from(Vec::<u64>::new())) };
    let converter = RowConverter::new(sort_fields(order, &first.schema())?)?;
    let begun = |key: &[u8]| {
        let mut words = [[0; 8]; 3];
        let begins = &key[..key.len().min(24)];
        words.as_flattened_mut()[..begins.len()].copy_from_slice(begins);
        words.map(u64::from_be_bytes)
    };
    let mut places: Vec<Key> = vec![Key::default(); count];
    let mut rest = places.as_mut_slice();
    let (mut starts, mut parts) = (Vec::with_capacity(batches.len()), Vec::with_capacity(batches.len()));
    for batch in batches {
        let start = count - rest.len();
        let (own, behind) = mem::take(&mut rest).split_at_mut(batch.num_rows());
        rest = behind;
        starts.push(start);
        parts.push((batch, start as u32, own));
    }
    let keys = each_in_parallel(parts.into_iter(), |(batch, start, places)| {
        let values = order.iter().map(|sort| sort.expr.evaluate(batch)?.into_array(batch.num_rows()));
        let keys = converter.convert_columns(&values.collect::<Result<Vec<_>>>()?)?;
        for ((key, row), place) in keys.iter().zip(start..).zip(places) {
            *place = (begun(key.as_ref()), row);
        }
        Ok(keys)
    });
    let keys: Vec<Rows> = keys.into_iter().collect::<Result<_>>()?;
    let whole = |row: u32| {
        let batch = starts.partition_point(|&start| start <= row as usize) - 1;
        keys[batch].row(row as usize - starts[batch])
    };
    sort(&mut places, |(one, row), (other, other_row)| {
        let rest = || whole(*row).cmp(&whole(*other_row)).then(row.cmp(other_row));
        one.cmp(other).then_with(rest)
    });
    let mut numbers = vec![0; count];
    for (number, (_, row)) in (1..).zip(places) {
        numbers[row as usize] = number;
    }
    Ok(UInt64Array::from(numbers))
}
