//! The rows of a build side in the order of their ranks, each with its rank.
//!
//! A rank is a place among the different values of all rows, so that rows of any two parts compare by it. Rows of equal
//! values keep the order in which they came. DataFusion sorts them, on disk where memory is refused.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{MetricsSet, SpillMetrics};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::parts::rows_of_batch;
use crate::exec::batch_bytes::{bytes_of, detached};

/// Bytes of buffers that a batch may have beside those of its rows.
const SMALL: usize = 1 << 12;

type Rows = BoxStream<'static, Result<RecordBatch>>;

/// Rows of a build side as they are written.
pub(super) struct Ordered {
    pub rows: Rows,
    pub schema: SchemaRef,
    sorted: Option<Arc<SortExec>>,
}

impl Ordered {
    /// Rows as they come.
    pub(super) fn as_they_come(rows: Rows, schema: SchemaRef) -> Self {
        Self { rows, schema, sorted: None }
    }

    /// Rows by `then_by`, with their ranks in a column after all others. A part has `most_bytes`.
    ///
    /// # Errors
    /// Values that cannot be sorted.
    pub(super) fn by_rank(
        (rows, schema): (Rows, &SchemaRef),
        then_by: &[PhysicalSortExpr],
        most_bytes: usize,
        context: &TaskContext,
    ) -> Result<Self> {
        let columns = schema.fields().len();
        let ranked = with_column(schema, Field::new("rank", DataType::UInt32, false));
        let to = Arc::clone(&ranked);
        if then_by.is_empty() {
            let rows = rows.map(move |batch| {
                let batch = batch?;
                let ranks = Arc::new(UInt32Array::from(vec![0; batch.num_rows()]));
                with_values(&batch, columns, ranks, &to)
            });
            return Ok(Self { rows: rows.boxed(), schema: ranked, sorted: None });
        }
        let batch_size = context.session_config().batch_size();
        let rows = rows.flat_map(move |batch| stream::iter(with_own_buffers(batch, most_bytes, batch_size))).boxed();
        let numbered = with_column(schema, Field::new("row", DataType::UInt64, false));
        let sorted = Arc::new(sort(number(rows, columns, &numbered), numbered, then_by)?);
        let config = context.session_config();
        let reserved = config.options().execution.sort_spill_reservation_bytes.min(most_bytes);
        let config = config.clone().with_sort_spill_reservation_bytes(reserved);
        let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
        let mut ranks = Ranks::by(then_by, schema)?;
        let rows = sorted.execute(0, Arc::new(context))?.map(move |batch| {
            let batch = batch?;
            let of_rows = ranks.next(&batch)?;
            with_values(&batch, columns, Arc::new(of_rows), &to)
        });
        Ok(Self { rows: rows.boxed(), schema: ranked, sorted: Some(sorted) })
    }

    /// Sort that may have written rows besides; known once all rows have been read.
    pub(super) fn spilled(&self) -> Option<Spilled> {
        self.sorted.clone().map(Spilled)
    }
}

/// A sort that may have written rows to disk.
pub(super) struct Spilled(Arc<SortExec>);

impl Spilled {
    /// Adds what was written.
    pub(super) fn add_to(&self, spill: &SpillMetrics) {
        let metrics = self.0.metrics();
        let of = |value: fn(&MetricsSet) -> Option<usize>| metrics.as_ref().and_then(value).unwrap_or_default();
        spill.spill_file_count.add(of(MetricsSet::spill_count));
        spill.spilled_bytes.add(of(MetricsSet::spilled_bytes));
        spill.spilled_rows.add(of(MetricsSet::spilled_rows));
    }
}

