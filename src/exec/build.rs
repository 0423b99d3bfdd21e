//! Collects one input and has the engine index it, once for all partitions of a query.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Metric, MetricBuilder, SpillMetrics};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, Shared};

use super::batch_bytes::{compacted, without_values};
use super::blocking::blocking;
use super::build_side::{BuildSide, Indexed, Matched, RankedRows};
use super::chunks::{ChunkMetrics, ChunkRows, Chunks, Indexing, Overflow, Refusal};
use super::distinct::distinct;
use super::emission::{Emission, MatchedRows, Rows};
use super::engine::{EngineResult, engine_error, is_about_values, may_use_device, metric, open_ahead};
use super::index_file::IndexFile;
use super::join_metrics::BuildMetrics;
use super::kept::{Keeping, KeptKey, KeptPart};
use super::rules::RuleStrategy;
use super::settled::{Counters, Settles, Settling};
use super::spec::JoinSpec;
use super::strategy::{BuildRows, JoinStrategy, RegionKey};
use similarity_engine::accelerator::Accelerator;
use similarity_engine::concat::concat_in_parallel;
use similarity_engine::{BuildContext, Cancel};

/// A build side, whole or on disk.
#[derive(Debug, Clone)]
pub(super) enum Built {
    Whole(Arc<BuildSide>),
    InChunks(Arc<Chunks>),
}

/// What a build needs.
#[derive(Debug)]
pub(super) struct BuildTask<M> {
    pub spec: Arc<JoinSpec>,
    pub matching: Arc<M>,
    pub schema: SchemaRef,
    pub self_join: bool,
    /// Whether the join has promised an order.
    pub keeps_order: bool,
    /// Whether a ranking fails rather than goes to disk.
    pub stays_in_memory: bool,
    /// Columns that nothing reads once keys are made of them.
    pub keys_only: Vec<usize>,
    /// Whether all keys are columns, so that their evaluation cannot fail.
    pub keys_are_columns: bool,
    /// Output partitions.
    pub partitions: usize,
    pub metrics: BuildMetrics,
    pub join_metrics: ExecutionPlanMetricsSet,
    /// Where the matcher's description of itself goes.
    pub found: Arc<OnceLock<String>>,
}

impl<M: JoinStrategy> BuildTask<M> {
    /// The build side of `input` as an index keeps it, where there is one and its rows are known.
    fn keeping(&self, input: &dyn ExecutionPlan, context: &TaskContext) -> Option<Keeping> {
        let Self { spec, matching, self_join, .. } = self;
        let index = spec.index.as_ref()?;
        let key = matching.kept_key(spec.build, spec.recall)?;
        let distinct = Emission::of(spec.join_type, spec.build).hides_build() && !self_join;
        let (engine, recall) = (matching.engine(), spec.recall);
        let overrides = engine.overrides;
        let options = &context.session_config().options().execution;
        let settings = (&options.time_zone, options.enable_ansi_mode);
        let text = format!(
            "{}, self-join: {self_join}, distinct: {distinct}, recall: {recall:?}, {overrides:?}, {settings:?}",
            key.text
        );
        Keeping::of(index, KeptKey { text, ..key }, engine, input)
    }
}

type BuildFuture = Shared<BoxFuture<'static, Result<Built, Arc<DataFusionError>>>>;

/// The one build of an operator, driven by whichever partition is polled.
#[derive(Debug, Default)]
pub(super) struct SharedBuild(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    future: BuildFuture,
    cancel: Cancel,
    waiting: usize,
}

