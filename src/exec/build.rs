//! Collects one input and has the engine index it, once for all partitions of a query.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, JoinSide, Result, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Metric, MetricBuilder, SpillMetrics};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, Shared};

use super::chunks::{ChunkMetrics, Chunks, Indexing, KeyRegions, Overflow, Refusal};
use super::distinct::distinct;
use super::emission::{Emission, MatchedRows, Rows};
use super::engine::{EngineResult, engine_error, metric};
use super::join_metrics::BuildMetrics;
use super::rules::RuleStrategy;
use super::settled::{Counters, Settles, Settling};
use super::spec::JoinSpec;
use super::strategy::{BuiltJoin, JoinStrategy};
use super::stream::blocking;
use similarity_engine::accelerator::Accelerator;
use similarity_engine::concat::concat_in_parallel;
use similarity_engine::{BuildContext, Cancel};

/// The build side, indexed, and what its partitions share while they probe it.
#[derive(Debug)]
pub(super) struct BuildSide {
    pub batch: RecordBatch,
    matcher: Box<dyn BuiltJoin>,
    /// Why the matcher pairs rows by equalities alone: what another key cannot be evaluated for.
    failed: Option<DataFusionError>,
    /// A matcher that does, for probe rows whose keys cannot be evaluated, and why.
    fallback: OnceLock<Result<Fallback, Arc<DataFusionError>>>,
    equalities: Option<RuleStrategy>,
    side: JoinSide,
    /// Whether it is a part of the build side.
    pub is_chunk: bool,
    /// Rows that have matched.
    pub matched: Matched,
    /// Where a row has to match no more than once.
    pub settling: Option<Settling>,
    /// Partitions that are not done probing.
    probing: AtomicUsize,
    /// The next position of the index that nobody probes yet (self-joins).
    next_stretch: AtomicUsize,
    /// Threads that the session allows.
    threads: usize,
    /// Threads that probe at the moment.
    at_work: AtomicUsize,
    candidates: Arc<AtomicUsize>,
    reservation: MemoryReservation,
}

/// Which rows of a build side have matched.
#[derive(Debug, Default)]
pub(super) struct Matched {
    /// Matched rows of the part that these rows are from; empty where the join type does not ask.
    rows: Arc<MatchedRows>,
    /// The row of the part that is the first here.
    first: usize,
}

impl Matched {
    /// Rows of a part from `first` on.
    pub(super) fn part_of(rows: Arc<MatchedRows>, first: usize) -> Self {
        Self { rows, first }
    }

    /// Marks a row, and says whether it was not.
    pub(super) fn mark(&self, row: u32) -> bool {
        self.rows.mark(self.first as u32 + row)
    }

    /// Rows, out of `rows` of them, that `which` asks for.
    pub(super) fn select(&self, rows: usize, which: Rows) -> Vec<u32> {
        self.rows.select(self.first..self.first + rows, which)
    }
}

/// A build side, whole or on disk.
#[derive(Debug, Clone)]
pub(super) enum Built {
    Whole(Arc<BuildSide>),
    InChunks(Arc<Chunks>),
}

/// Cancels where nobody waits any more.
pub(super) struct CancelOnDrop(pub Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A matcher by equalities alone, and why.
type Fallback = (Box<dyn BuiltJoin>, DataFusionError);

/// A matcher, and whether the whole condition is still to be checked on its pairs.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub matcher: &'a dyn BuiltJoin,
    pub unchecked: bool,
    /// What a key could not be evaluated for: it explains why the condition cannot either.
    failed: Option<&'a DataFusionError>,
}

impl<'a> Chosen<'a> {
    /// A matcher of some rows whose keys can all be evaluated.
    pub(super) fn of(matcher: &'a dyn BuiltJoin) -> Self {
        Self { matcher, unchecked: matcher.is_undecided(), failed: None }
    }

    /// The error that a user understands best, where the condition cannot be evaluated.
    pub(super) fn explain(&self, error: DataFusionError) -> DataFusionError {
        match self.failed.map(DataFusionError::find_root) {
            Some(DataFusionError::Execution(message)) => DataFusionError::Execution(message.clone()),
            _ => error,
        }
    }
}

