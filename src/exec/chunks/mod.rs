//! Joins whose build side is larger than memory, or than that of a device: it is cut into chunks, each of which is
//! indexed and probed by itself.
//!
//! ```text
//! build input ──> parts on disk, by region ──one after the other──> chunk: rows and index
//!                                                                      │
//! probe input ──> parts on disk, by region ──those near the chunk──> pairs
//! ```
//!
//! Where the key is a vector, rows of a region go together, and parts farther from each other than any match are never
//! paired. Each output partition goes through the chunks by itself and starts with the one that another has in memory,
//! so that a chunk is mostly indexed once; no partition waits for another. Which rows have matched is kept for all
//! parts of both sides, a bit a row.
//!
//! Source: LSS (ICDE 2008), section V.B; sf-gSSJoin, block division.

mod join;
mod parts;
mod regions;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, JoinSide, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, SpillMetrics};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};

use self::parts::{Part, Writer};
use super::batch_bytes::bytes_of;
use super::blocking::blocking;
use super::build_side::{BuildSide, CancelOnDrop, Matched};
use super::emission::MatchedRows;
use super::strategy::SpatialKey;
use similarity_engine::Cancel;
use similarity_engine::error::DeviceFull;

pub(super) use self::join::chunked;
use self::regions::KeyRegions;

/// Parts are so many times smaller, for each partition that may hold one, than what had been collected when memory ran
/// out: an index takes several times the bytes of its rows.
const PARTS_IN_MEMORY: usize = 12;
/// What did not fit on a device had fitted in memory: it is cut into few parts, so that each is large enough for one.
const PARTS_ON_DEVICE: usize = 2;
/// More partitions that probe parts of a self-join on a device would only take its memory from each other.
const PARTITIONS_ON_DEVICE: usize = 2;
/// A chunk of no more than a third of its part, one that was halved twice, is not divided any more where a device does
/// not hold it: ever smaller ones take longer than the CPU.
const THIRDS: usize = 3;
/// Bytes of the smallest part that is worth a file.
const FEWEST_BYTES: usize = 1 << 14;
/// Rows that say how space is divided.
const SAMPLED: usize = 8192;

/// What makes a chunk of collected rows.
pub(super) trait Indexing: Send + Sync + fmt::Debug {
    /// Indexes the rows of a chunk.
    fn index_chunk(&self, rows: ChunkRows, reservation: MemoryReservation, cancel: &Cancel) -> Result<BuildSide>;

    /// The key by which rows lie near each other or far apart.
    fn spatial_key(&self) -> Option<SpatialKey<'_>>;
}

/// Collected rows of a chunk.
pub(super) struct ChunkRows {
    pub batch: RecordBatch,
    /// Which of them have matched.
    pub matched: Matched,
    /// Whether they can be divided where a device has no memory for all.
    pub divides: bool,
}

/// Batches of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stretch {
    part: usize,
    first: usize,
    end: usize,
}

impl Stretch {
    fn halves(self) -> Option<[Self; 2]> {
        let middle = self.first + (self.end - self.first) / 2;
        (middle > self.first).then_some([Self { end: middle, ..self }, Self { first: middle, ..self }])
    }
}

type Chunk = Shared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;
type HeldChunk = WeakShared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

/// A build side on disk, and what the partitions share that probe it.
pub(super) struct Chunks {
    parts: Vec<Part>,
    /// The rows of each part that have matched; empty where the join type does not ask.
    matched: Vec<Arc<MatchedRows>>,
    regions: Option<Arc<KeyRegions>>,
    side: JoinSide,
    manager: SpillManager,
    most_bytes: usize,
    /// How many partitions probe the parts of a self-join.
    probing_parts: usize,
    indexing: Arc<dyn Indexing>,
    context: Arc<TaskContext>,
    /// Chunks that a partition holds or waits for.
    held: Mutex<HashMap<Stretch, HeldChunk>>,
    /// The part that was asked for last.
    last: AtomicUsize,
    /// Partitions that are not done.
    probing: AtomicUsize,
    metrics: ChunkMetrics,
    _matched_memory: MemoryReservation,
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// What EXPLAIN ANALYZE tells about chunks.
#[derive(Debug, Clone)]
pub(super) struct ChunkMetrics {
    pub spill: SpillMetrics,
    /// Chunks that were indexed.
    pub chunks: Count,
    /// Pairs of a chunk and a part of the probe side that were too far from each other.
    pub skipped: Count,
    /// Pairs of a chunk and a part of the probe side that were probed.
    pub probed: Count,
}

/// What a build side on disk is made of.
pub(super) struct Overflow {
    /// Why it does not stay in memory.
    pub by: Refusal,
    pub schema: SchemaRef,
    /// The batches that had been collected.
    pub batches: Vec<RecordBatch>,
    /// What comes after them.
    pub rest: Option<SendableRecordBatchStream>,
    /// The side.
    pub side: JoinSide,
    /// Output partitions.
    pub partitions: usize,
    /// Whether it is asked which of its rows have matched.
    pub asks_matched: bool,
    pub metrics: ChunkMetrics,
}

impl Chunks {
    /// Writes a build side to disk.
    ///
    /// # Errors
    /// Of the input, of the disk, a refused reservation.
    pub(super) async fn write(
        overflow: Overflow,
        indexing: Arc<dyn Indexing>,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let Overflow { by, schema, batches, rest, side, partitions, asks_matched, metrics } = overflow;
        let collected: usize = batches.iter().map(bytes_of).sum();
        let (parts, probing_parts) = match by {
            Refusal::Pool => (PARTS_IN_MEMORY * partitions, partitions),
            Refusal::Device => (PARTS_ON_DEVICE, partitions.min(PARTITIONS_ON_DEVICE)),
        };
        let most_bytes = (collected / parts).max(FEWEST_BYTES);
        let regions = match indexing.spatial_key() {
            Some(key) => KeyRegions::of(key, side, &sample(&schema, &batches)?).map(Arc::new),
            None => None,
        };
        let env = context.runtime_env();
        let manager = SpillManager::new(env, metrics.spill.clone(), schema);
        let batch_size = context.session_config().batch_size();
        let writer = Writer::new(manager.clone(), side, regions.clone(), batch_size, most_bytes);
        let held = futures::stream::iter(batches.into_iter().map(Ok));
        let rest = rest.map_or_else(|| futures::stream::empty().boxed(), StreamExt::boxed);
        let parts = write_all(writer, held.chain(rest).boxed()).await?;
        let matched_memory = MemoryConsumer::new("similarity join[matched]").register(context.memory_pool());
        let matched: Vec<_> = match asks_matched {
            true => parts.iter().map(|part| Arc::new(MatchedRows::new(part.rows))).collect(),
            false => Vec::new(),
        };
        matched_memory.try_grow(matched.iter().map(|matched| matched.memory()).sum())?;
        Ok(Self {
            parts,
            matched,
            regions,
            side,
            manager,
            most_bytes,
            probing_parts,
            indexing,
            context,
            held: Mutex::default(),
            last: AtomicUsize::new(0),
            probing: AtomicUsize::new(partitions),
            metrics,
            _matched_memory: matched_memory,
        })
    }