impl SharedBuild {
    /// Starts the build of a partition of `input`, or joins the one that runs. What an index has kept of the same rows
    /// is not built again.
    pub(super) fn join<M: JoinStrategy>(
        self: &Arc<Self>,
        task: BuildTask<M>,
        (input, partition): (&Arc<dyn ExecutionPlan>, usize),
        context: &Arc<TaskContext>,
    ) -> Result<Waiting> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match state.take() {
            Some(running) => running,
            None => {
                let cancel = Cancel::default();
                let keeping = task.keeping(input.as_ref(), context);
                let kept = keeping.as_ref().and_then(Keeping::find);
                let file = keeping.as_ref().filter(|_| kept.is_none()).and_then(Keeping::file);
                let is_written = file.is_some_and(IndexFile::exists);
                let task = Arc::new(Task::new(task, context));
                let (context, cancelled) = (Arc::clone(context), cancel.clone());
                let build = match (kept, keeping) {
                    (Some(kept), keeping) => reuse(task, keeping, kept, context, cancelled).boxed(),
                    (None, Some(keeping)) if is_written => {
                        read_or_build(task, Arc::clone(input), keeping, context, cancelled).boxed()
                    }
                    (None, keeping) => {
                        let stream = input.execute(partition, Arc::clone(&context))?;
                        build(task, stream, keeping, context, cancelled).boxed()
                    }
                };
                Running { future: build.map(|r| r.map_err(Arc::new)).boxed().shared(), cancel, waiting: 0 }
            }
        };
        let future = running.future.clone();
        *state = Some(Running { waiting: running.waiting + 1, ..running });
        Ok(Waiting { shared: Arc::clone(self), future })
    }

    /// The build side, where it has been built.
    pub(super) fn built(&self) -> Option<Built> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref()?.future.peek()?.as_ref().ok().cloned()
    }
}

/// A partition's interest in the build: when the last one goes before the build is done, the build stops.
pub(super) struct Waiting {
    shared: Arc<SharedBuild>,
    future: BuildFuture,
}

impl Waiting {
    pub(super) async fn built(&self) -> Result<Built> {
        self.future.clone().await.map_err(DataFusionError::Shared)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = state.as_mut() else { return };
        running.waiting -= 1;
        if running.waiting == 0 && running.future.peek().is_none() {
            running.cancel.cancel();
            *state = None;
        }
    }
}

async fn build<M: JoinStrategy>(
    task: Arc<Task<M>>,
    input: SendableRecordBatchStream,
    keeping: Option<Keeping>,
    context: Arc<TaskContext>,
    cancel: Cancel,
) -> Result<Built> {
    let matching = &task.task.matching;
    let _opening = if matching.needs_engine() { open_ahead(matching.engine()) } else { None };
    let reservation = task.reservation(&context);
    let has_files = context.runtime_env().disk_manager.tmp_files_enabled();
    let ranking = Arc::clone(matching).part_ranking().filter(|_| !task.task.stays_in_memory);
    let is_divisible = matching.info().divisible && !task.task.keeps_order;
    let can_be_cut = is_divisible || ranking.is_some();
    let divides = is_divisible && has_files;
    // by the pool, or by a device
    let may_be_refused =
        !matches!(context.memory_pool().memory_limit(), MemoryLimit::Infinite) || may_use_device(matching.engine());
    let (refusal, batches, rest) = match collect(input, &task, &reservation).await? {
        Collected::Whole(batch, device) => {
            // what a chunk on disk would be made of
            let whole = may_be_refused.then(|| batch.clone());
            let indexing = Arc::clone(&task);
            let indexing = move || {
                let device = device.as_ref();
                let kept = Kept::None;
                let rows = ToIndex { batch, device, matched: None, ranked: None, divides, kept, keeping };
                indexing.index(rows, reservation, &cancel)
            };
            match blocking(indexing).await {
                Err(error) if Refusal::of(&error).is_some() => (error, whole.into_iter().collect(), None),
                built => return built.map(|build| Built::Whole(Arc::new(build))),
            }
        }
        Collected::TooMuch { refusal, batches, rest } => {
            drop(reservation);
            (refusal, batches, rest)
        }
    };
    let by = match Refusal::of(&refusal).filter(|_| can_be_cut) {
        Some(_) if !has_files => return Err(without_files(refusal, matching.as_ref())),
        Some(by) if !batches.is_empty() => by,
        _ => return Err(refusal),
    };
    let overflow = Overflow { ranking, ..task.overflow(by, batches, rest) };
    let chunks = Chunks::write(overflow, task, context).await?;
    Ok(Built::InChunks(Arc::new(chunks)))
}

