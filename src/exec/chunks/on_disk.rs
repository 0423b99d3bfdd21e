//! A build side on disk, and the chunks of it that partitions share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, JoinSide, Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, SpillMetrics};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures::stream::BoxStream;

use super::parts::{Part, Writer, rows_of_batch};
use super::rank_order::{Ordered, split_ranks};
use super::regions::KeyRegions;
use crate::exec::batch_bytes::bytes_of;
use crate::exec::blocking::blocking;
use crate::exec::build_side::{BuildSide, CancelOnDrop, Matched, RankedRows};
use crate::exec::emission::MatchedRows;
use crate::exec::strategy::{PartRanking, RegionKey};
use similarity_engine::Cancel;
use similarity_engine::error::DeviceFull;

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

/// Maker of a chunk from collected rows.
pub(in crate::exec) trait Indexing: Send + Sync + fmt::Debug {
    /// Indexes the rows of a chunk.
    fn index_chunk(&self, rows: ChunkRows, reservation: MemoryReservation, cancel: &Cancel) -> Result<BuildSide>;

    /// The key by which rows lie near each other or far apart.
    fn region_key(&self) -> Option<RegionKey<'_>>;
}

/// Collected rows of a chunk.
pub(in crate::exec) struct ChunkRows {
    pub batch: RecordBatch,
    /// Which of them have matched.
    pub matched: Matched,
    /// How they rank among the rows of all parts, where they do.
    pub ranked: Option<RankedRows>,
    /// Whether they can be divided where a device has no memory for all.
    pub divides: bool,
}