/// Takes the ranks off the rows of a part.
///
/// # Errors
/// Rows that have none.
pub(super) fn split_ranks(rows: &mut RecordBatch) -> Result<Vec<u32>> {
    let last = rows.num_columns().checked_sub(1);
    let ranks = last.and_then(|last| rows.column(last).as_primitive_opt::<UInt32Type>());
    let ranks = ranks.ok_or_else(|| internal_datafusion_err!("rows of a part have no ranks"))?.values().to_vec();
    let others: Vec<usize> = (0..rows.num_columns() - 1).collect();
    *rows = rows.project(&others)?;
    Ok(ranks)
}

fn with_column(schema: &Schema, field: Field) -> SchemaRef {
    let fields = schema.fields().iter().cloned().chain([Arc::new(field)]);
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The first columns of `batch`, and one more.
fn with_values(batch: &RecordBatch, columns: usize, last: ArrayRef, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns()[..columns].iter().cloned().chain([last]);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}

/// Rows in batches that a sort can hold while it writes others: it counts the whole of the buffers that a batch shares.
fn with_own_buffers(batch: Result<RecordBatch>, most_bytes: usize, batch_size: usize) -> Vec<Result<RecordBatch>> {
    let batch = match batch {
        Ok(batch) => batch,
        Err(error) => return vec![Err(error)],
    };
    let is_small = batch.num_rows() <= batch_size && batch.get_array_memory_size() <= 2 * bytes_of(&batch) + SMALL;
    if is_small || batch.num_columns() == 0 {
        return vec![Ok(batch)];
    }
    let most_rows = rows_of_batch(std::slice::from_ref(&batch), most_bytes, batch_size);
    let copy = |start: usize| {
        let rows = UInt32Array::from_iter_values(start as u32..(start + most_rows).min(batch.num_rows()) as u32);
        detached(take_record_batch(&batch, &rows)?)
    };
    (0..batch.num_rows()).step_by(most_rows).map(copy).collect()
}

/// Rows with their numbers.
fn number(rows: Rows, columns: usize, schema: &SchemaRef) -> SendableRecordBatchStream {
    let (to, mut before) = (Arc::clone(schema), 0);
    let numbered = rows.map(move |batch| {
        let batch = batch?;
        let end = before + batch.num_rows() as u64;
        let numbers = UInt64Array::from_iter_values(before..end);
        before = end;
        with_values(&batch, columns, Arc::new(numbers), &to)
    });
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), numbered))
}

/// Sorts rows by `then_by` and by their numbers, which are in the last column.
fn sort(rows: SendableRecordBatchStream, schema: SchemaRef, then_by: &[PhysicalSortExpr]) -> Result<SortExec> {
    let number = Column::new("row", schema.fields().len() - 1);
    let by = then_by.iter().cloned().chain([PhysicalSortExpr::new_default(Arc::new(number))]);
    let by = LexOrdering::new(by).ok_or_else(|| internal_datafusion_err!("there is at least the number"))?;
    let rows = Arc::new(Once { schema: Arc::clone(&schema), rows: Mutex::new(Some(rows)) });
    let input = StreamingTableExec::try_new(schema, vec![rows], None, [], false, None)?;
    Ok(SortExec::new(by, Arc::new(input)))
}

/// Rows that are read once.
struct Once {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.unwrap_or_else(|| {
            let error = internal_datafusion_err!("the rows of a build side are read once");
            let error = futures::stream::iter([Err(error)]);
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), error))
        })
    }
}

/// Ranks of sorted rows.
struct Ranks {
    then_by: Vec<PhysicalSortExpr>,
    converter: RowConverter,
    /// The values of the last row.
    last: Option<OwnedRow>,
    rank: u32,
}

impl Ranks {
    fn by(then_by: &[PhysicalSortExpr], schema: &Schema) -> Result<Self> {
        let field = |tie: &PhysicalSortExpr| Ok(SortField::new_with_options(tie.expr.data_type(schema)?, tie.options));
        let fields = then_by.iter().map(field).collect::<Result<_>>()?;
        Ok(Self { then_by: then_by.to_vec(), converter: RowConverter::new(fields)?, last: None, rank: 0 })
    }