impl BuildSide {
    /// What finds the pairs; of rows for which a fallback was prepared, where it says so.
    pub(super) fn matcher(&self, fallback: bool) -> Chosen<'_> {
        match self.fallback.get() {
            Some(Ok((matcher, failed))) if fallback => {
                Chosen { matcher: matcher.as_ref(), unchecked: true, failed: Some(failed) }
            }
            _ => {
                let unchecked = self.failed.is_some() || self.matcher.is_undecided();
                Chosen { matcher: self.matcher.as_ref(), unchecked, failed: self.failed.as_ref() }
            }
        }
    }

    /// Prepares a fallback for rows of which a key cannot be evaluated, given the error that said so.
    ///
    /// A plain join evaluates a condition for pairs that agree in their equalities only. To fail no earlier than it
    /// does, such rows are paired by these, and the condition is evaluated on the pairs.
    pub(super) fn fall_back(&self, error: DataFusionError) -> Result<Chosen<'_>> {
        let needless = self.failed.is_none() && may_be_needless(&error);
        let Some(equalities) = self.equalities.as_ref().filter(|_| needless) else {
            return Err(error);
        };
        let cancel = Cancel::default();
        let reserve = |bytes| self.reservation.try_grow(bytes).map_err(engine_error);
        let context = BuildContext::new(self.threads, &cancel, &reserve);
        let build = || match equalities.build(self.side, &self.batch, &context) {
            Ok(matcher) => Ok((matcher, error)),
            Err(error) => Err(Arc::new(error)),
        };
        match self.fallback.get_or_init(build) {
            Ok(_) => Ok(self.matcher(true)),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }

    /// What the memory of more indexes is reserved beside.
    pub(super) fn reservation(&self) -> &MemoryReservation {
        &self.reservation
    }

    /// How many probe rows are best made ready at once.
    pub(super) fn rows_at_once(&self) -> usize {
        self.matcher.rows_at_once()
    }

    /// Says that a partition is done; true for the last one, which emits what is left of the build side.
    pub(super) fn finish_partition(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The next positions of a self-join that the caller has to probe, `None` when all are taken.
    pub(super) fn claim_stretch(&self) -> Option<(usize, usize)> {
        let mut start = self.next_stretch.load(Ordering::Relaxed);
        loop {
            if start >= self.matcher.self_join_len() {
                return None;
            }
            let end = self.matcher.self_join_stretch(start);
            match self.next_stretch.compare_exchange_weak(start, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((start, end)),
                Err(now) => start = now,
            }
        }
    }

    /// Whether a self-join has no positions; true for the first one that asks.
    pub(super) fn claim_nothing(&self) -> bool {
        self.matcher.self_join_len() == 0 && self.next_stretch.swap(1, Ordering::Relaxed) == 0
    }

    /// Takes up to `most` of the threads that nobody uses, which are given back by dropping them.
    pub(super) fn take_idle(&self, most: usize) -> AtWork<'_> {
        let mut busy = self.at_work.load(Ordering::Relaxed);
        loop {
            let count = self.threads.saturating_sub(busy).min(most);
            match self.at_work.compare_exchange_weak(busy, busy + count, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return AtWork { build: self, count },
                Err(now) => busy = now,
            }
        }
    }

    /// Batches of the probe side as one, by the threads that nobody uses.
    pub(super) fn concat(&self, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
        let most = if batches.len() > 1 { schema.fields().len().saturating_sub(1) } else { 0 };
        let helpers = self.take_idle(most);
        concat_in_parallel(schema, batches, 1 + helpers.count, None).or_datafusion()
    }

    /// Counts the calling thread as one at work.
    pub(super) fn go_to_work(&self) -> AtWork<'_> {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork { build: self, count: 1 }
    }

    /// Adds to the candidates of the whole join and returns them.
    pub(super) fn add_candidates(&self, candidates: usize) -> usize {
        self.candidates.fetch_add(candidates, Ordering::Relaxed) + candidates
    }

    /// Takes back candidates whose pairs are looked for once more.
    pub(super) fn forget_candidates(&self, candidates: usize) {
        self.candidates.fetch_sub(candidates, Ordering::Relaxed);
    }
}

/// Whether an error may come from a row that a plain join would not have evaluated.
fn may_be_needless(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ArrowError(..) | DataFusionError::Execution(_))
}