/// Advice where memory was refused and nothing can be put on disk.
fn without_files(refusal: DataFusionError, matching: &impl JoinStrategy) -> DataFusionError {
    let name = matching.info().name;
    refusal.context(format!(
        "the build side of {name} does not fit into the memory pool, and temporary files are switched off; allow them or \
         raise the memory limit"
    ))
}

/// A build side of rows that another query has kept.
async fn reuse<M: JoinStrategy>(
    task: Arc<Task<M>>,
    keeping: Option<Keeping>,
    (batch, kept): (RecordBatch, KeptPart),
    context: Arc<TaskContext>,
    cancel: Cancel,
) -> Result<Built> {
    let reservation = task.reservation(&context);
    let index = move || {
        let kept = Kept::InMemory(kept);
        let rows = ToIndex { batch, device: None, matched: None, ranked: None, divides: false, kept, keeping };
        task.index(rows, reservation, &cancel)
    };
    blocking(index).await.map(|build| Built::Whole(Arc::new(build)))
}

/// A build side that another session has written; it is built where there is no memory to read it, or the file is gone
/// meanwhile.
async fn read_or_build<M: JoinStrategy>(
    task: Arc<Task<M>>,
    input: Arc<dyn ExecutionPlan>,
    keeping: Keeping,
    context: Arc<TaskContext>,
    cancel: Cancel,
) -> Result<Built> {
    let reservation = task.reservation(&context);
    let (reading, cancelled) = (Arc::clone(&task), cancel.clone());
    let read = move || match reading.read(&keeping, &reservation, &cancelled) {
        Ok(Some((batch, read))) => {
            let (kept, keeping) = (read, Some(keeping));
            let rows = ToIndex { batch, device: None, matched: None, ranked: None, divides: false, kept, keeping };
            reading.index(rows, reservation, &cancelled).map(Ok)
        }
        Ok(None) => Ok(Err(keeping)),
        Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => Ok(Err(keeping)),
        Err(error) => Err(error),
    };
    match blocking(read).await? {
        Ok(build) => Ok(Built::Whole(Arc::new(build))),
        Err(keeping) => {
            let stream = input.execute(0, Arc::clone(&context))?;
            build(task, stream, Some(keeping), context, cancel).await
        }
    }
}

/// What came of collecting a side.
enum Collected {
    /// All rows in one batch, and the device that has been sent some of its columns.
    Whole(RecordBatch, Option<Arc<dyn Accelerator>>),
    /// Memory was refused.
    TooMuch { refusal: DataFusionError, batches: Vec<RecordBatch>, rest: Option<SendableRecordBatchStream> },
}

/// The whole input as one batch, accounted for in `reservation`.
async fn collect<M: JoinStrategy>(
    mut input: SendableRecordBatchStream,
    task: &Arc<Task<M>>,
    reservation: &MemoryReservation,
) -> Result<Collected> {
    let mut batches = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = input.next().await.transpose()? {
        let batch = compacted(batch)?;
        let size = get_record_batch_memory_size(&batch);
        rows += batch.num_rows();
        bytes += size;
        batches.push(batch);
        if let Err(refusal) = reservation.try_grow(size) {
            return Ok(Collected::TooMuch { refusal, batches, rest: Some(input) });
        }
    }
    if rows >= u32::MAX as usize {
        return exec_err!("the build side of a similarity join has {rows} rows; at most {} fit", u32::MAX - 1);
    }
    if let [only] = batches.as_slice() {
        return Ok(Collected::Whole(only.clone(), None));
    }
    // both copies exist until the batches are dropped
    if let Err(refusal) = reservation.try_grow(bytes) {
        return Ok(Collected::TooMuch { refusal, batches, rest: None });
    }
    let task = Arc::clone(task);
    let (whole, device) = blocking(move || task.put_together(&batches, rows)).await?;
    reservation.try_resize(get_record_batch_memory_size(&whole))?;
    Ok(Collected::Whole(whole, device))
}