    /// The ranks of rows that come after all others so far.
    fn next(&mut self, batch: &RecordBatch) -> Result<UInt32Array> {
        let values = |tie: &PhysicalSortExpr| tie.expr.evaluate(batch)?.into_array(batch.num_rows());
        let values: Vec<ArrayRef> = self.then_by.iter().map(values).collect::<Result<_>>()?;
        let rows = self.converter.convert_columns(&values)?;
        let mut ranks = Vec::with_capacity(batch.num_rows());
        for at in 0..rows.num_rows() {
            let differs = match (at, &self.last) {
                (0, None) => false,
                (0, Some(last)) => last.row() != rows.row(0),
                _ => rows.row(at - 1) != rows.row(at),
            };
            // a build side has fewer rows than there are numbers
            self.rank = self.rank.saturating_add(u32::from(differs));
            ranks.push(self.rank);
        }
        self.last = rows.num_rows().checked_sub(1).map(|at| rows.row(at).owned()).or(self.last.take());
        Ok(UInt32Array::from(ranks))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringArray};
    use datafusion::arrow::compute::SortOptions;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::SessionConfig;
    use futures::TryStreamExt;

    use super::*;

    fn batches(rows: usize) -> (Vec<RecordBatch>, SchemaRef) {
        let batch = |first: usize| {
            let n =
                Int32Array::from_iter((first..first + 100).map(|row| (row % 7 > 0).then_some(row as i32 * 37 % 11)));
            let s = StringArray::from_iter_values((first..first + 100).map(|row| format!("{row:200}")));
            RecordBatch::try_from_iter_with_nullable([("n", Arc::new(n) as ArrayRef, true), ("s", Arc::new(s), true)])
                .unwrap()
        };
        let batches: Vec<RecordBatch> = (0..rows / 100).map(|number| batch(number * 100)).collect();
        let schema = batches[0].schema();
        (batches, schema)
    }

    #[tokio::test]
    async fn ranks_are_those_of_all_rows() {
        let by =
            PhysicalSortExpr::new(Arc::new(Column::new("n", 0)), SortOptions { descending: true, nulls_first: false });
        for kilobytes in [100, 100_000] {
            let pool = Arc::new(GreedyMemoryPool::new(kilobytes << 10));
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
            let config = SessionConfig::new().with_batch_size(64);
            let context = TaskContext::default().with_session_config(config).with_runtime(runtime);
            let (rows, schema) = batches(3000);
            let rows = futures::stream::iter(rows.into_iter().map(Ok)).boxed();
            let mut ordered = Ordered::by_rank((rows, &schema), std::slice::from_ref(&by), 10 << 10, &context).unwrap();
            let mut before: Option<(Option<i32>, u32, String)> = None;
            let mut count = 0;
            while let Some(mut batch) = ordered.rows.try_next().await.unwrap() {
                let ranks = split_ranks(&mut batch).unwrap();
                assert_eq!(batch.schema(), schema);
                let n = batch.column(0).as_primitive::<datafusion::arrow::datatypes::Int32Type>();
                for ((n, s), rank) in n.iter().zip(batch.column(1).as_string::<i32>()).zip(ranks) {
                    if let Some((last, of_last, text)) = &before {
                        let expected = of_last + u32::from(*last != n);
                        assert_eq!(rank, expected);
                        assert!(if *last == n { s.unwrap() > text.as_str() } else { n < *last || n.is_none() });
                    }
                    before = Some((n, rank, s.unwrap().to_owned()));
                    count += 1;
                }
            }
            assert_eq!((count, before.unwrap().1), (3000, 11));
            let spill = SpillMetrics::new(&Default::default(), 0);
            ordered.spilled().unwrap().add_to(&spill);
            assert_eq!(spill.spilled_rows.value() > 0, kilobytes == 100);
        }
    }
}
