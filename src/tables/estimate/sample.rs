//! A random sample of rows, from one pass over a query.

use std::hash::BuildHasher;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{interleave_record_batch, take_record_batch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use foldhash::quality::FixedState;
use futures::TryStreamExt;

/// Rows drawn without replacement, in random order: the first so many of them are a sample, too.
#[derive(Debug)]
pub(super) struct Sample {
    /// How many rows there are.
    pub all: u64,
    /// The rows that were drawn.
    pub rows: RecordBatch,
    /// Their memory.
    _held: Vec<MemoryReservation>,
}

impl Sample {
    /// Up to `size` rows of all partitions of `input`. The same rows are drawn again from partitions that have the same
    /// rows in the same order.
    ///
    /// # Errors
    /// What the input fails with, and a memory pool without room for the sample.
    pub async fn draw(
        input: &Arc<dyn ExecutionPlan>,
        size: usize,
        seed: u64,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let schema = input.schema();
        let streams = execute_stream_partitioned(Arc::clone(input), Arc::clone(context))?;
        let tasks = streams.into_iter().enumerate().map(|(partition, stream)| {
            let draws = Draws {
                size,
                // a partition has random numbers of its own
                hasher: FixedState::with_seed(FixedState::with_seed(seed).hash_one(partition)),
                reservation: MemoryConsumer::new("sample of an estimate").register(context.memory_pool()),
                seen: 0,
                numbers: Vec::new(),
                rows: Vec::new(),
            };
            SpawnedTask::spawn(draws.read(stream))
        });
        let mut drawn = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            drawn.push(task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
        }
        let all = drawn.iter().map(|draws| draws.seen).sum();
        let mut places: Vec<(u64, usize, usize)> = Vec::new();
        for (partition, draws) in drawn.iter().enumerate() {
            places.extend(draws.numbers.iter().enumerate().map(|(row, &(number, ..))| (number, partition, row)));
        }
        places.sort_unstable();
        places.truncate(size);
        let places: Vec<(usize, usize)> = places.into_iter().map(|(_, partition, row)| (partition, row)).collect();
        let (mut rows, mut held) = (Vec::new(), Vec::new());
        for mut draws in drawn {
            rows.push(draws.rows.pop().unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema))));
            held.push(draws.reservation);
        }
        Ok(Self { all, rows: interleaved(&schema, &rows, &places)?, _held: held })
    }
}

/// The draws of one partition: each row has a random number, and those with the least numbers are drawn.
struct Draws {
    size: usize,
    hasher: FixedState,
    reservation: MemoryReservation,
    /// Rows so far.
    seen: u64,
    /// The number of a row that may be drawn, its batch and its place there.
    numbers: Vec<(u64, usize, usize)>,
    /// The rows that may be drawn.
    rows: Vec<RecordBatch>,
}

impl Draws {
    async fn read(mut self, mut stream: SendableRecordBatchStream) -> Result<Self> {
        let schema = stream.schema();
        let mut limit = u64::MAX;
        let mut chosen: Vec<u32> = Vec::new();
        while let Some(batch) = stream.try_next().await? {
            for row in 0..batch.num_rows() {
                let number = self.hasher.hash_one(self.seen + row as u64);
                if number <= limit {
                    self.numbers.push((number, self.rows.len(), chosen.len()));
                    chosen.push(row as u32);
                }
            }
            self.seen += batch.num_rows() as u64;
            if chosen.is_empty() {
                continue;
            }
            let rows = UInt32Array::from(std::mem::take(&mut chosen));
            self.keep(compact(&take_record_batch(&batch, &rows)?)?)?;
            if self.numbers.len() >= 2 * self.size.max(1 << 12) {
                limit = self.settle(&schema)?;
            }
        }
        self.settle(&schema)?;
        Ok(self)
    }

    fn keep(&mut self, rows: RecordBatch) -> Result<()> {
        self.reservation.try_grow(rows.get_array_memory_size())?;
        self.rows.push(rows);
        Ok(())
    }