/// A build, and what all its chunks share.
#[derive(Debug)]
struct Task<M> {
    task: BuildTask<M>,
    threads: usize,
    candidates: Arc<AtomicUsize>,
}

/// Rows of a build side that are to be indexed.
struct ToIndex<'a> {
    batch: RecordBatch,
    /// The device that some columns were sent to.
    device: Option<&'a Arc<dyn Accelerator>>,
    /// Which rows have matched, of a chunk.
    matched: Option<Matched>,
    /// The rank of each among all rows, of a part of a ranking.
    ranked: Option<RankedRows>,
    /// Whether they can be divided where a device has no memory for all.
    divides: bool,
    /// What has been made of these rows before.
    kept: Kept,
    /// Where they are to be kept.
    keeping: Option<Keeping>,
}

/// What has been made of rows before.
enum Kept {
    /// Nothing.
    None,
    /// Work of another query of the session.
    InMemory(KeptPart),
    /// Work of another session, in so many bytes of its file.
    Read { part: KeptPart, bytes: usize },
}

impl Kept {
    fn part(&self) -> Option<&KeptPart> {
        match self {
            Self::None => None,
            Self::InMemory(part) | Self::Read { part, .. } => Some(part),
        }
    }
}

impl<M: JoinStrategy> Task<M> {
    fn new(task: BuildTask<M>, context: &TaskContext) -> Self {
        Self { task, threads: context.session_config().target_partitions(), candidates: Arc::default() }
    }

    fn reservation(&self, context: &TaskContext) -> MemoryReservation {
        let name = format!("{}[build]", self.task.matching.info().name);
        MemoryConsumer::new(name).register(context.memory_pool())
    }

    /// The rows and the index in the file of a build side, `None` where there is no file.
    fn read(
        &self,
        keeping: &Keeping,
        reservation: &MemoryReservation,
        cancel: &Cancel,
    ) -> Result<Option<(RecordBatch, Kept)>> {
        let Some(file) = keeping.file() else { return Ok(None) };
        let BuildTask { spec, matching, self_join, join_metrics, .. } = &self.task;
        let time = MetricBuilder::new(join_metrics).subset_time("index_read_time", 0);
        let timer = time.timer();
        let Some(bytes) = file.read(reservation)? else { return Ok(None) };
        let (batch, mut source) = file.open(&bytes, self.threads)?;
        let reserve = |bytes| reservation.try_grow(bytes).map_err(engine_error);
        let new = BuildContext::new(self.threads, cancel, &reserve);
        let context = BuildContext { self_join: *self_join, recall: spec.recall, ..new };
        let bytes = source.left();
        let rows = BuildRows { side: spec.build, batch: &batch, sent: None, kept: None, ranks: None };
        let part = match matching.load(rows, &mut source, &context) {
            Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => return Err(error),
            part => part.map_err(|error| file.error(format!("cannot be decoded: {error}")))?,
        };
        if source.left() > 0 {
            return Err(file.error("has more bytes than its index"));
        }
        timer.done();
        Ok(Some((batch, Kept::Read { part, bytes })))
    }

    /// Writes a build side to its file, where it has one and can be written; whether it was.
    fn write(&self, keeping: &Keeping, batch: &RecordBatch, part: &KeptPart) -> Result<bool> {
        let (Some(file), Some(stored)) = (keeping.file(), part.stored()) else { return Ok(false) };
        let time = MetricBuilder::new(&self.task.join_metrics).subset_time("index_write_time", 0);
        let timer = time.timer();
        file.write(batch, stored)?;
        timer.done();
        Ok(true)
    }