/// Threads that probe.
pub(super) struct AtWork<'a> {
    build: &'a BuildSide,
    pub count: usize,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.build.at_work.fetch_sub(self.count, Ordering::Relaxed);
    }
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
    /// Output partitions.
    pub partitions: usize,
    pub metrics: BuildMetrics,
    pub join_metrics: ExecutionPlanMetricsSet,
    /// Where the matcher's description of itself goes.
    pub found: Arc<OnceLock<String>>,
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
    /// Starts the build, or joins the one that runs.
    pub(super) fn join<M: JoinStrategy>(
        self: &Arc<Self>,
        task: BuildTask<M>,
        input: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Waiting> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match state.take() {
            Some(running) => running,
            None => {
                let cancel = Cancel::default();
                let stream = input.execute(0, Arc::clone(context))?;
                let build = build(task, stream, Arc::clone(context), cancel.clone());
                Running { future: build.map(|r| r.map_err(Arc::new)).boxed().shared(), cancel, waiting: 0 }
            }
        };
        let future = running.future.clone();
        *state = Some(Running { waiting: running.waiting + 1, ..running });
        Ok(Waiting { shared: Arc::clone(self), future })
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
    task: BuildTask<M>,
    input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    cancel: Cancel,
) -> Result<Built> {
    let reservation = MemoryConsumer::new(format!("{}[build]", M::NAME)).register(context.memory_pool());
    let threads = context.session_config().target_partitions();
    let can_be_cut = M::IN_CHUNKS && !task.keeps_order && context.runtime_env().disk_manager.tmp_files_enabled();
    let task = Arc::new(Task { task, threads, candidates: Arc::default() });
    let (refusal, batches, rest) = match collect(input, &task, &reservation).await? {
        Collected::Whole(batch, device) => {
            let (indexing, whole) = (Arc::clone(&task), batch.clone());
            let indexing = move || indexing.index((whole, device.as_ref()), (None, can_be_cut), reservation, &cancel);
            match blocking(indexing).await {
                Err(error) if Refusal::of(&error).is_some() => (error, vec![batch], None),
                built => return built.map(|build| Built::Whole(Arc::new(build))),
            }
        }
        Collected::TooMuch { refusal, batches, rest } => {
            drop(reservation);
            (refusal, batches, rest)
        }
    };
    let by = Refusal::of(&refusal).filter(|_| can_be_cut && !batches.is_empty());
    let Some(by) = by else { return Err(refusal) };
    let overflow = task.overflow(by, batches, rest);
    let chunks = Chunks::write(overflow, task, context).await?;
    Ok(Built::InChunks(Arc::new(chunks)))
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

impl<M: JoinStrategy> Task<M> {
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
        let sending = is_whole.then(|| matching.send_ahead(spec.build, schema, rows, &context)).flatten();
        let whole = concat_in_parallel(schema, batches, self.threads, sending.as_deref()).or_datafusion()?;
        let device = sending.map(|sending| sending.arrived(&whole));
        Ok((whole, device))
    }

    /// Indexes the whole build side, with the device that it was sent to, or a chunk whose rows are told by `matched`,
    /// which can be divided or not.
    fn index(
        &self,
        (batch, device): (RecordBatch, Option<&Arc<dyn Accelerator>>),
        (matched, divides): (Option<Matched>, bool),
        reservation: MemoryReservation,
        cancel: &Cancel,
    ) -> Result<BuildSide> {
        let BuildTask { spec, matching, self_join, partitions, metrics, found, .. } = &self.task;
        let timer = metrics.build_time.timer();
        let emission = Emission::of(spec.join_type, spec.build);
        let self_join = *self_join && matched.is_none();
        let batch = if emission.hides_build() && !self_join { distinct(batch)? } else { batch };
        let context = BuildContext {
            threads: self.threads,
            self_join,
            probe_rows: spec.probe_rows,
            device,
            divides,
            cancel,
            reserve: &|bytes| reservation.try_grow(bytes).map_err(engine_error),
        };
        let equalities = matching.equalities_only();
        let (matcher, failed) = match (matching.build(spec.build, &batch, &context), &equalities) {
            (Ok(matcher), _) => (matcher, None),
            (Err(error), Some(equalities)) if may_be_needless(&error) && !cancel.is_cancelled() => {
                (equalities.build(spec.build, &batch, &context)?, Some(error))
            }
            (Err(error), _) => return Err(error),
        };
        let is_chunk = matched.is_some();
        let matched = matched.unwrap_or_else(|| match emission.build {
            Rows::None => Matched::default(),
            _ => Matched::part_of(Arc::new(MatchedRows::new(batch.num_rows())), 0),
        });
        let of_rows = if is_chunk { 0 } else { matched.rows.memory() };
        reservation.try_resize(get_record_batch_memory_size(&batch) + matcher.memory() + of_rows)?;
        timer.done();
        metrics.build_rows.add(batch.num_rows());
        metrics.build_unmatchable.add(matcher.unmatchable());
        metrics.build_mem_used.set_max(reservation.size());
        for counted in matcher.metrics() {
            self.task.join_metrics.register(Arc::new(Metric::new(metric(counted), None)));
        }
        let description = matcher.describe();
        let _ = found.set(if is_chunk { format!("in chunks, each with {description}") } else { description });
        let settling = Settles::of(emission).filter(|_| failed.is_none()).map(|settles| self.settling(settles));
        Ok(BuildSide {
            batch,
            matcher,
            failed,
            fallback: OnceLock::new(),
            equalities,
            side: spec.build,
            is_chunk,
            matched,
            settling,
            probing: AtomicUsize::new(*partitions),
            next_stretch: AtomicUsize::new(0),
            threads: self.threads,
            at_work: AtomicUsize::new(0),
            candidates: Arc::clone(&self.candidates),
            reservation,
        })
    }

    fn settling(&self, settles: Settles) -> Settling {
        let BuildTask { spec, matching, join_metrics, .. } = &self.task;
        let (matching, side) = (Arc::clone(matching), spec.build);
        let is_cheap = matching.is_cheap();
        let index = move |batch: &RecordBatch, context: &BuildContext<'_>| matching.build(side, batch, context);
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
    fn index_chunk(
        &self,
        batch: RecordBatch,
        (matched, divides): (Matched, bool),
        reservation: MemoryReservation,
        cancel: &Cancel,
    ) -> Result<BuildSide> {
        self.index((batch, None), (Some(matched), divides), reservation, cancel)
    }

    fn regions(&self, sample: &RecordBatch) -> Option<KeyRegions> {
        self.task.matching.regions(self.task.spec.build, sample)
    }
}