    /// The chunk of a stretch, which is made unless another partition has it.
    ///
    /// # Errors
    /// Of the disk, of keys, a refused reservation.
    async fn chunk(self: &Arc<Self>, stretch: Stretch) -> Result<Arc<BuildSide>> {
        let chunk = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.retain(|_, chunk| chunk.upgrade().is_some());
            match held.get(&stretch).and_then(WeakShared::upgrade) {
                Some(chunk) => chunk,
                None => {
                    let chunk: Chunk = Arc::clone(self).index(stretch).map(|r| r.map_err(Arc::new)).boxed().shared();
                    held.extend(chunk.downgrade().map(|chunk| (stretch, chunk)));
                    chunk
                }
            }
        };
        chunk.await.map_err(DataFusionError::Shared)
    }

    async fn index(self: Arc<Self>, stretch: Stretch) -> Result<Arc<BuildSide>> {
        let reservation = MemoryConsumer::new("similarity join[chunk]").register(self.context.memory_pool());
        let mut stream = self.parts[stretch.part].read(&self.manager)?;
        let (mut batches, mut number, mut before) = (Vec::new(), 0, 0);
        while let Some(batch) = stream.next().await.transpose()? {
            if number < stretch.first {
                before += batch.num_rows();
            } else if number < stretch.end {
                // the batch, and its rows in the whole
                reservation.try_grow(2 * bytes_of(&batch))?;
                batches.push(batch);
            } else {
                break;
            }
            number += 1;
        }
        let cancel = CancelOnDrop(Cancel::default());
        let flag = cancel.0.clone();
        let schema = Arc::clone(self.manager.schema());
        let indexing = move || {
            let whole = concat_batches(&schema, &batches)?;
            drop(batches);
            reservation.try_resize(get_record_batch_memory_size(&whole))?;
            let matched = match self.matched.get(stretch.part) {
                Some(rows) => Matched::part_of(Arc::clone(rows), before),
                None => Matched::default(),
            };
            self.metrics.chunks.add(1);
            let thirds = (stretch.end - stretch.first) * THIRDS;
            let divides = stretch.halves().is_some() && thirds > self.parts[stretch.part].batches;
            self.indexing.index_chunk(ChunkRows { batch: whole, matched, divides }, reservation, &flag).map(Arc::new)
        };
        let build = blocking(indexing).await;
        drop(cancel);
        build
    }

    /// Says that a partition is done; true for the last one, which emits what is left of the build side.
    fn finish_partition(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Whose memory it was that did not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The session's.
    Pool,
    /// A device's.
    Device,
}

impl Refusal {
    /// Whether an error comes from one.
    pub(super) fn of(error: &DataFusionError) -> Option<Self> {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => Some(Self::Pool),
            DataFusionError::External(cause) if cause.is::<DeviceFull>() => Some(Self::Device),
            _ => None,
        }
    }
}

/// Writes all of a stream where memory is not held up: on a blocking thread.
async fn write_all(
    mut writer: Writer,
    mut batches: futures::stream::BoxStream<'_, Result<RecordBatch>>,
) -> Result<Vec<Part>> {
    while let Some(batch) = batches.next().await.transpose()? {
        writer = blocking(move || writer.write(&batch).map(|()| writer)).await?;
    }
    blocking(move || writer.finish()).await
}

/// Some rows of all batches.
fn sample(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let step = rows.div_ceil(SAMPLED).max(1);
    let some = |batch: &RecordBatch| {
        let rows: UInt32Array = (0..batch.num_rows() as u32).step_by(step).collect();
        take_record_batch(batch, &rows)
    };
    let some = batches.iter().map(some).collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(schema, &some)?)
}