    /// Leaves the rows of the least numbers in one batch, and returns the largest number among them.
    fn settle(&mut self, schema: &SchemaRef) -> Result<u64> {
        let mut limit = u64::MAX;
        if self.numbers.len() > self.size {
            self.numbers.select_nth_unstable(self.size);
            self.numbers.truncate(self.size);
            limit = self.numbers.iter().map(|&(number, ..)| number).max().unwrap_or(0);
        }
        let places: Vec<(usize, usize)> = self.numbers.iter().map(|&(_, batch, row)| (batch, row)).collect();
        let rows = compact(&interleaved(schema, &std::mem::take(&mut self.rows), &places)?)?;
        self.reservation.free();
        self.keep(rows)?;
        self.numbers.iter_mut().enumerate().for_each(|(at, (_, batch, row))| (*batch, *row) = (0, at));
        Ok(limit)
    }
}

/// Rows of some batches, by batch and place.
fn interleaved(schema: &SchemaRef, batches: &[RecordBatch], places: &[(usize, usize)]) -> Result<RecordBatch> {
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    Ok(interleave_record_batch(&batches, places)?)
}

/// Rows whose views keep no strings of other rows alive.
fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, StringViewArray};
    use datafusion::arrow::datatypes::{Field, Int64Type, Schema};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// Partitions of rows that are numbered through, in batches of ten.
    fn numbered(rows: i64, partitions: usize) -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("s", DataType::Utf8View, false),
        ]));
        let numbers: Vec<i64> = (0..rows).collect();
        let batch = |rows: &[i64]| {
            let texts: Vec<String> = rows.iter().map(|n| format!("a string of more than twelve bytes {n}")).collect();
            let n = datafusion::arrow::array::Int64Array::from(rows.to_vec());
            RecordBatch::try_new(
                Arc::clone(&schema),
                vec![Arc::new(n), Arc::new(StringViewArray::from_iter_values(texts))],
            )
            .unwrap()
        };
        let mut parts = vec![Vec::new(); partitions];
        numbers.chunks(10).enumerate().for_each(|(at, rows)| parts[at % partitions].push(batch(rows)));
        MemorySourceConfig::try_new_exec(&parts, Arc::clone(&schema), None).unwrap()
    }

    async fn drawn(rows: i64, partitions: usize, size: usize, seed: u64) -> (u64, Vec<i64>) {
        let context = SessionContext::new().task_ctx();
        let sample = Sample::draw(&numbered(rows, partitions), size, seed, &context).await.unwrap();
        let numbers = sample.rows.column(0).as_primitive::<Int64Type>().values().to_vec();
        let texts = sample.rows.column(1).as_string_view();
        assert!((0..texts.len()).all(|row| texts.value(row).ends_with(&format!(" {}", numbers[row]))));
        (sample.all, numbers)
    }

    #[tokio::test]
    async fn draws_are_even_and_repeatable() {
        let (rows, size) = (5000, 500);
        let mut hits = vec![0; rows as usize];
        for seed in 0..200 {
            let (all, numbers) = drawn(rows, 3, size, seed).await;
            let mut distinct = numbers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((all, numbers.len(), distinct.len()), (5000, 500, 500));
            assert_eq!(numbers, drawn(rows, 3, size, seed).await.1);
            // the first ones are a sample as well
            numbers[..100].iter().for_each(|&n| hits[n as usize] += 1);
        }
        // 20,000 draws over 50 stretches of 100 rows: 400 each, with a deviation of 20
        for stretch in hits.chunks(100) {
            let count: i32 = stretch.iter().sum();
            assert!((300..500).contains(&count), "{count}");
        }
    }

    #[tokio::test]
    async fn a_small_table_is_drawn_whole() {
        for (rows, partitions) in [(0, 1), (7, 4), (500, 2)] {
            let (all, mut numbers) = drawn(rows, partitions, 500, 1).await;
            numbers.sort_unstable();
            assert_eq!((all, numbers), (rows as u64, (0..rows).collect()));
        }
    }
}