    /// The `rows` rows of the build side as one batch, and the device that is sent some of its columns meanwhile.
    fn put_together(
        &self,
        batches: &[RecordBatch],
        rows: usize,
    ) -> Result<(RecordBatch, Option<Arc<dyn Accelerator>>)> {
        let BuildTask { spec, matching, schema, self_join, .. } = &self.task;
        let never = Cancel::default();
        let context = BuildContext {
            self_join: *self_join,
            probe_rows: spec.probe_rows,
            ..BuildContext::new(self.threads, &never, &|_| Ok(()))
        };
        // rows that are alike are left out first where nobody sees them: those that are sent would not be those that
        // are asked for
        let is_whole = *self_join || !Emission::of(spec.join_type, spec.build).hides_build();
        let sending = is_whole.then(|| matching.prefetch(spec.build, schema, rows, &context)).flatten();
        let whole = concat_in_parallel(schema, batches, self.threads, sending.as_deref()).or_datafusion()?;
        let device = sending.map(|sending| sending.arrived(&whole));
        Ok((whole, device))
    }

    fn index(&self, rows: ToIndex<'_>, reservation: MemoryReservation, cancel: &Cancel) -> Result<BuildSide> {
        let ToIndex { batch, device, matched, ranked, divides, kept, keeping } = rows;
        let BuildTask { spec, matching, self_join, partitions, metrics, found, .. } = &self.task;
        let timer = metrics.build_time.timer();
        let (emission, overrides) = (Emission::of(spec.join_type, spec.build), matching.engine().overrides);
        let self_join = *self_join && matched.is_none();
        let part = kept.part();
        let batch = match emission.hides_build() && !self_join && part.is_none() {
            true => distinct(batch)?,
            false => batch,
        };
        let context = BuildContext {
            threads: self.threads,
            probe_threads: self.threads,
            self_join,
            probe_rows: spec.probe_rows,
            // a share of the best rows of each part need not be that share of the best of all
            recall: spec.recall.filter(|_| ranked.is_none()),
            overrides,
            divides,
            cancel,
            reserve: &|bytes| reservation.try_grow(bytes).map_err(engine_error),
        };
        let ranks = ranked.as_ref().map(|rows| rows.ranks.as_slice());
        let equalities = matching.equalities().map(RuleStrategy::of_equalities);
        let keys_only = self.keys_only(self_join);
        let keys = if keys_only.is_empty() { Ok(None) } else { matching.keys(spec.build, &batch) };
        let (batch, matcher, failed, equalities) = match keys {
            Ok(Some(keys)) => {
                let batch = without_values(batch, keys_only)?;
                let matcher = matching.build_of_keys(spec.build, keys, &context)?;
                // a fallback by equalities would read the rows
                (batch, matcher, None, None)
            }
            keys => {
                let rows = BuildRows { side: spec.build, batch: &batch, sent: device, kept: part, ranks };
                match (keys.and_then(|_| matching.build(rows, &context)), equalities) {
                    (Ok(matcher), equalities) => (batch, matcher, None, equalities),
                    (Err(error), Some(equalities)) if is_about_values(&error) && !cancel.is_cancelled() => {
                        let matcher = equalities.build(BuildRows { kept: None, ..rows }, &context)?;
                        (batch, matcher, Some(error), Some(equalities))
                    }
                    (Err(error), _) => return Err(error),
                }
            }
        };
        let is_chunk = matched.is_some();
        let matched = matched.unwrap_or_else(|| match emission.build {
            Rows::None => Matched::default(),
            _ => Matched::part_of(Arc::new(MatchedRows::new(batch.num_rows())), 0),
        });
        let of_rows = if is_chunk { ranks.map_or(0, size_of_val) } else { matched.memory() };
        // what an index that was built shares with its rows, one that was read has for itself
        let of_index = matcher.info().bytes.max(if let Kept::Read { bytes, .. } = kept { bytes } else { 0 });
        let of_side = get_record_batch_memory_size(&batch) + of_index;
        let description = matcher.info().path.clone();
        let description = match (&keeping, &kept) {
            // whoever has built it has counted it
            (Some(keeping), Kept::InMemory(_)) => {
                reservation.try_resize(of_rows)?;
                format!("{description}, kept in {}", keeping.name())
            }
            (Some(keeping), Kept::Read { .. }) => {
                reservation.try_resize(of_side + of_rows)?;
                metrics.build_mem_used.set_max(reservation.size());
                let path = keeping.file().map(|file| file.path().display().to_string());
                format!("{description}, read from {}", path.unwrap_or_default())
            }
            _ => {
                reservation.try_resize(of_side + of_rows)?;
                metrics.build_rows.add(batch.num_rows());
                metrics.build_unmatchable.add(matcher.info().unmatchable);
                metrics.build_mem_used.set_max(reservation.size());
                for counted in matcher.metrics() {
                    self.task.join_metrics.register(Arc::new(Metric::new(metric(counted), None)));
                }
                if is_chunk { format!("in chunks, each with {description}") } else { description }
            }
        };
        timer.done();
        let _ = found.set(description);
        if let (Some(keeping), None, Some(part)) = (keeping, &failed, matcher.kept()) {
            match kept {
                Kept::InMemory(_) => {}
                Kept::Read { .. } => keeping.keep((batch.clone(), part), reservation.split(of_side), true, 1),
                Kept::None => {
                    let written = self.write(&keeping, &batch, &part)?;
                    keeping.keep((batch.clone(), part), reservation.split(of_side), written, 0);
                }
            }
        }
        let settles = Settles::of(emission).filter(|_| failed.is_none() && overrides.settled);
        let settling = settles.map(|settles| self.settling(settles));
        Ok(BuildSide::new(Indexed {
            batch,
            matcher,
            failed,
            equalities,
            side: spec.build,
            is_chunk,
            matched,
            ranked,
            settling,
            partitions: *partitions,
            threads: self.threads,
            candidates: Arc::clone(&self.candidates),
            reservation,
        }))
    }