/// Batches of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stretch {
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
pub(in crate::exec) struct Chunks {
    pub(super) parts: Vec<Part>,
    /// The rows of each part that have matched; empty where the join type does not ask.
    pub(super) matched: Vec<Arc<MatchedRows>>,
    pub(super) regions: Option<Arc<KeyRegions>>,
    /// Where the best rows of all parts are kept.
    pub(super) ranking: Option<Arc<dyn PartRanking>>,
    pub(super) side: JoinSide,
    /// Columns of the build side; what is on disk may have a column of ranks besides.
    pub(super) schema: SchemaRef,
    manager: SpillManager,
    /// Bytes of a part, about.
    pub(super) most_bytes: usize,
    /// How many partitions probe the parts of a self-join.
    pub(super) probing_parts: usize,
    indexing: Arc<dyn Indexing>,
    pub(super) context: Arc<TaskContext>,
    /// Chunks that a partition holds or waits for.
    held: Mutex<HashMap<Stretch, HeldChunk>>,
    /// The part that was asked for last.
    pub(super) last: AtomicUsize,
    /// Partitions that are not done.
    probing: AtomicUsize,
    pub(super) metrics: ChunkMetrics,
    _matched_memory: MemoryReservation,
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

/// Facts about chunks for EXPLAIN ANALYZE.
#[derive(Debug, Clone)]
pub(in crate::exec) struct ChunkMetrics {
    pub spill: SpillMetrics,
    /// Chunks that were indexed.
    pub chunks: Count,
    /// Pairs of a chunk and a part of the probe side that were too far from each other.
    pub skipped: Count,
    /// Pairs of a chunk and a part of the probe side that were probed.
    pub probed: Count,
}

/// Ingredients of a build side on disk.
pub(in crate::exec) struct Overflow {
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
    /// Order between rows of several parts, in a ranking.
    pub ranking: Option<Arc<dyn PartRanking>>,
    pub metrics: ChunkMetrics,
}

impl Chunks {
    /// Writes a build side to disk.
    ///
    /// # Errors
    /// Errors of the input and of the disk, a refused reservation.
    pub(in crate::exec) async fn write(
        overflow: Overflow,
        indexing: Arc<dyn Indexing>,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let Overflow { by, schema, batches, rest, side, partitions, asks_matched, ranking, metrics } = overflow;
        let collected: usize = batches.iter().map(bytes_of).sum();
        let (parts, probing_parts) = match by {
            Refusal::Pool => (PARTS_IN_MEMORY * partitions, partitions),
            Refusal::Device => (PARTS_ON_DEVICE, partitions.min(PARTITIONS_ON_DEVICE)),
        };
        let most_bytes = (collected / parts).max(FEWEST_BYTES);
        let regions = match indexing.region_key() {
            Some(key) => KeyRegions::of(key, side, &sample(&schema, &batches)?).map(Arc::new),
            None => None,
        };
        let batch_size = context.session_config().batch_size();
        let batch_size = match &ranking {
            Some(_) => rows_of_batch(&batches, most_bytes, batch_size),
            None => batch_size,
        };
        let held = futures::stream::iter(batches.into_iter().map(Ok));
        let rest = rest.map_or_else(|| futures::stream::empty().boxed(), StreamExt::boxed);
        let rows = held.chain(rest).boxed();
        let ordered = match &ranking {
            Some(ranking) => Ordered::by_rank((rows, &schema), ranking.then_by(), most_bytes, &context)?,
            None => Ordered::as_they_come(rows, Arc::clone(&schema)),
        };
        let manager = SpillManager::new(context.runtime_env(), metrics.spill.clone(), Arc::clone(&ordered.schema));
        let writer = Writer::new(manager.clone(), side, regions.clone(), batch_size, most_bytes);
        let sorted = ordered.spilled();
        let parts = write_all(writer, ordered.rows).await?;
        sorted.iter().for_each(|sorted| sorted.add_to(&metrics.spill));
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        if ranking.is_some() && rows >= u32::MAX as usize {
            return exec_err!("the build side of a nearest join has {rows} rows; at most {} are ranked", u32::MAX - 1);
        }
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
            ranking,
            side,
            schema,
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

    /// All of a part.
    pub(super) fn whole(&self, part: usize) -> Stretch {
        Stretch { part, first: 0, end: self.parts[part].batches }
    }

    /// The rows of a part, without their ranks.
    pub(super) fn read(&self, part: usize) -> Result<SendableRecordBatchStream> {
        let rows = self.parts[part].read(&self.manager)?;
        let (schema, columns) = (Arc::clone(&self.schema), self.schema.fields().len());
        if self.ranking.is_none() {
            return Ok(rows);
        }
        let columns: Vec<usize> = (0..columns).collect();
        let rows = rows.map(move |batch| Ok(batch?.project(&columns)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// The next chunk of what is `left` of a part, as large as memory allows.
    ///
    /// # Errors
    /// Errors of the disk and of keys, memory that is refused for a single batch.
    pub(super) async fn next_chunk(self: &Arc<Self>, left: &mut Vec<Stretch>) -> Result<Option<Arc<BuildSide>>> {
        while let Some(stretch) = left.pop() {
            match (self.chunk(stretch).await, stretch.halves()) {
                (Ok(build), _) => return Ok(Some(build)),
                (Err(error), Some(halves)) if Refusal::of(&error).is_some() => left.extend(halves),
                (Err(error), _) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The numbers of the parts, from the one on that was asked for last.
    pub(super) fn parts_in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, start) = (self.parts.len(), self.last.load(Ordering::Relaxed));
        (0..count).map(move |at| (start + at) % count)
    }

    /// The chunk of a stretch, which is made unless another partition has it.
    ///
    /// # Errors
    /// Errors of the disk and of keys, a refused reservation.
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
            let mut whole = concat_batches(&schema, &batches)?;
            drop(batches);
            reservation.try_resize(get_record_batch_memory_size(&whole))?;
            let ranked = match self.ranking {
                Some(_) => {
                    let ranks = split_ranks(&mut whole)?;
                    let earlier: usize = self.parts[..stretch.part].iter().map(|part| part.rows).sum();
                    Some(RankedRows { ranks, first: (earlier + before) as u32 })
                }
                None => None,
            };
            let matched = match self.matched.get(stretch.part) {
                Some(rows) => Matched::part_of(Arc::clone(rows), before),
                None => Matched::default(),
            };
            self.metrics.chunks.add(1);
            let thirds = (stretch.end - stretch.first) * THIRDS;
            let is_large = stretch.halves().is_some() && thirds > self.parts[stretch.part].batches;
            let divides = is_large && ranked.is_none();
            let rows = ChunkRows { batch: whole, matched, ranked, divides };
            self.indexing.index_chunk(rows, reservation, &flag).map(Arc::new)
        };
        let build = blocking(indexing).await;
        drop(cancel);
        build
    }

    /// Says that a partition is done; true for the last one, which emits what is left of the build side.
    pub(super) fn finish_partition(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Whose memory it was that did not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) enum Refusal {
    /// The session's.
    Pool,
    /// A device's.
    Device,
}

impl Refusal {
    /// Whether an error comes from one.
    pub(in crate::exec) fn of(error: &DataFusionError) -> Option<Self> {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => Some(Self::Pool),
            DataFusionError::External(cause) if cause.is::<DeviceFull>() => Some(Self::Device),
            _ => None,
        }
    }
}

/// Writes all of a stream where memory is not held up: on a blocking thread.
pub(super) async fn write_all(
    mut writer: Writer,
    mut batches: BoxStream<'_, Result<RecordBatch>>,
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
