//! Parts of the rows of one partition, which probe chunks and are read again for each chunk.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::spill::SpillManager;
use futures::StreamExt;

use super::on_disk::{Chunks, write_all};
use super::parts::{Part, Writer, bytes_of_row, rows_of_batch};

use crate::exec::batch_bytes::{bytes_of, compacted};

/// Rows that a partition probes with.
pub(super) struct ProbeParts {
    chunks: Arc<Chunks>,
    /// Numbers of the parts of the build side that the partition probes with, in a self-join.
    of_build: Vec<usize>,
    /// Parts of its own.
    own: Option<Own>,
}

struct Own {
    parts: Vec<Part>,
    manager: SpillManager,
}

impl ProbeParts {
    /// The parts of the build side that are this partition's share.
    pub(super) fn self_join(chunks: &Arc<Chunks>, partition: usize) -> Self {
        let end = if partition < chunks.probing_parts { chunks.parts.len() } else { 0 };
        let of_build = (partition..end).step_by(chunks.probing_parts).collect();
        Self { chunks: Arc::clone(chunks), of_build, own: None }
    }

    /// All rows of `stream`, on disk.
    ///
    /// # Errors
    /// Errors of the input and of the disk.
    pub(super) async fn write(
        chunks: &Arc<Chunks>,
        stream: SendableRecordBatchStream,
        batch_size: usize,
    ) -> Result<Self> {
        Self::write_after(chunks, Vec::new(), stream, batch_size).await
    }

    /// All rows of `stream`, in memory where they are no more than a part has and `reservation` grants them.
    ///
    /// # Errors
    /// Errors of the input and of the disk.
    pub(super) async fn hold_or_write(
        chunks: &Arc<Chunks>,
        mut stream: SendableRecordBatchStream,
        batch_size: usize,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let mut held = Vec::new();
        while let Some(batch) = stream.next().await.transpose()? {
            let batch = compacted(batch)?;
            let granted = reservation.try_grow(bytes_of(&batch)).is_ok();
            held.push(batch);
            if !granted || reservation.size() > chunks.most_bytes {
                reservation.free();
                let batch_size = rows_of_batch(&held, chunks.most_bytes, batch_size);
                return Self::write_after(chunks, held, stream, batch_size).await;
            }
        }
        Ok(Self::of(chunks, stream.schema(), vec![Part::in_memory(held, reservation)]))
    }

    async fn write_after(
        chunks: &Arc<Chunks>,
        held: Vec<RecordBatch>,
        stream: SendableRecordBatchStream,
        batch_size: usize,
    ) -> Result<Self> {
        let (env, metrics, schema) = (chunks.context.runtime_env(), chunks.metrics.spill.clone(), stream.schema());
        let manager = SpillManager::new(env, metrics, Arc::clone(&schema));
        let (side, regions) = (chunks.side.negate(), chunks.regions.clone());
        let writer = Writer::new(manager, side, regions, batch_size, chunks.most_bytes);
        let held = futures::stream::iter(held.into_iter().map(Ok));
        Ok(Self::of(chunks, schema, write_all(writer, held.chain(stream).boxed()).await?))
    }

    fn of(chunks: &Arc<Chunks>, schema: SchemaRef, parts: Vec<Part>) -> Self {
        let manager = SpillManager::new(chunks.context.runtime_env(), chunks.metrics.spill.clone(), schema);
        Self { chunks: Arc::clone(chunks), of_build: Vec::new(), own: Some(Own { parts, manager }) }
    }

    /// How many parts there are.
    pub(super) fn len(&self) -> usize {
        self.own.as_ref().map_or(self.of_build.len(), |own| own.parts.len())
    }

    /// Bytes of a row, about.
    pub(super) fn bytes_of_row(&self) -> usize {
        bytes_of_row((0..self.len()).map(|at| self.part(at)))
    }

    /// Whether they are parts of the build side.
    pub(super) fn are_of_build(&self) -> bool {
        self.own.is_none()
    }

    /// A part.
    pub(super) fn part(&self, at: usize) -> &Part {
        match &self.own {
            Some(own) => &own.parts[at],
            None => &self.chunks.parts[self.of_build[at]],
        }
    }

    /// The rows of a part.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn read(&self, at: usize) -> Result<SendableRecordBatchStream> {
        match &self.own {
            Some(own) => own.parts[at].read(&own.manager),
            None => self.chunks.read(self.of_build[at]),
        }
    }

    /// Columns of the rows.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.own.as_ref().map_or(&self.chunks.schema, |own| own.manager.schema())
    }
}