    /// Columns whose values are let go once keys are made of them. A row of the other side whose keys cannot be
    /// evaluated needs them all: it is compared by equalities with whole rows. A self-join in memory has no such rows.
    fn keys_only(&self, self_join: bool) -> &[usize] {
        let BuildTask { keys_only, keys_are_columns, .. } = &self.task;
        if self_join || *keys_are_columns { keys_only } else { &[] }
    }

    fn settling(&self, settles: Settles) -> Settling {
        let BuildTask { spec, matching, join_metrics, .. } = &self.task;
        let (matching, side) = (Arc::clone(matching), spec.build);
        let is_cheap = matching.info().is_cheap;
        let index = move |batch: &RecordBatch, context: &BuildContext<'_>| {
            matching.build(BuildRows { side, batch, sent: None, kept: None, ranks: None }, context)
        };
        let counter = |name: &'static str| MetricBuilder::new(join_metrics).counter(name, 0);
        let counters = Counters { indexes: counter("partial_indexes"), nested: counter("nested_loops") };
        Settling::new(settles, Box::new(index), is_cheap, counters)
    }

    fn overflow(&self, by: Refusal, batches: Vec<RecordBatch>, rest: Option<SendableRecordBatchStream>) -> Overflow {
        let BuildTask { spec, schema, partitions, join_metrics, .. } = &self.task;
        let counter = |name: &'static str| MetricBuilder::new(join_metrics).counter(name, 0);
        Overflow {
            by,
            schema: Arc::clone(schema),
            batches,
            rest,
            side: spec.build,
            partitions: *partitions,
            asks_matched: Emission::of(spec.join_type, spec.build).build != Rows::None,
            ranking: None,
            metrics: ChunkMetrics {
                spill: SpillMetrics::new(join_metrics, 0),
                chunks: counter("chunks"),
                skipped: counter("chunk_pairs_skipped"),
                probed: counter("chunk_pairs"),
            },
        }
    }
}

impl<M: JoinStrategy> Indexing for Task<M> {
    fn index_chunk(&self, rows: ChunkRows, reservation: MemoryReservation, cancel: &Cancel) -> Result<BuildSide> {
        let ChunkRows { batch, matched, ranked, divides } = rows;
        let (matched, kept, keeping) = (Some(matched), Kept::None, None);
        self.index(ToIndex { batch, device: None, matched, ranked, divides, kept, keeping }, reservation, cancel)
    }

    fn region_key(&self) -> Option<RegionKey<'_>> {
        self.task.matching.region_key()
    }
}
