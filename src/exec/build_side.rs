//! A build side that is ready: what its partitions share while they probe it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, JoinSide, Result};
use datafusion::execution::memory_pool::MemoryReservation;

use super::audit::Audit;
use super::emission::{MatchedRows, Rows};
use super::engine::{EngineResult, engine_error, is_about_values};
use super::rules::RuleStrategy;
use super::settled::Settling;
use super::strategy::{BuildRows, DynBuiltJoin, JoinStrategy};
use similarity_engine::concat::concat_in_parallel;
use similarity_engine::{BuildContext, Cancel};

/// The build side, indexed, and what its partitions share while they probe it.
#[derive(Debug)]
pub(super) struct BuildSide {
    /// The rows. Columns that only keys are made of may be without their values, and of the type Null.
    pub batch: RecordBatch,
    matcher: Box<DynBuiltJoin>,
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
    /// Where it is a part of a ranking.
    pub ranked: Option<RankedRows>,
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
    /// Rows of a self-join whose pairs are counted, for `similarity.verify = 'complete'`.
    audit: OnceLock<Audit>,
}

/// What a build side is made of.
pub(super) struct Indexed {
    pub batch: RecordBatch,
    pub matcher: Box<DynBuiltJoin>,
    /// Why the matcher pairs rows by equalities alone.
    pub failed: Option<DataFusionError>,
    pub equalities: Option<RuleStrategy>,
    pub side: JoinSide,
    pub is_chunk: bool,
    pub matched: Matched,
    pub ranked: Option<RankedRows>,
    pub settling: Option<Settling>,
    /// Partitions that will probe it.
    pub partitions: usize,
    pub threads: usize,
    /// Candidates of the whole join, which its chunks share.
    pub candidates: Arc<AtomicUsize>,
    pub reservation: MemoryReservation,
}

/// Rows of a part among all rows that are ranked.
#[derive(Debug)]
pub(super) struct RankedRows {
    /// The rank of each row.
    pub ranks: Vec<u32>,
    /// The row of all that is the first here.
    pub first: u32,
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

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.rows.memory()
    }

    /// Marks a row, and says whether it was not.
    pub(super) fn mark(&self, row: u32) -> bool {
        self.rows.mark(self.first as u32 + row)
    }

    /// Whether a row is marked.
    pub(super) fn is_marked(&self, row: u32) -> bool {
        self.rows.is_marked(self.first as u32 + row)
    }

    /// Rows, out of `rows` of them, that `which` asks for.
    pub(super) fn select(&self, rows: usize, which: Rows) -> Vec<u32> {
        self.rows.select(self.first..self.first + rows, which)
    }
}

/// Cancels where nobody waits any more.
pub(super) struct CancelOnDrop(pub Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A matcher by equalities alone, and why.
type Fallback = (Box<DynBuiltJoin>, DataFusionError);

/// A matcher, and whether the whole condition is still to be checked on its pairs.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub matcher: &'a DynBuiltJoin,
    pub unchecked: bool,
    /// What a key could not be evaluated for: it explains why the condition cannot either.
    failed: Option<&'a DataFusionError>,
}

impl<'a> Chosen<'a> {
    /// A matcher of some rows whose keys can all be evaluated.
    pub(super) fn of(matcher: &'a DynBuiltJoin) -> Self {
        Self { matcher, unchecked: matcher.info().undecided, failed: None }
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
    pub(super) fn new(indexed: Indexed) -> Self {
        let Indexed { batch, matcher, failed, equalities, side, is_chunk, .. } = indexed;
        Self {
            batch,
            matcher,
            failed,
            fallback: OnceLock::new(),
            equalities,
            side,
            is_chunk,
            matched: indexed.matched,
            ranked: indexed.ranked,
            settling: indexed.settling,
            probing: AtomicUsize::new(indexed.partitions),
            next_stretch: AtomicUsize::new(0),
            threads: indexed.threads,
            at_work: AtomicUsize::new(0),
            candidates: indexed.candidates,
            reservation: indexed.reservation,
            audit: OnceLock::new(),
        }
    }

    /// Whether an index has a key of each row, and can be kept.
    pub(super) fn indexes_all_rows(&self) -> bool {
        self.failed.is_none() && self.matcher.info().unmatchable == 0 && self.matcher.kept().is_some()
    }

    /// What finds the pairs; of rows for which a fallback was prepared, where it says so.
    pub(super) fn matcher(&self, fallback: bool) -> Chosen<'_> {
        match self.fallback.get() {
            Some(Ok((matcher, failed))) if fallback => {
                Chosen { matcher: matcher.as_ref(), unchecked: true, failed: Some(failed) }
            }
            _ => {
                let unchecked = self.failed.is_some() || self.matcher.info().undecided;
                Chosen { matcher: self.matcher.as_ref(), unchecked, failed: self.failed.as_ref() }
            }
        }
    }

    /// Prepares a fallback for rows of which a key cannot be evaluated, given the error that said so.
    ///
    /// A plain join evaluates a condition for pairs that agree in their equalities only. To fail no earlier than it
    /// does, such rows are paired by these, and the condition is evaluated on the pairs.
    pub(super) fn fall_back(&self, error: DataFusionError) -> Result<Chosen<'_>> {
        let needless = self.failed.is_none() && is_about_values(&error);
        let Some(equalities) = self.equalities.as_ref().filter(|_| needless) else {
            return Err(error);
        };
        let cancel = Cancel::default();
        let reserve = |bytes| self.reservation.try_grow(bytes).map_err(engine_error);
        let context = BuildContext::new(self.threads, &cancel, &reserve);
        let build = || match equalities
            .build(BuildRows { side: self.side, batch: &self.batch, sent: None, kept: None, ranks: None }, &context)
        {
            Ok(matcher) => Ok((matcher, error)),
            Err(error) => Err(Arc::new(error)),
        };
        match self.fallback.get_or_init(build) {
            Ok(_) => Ok(self.matcher(true)),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }

    /// Rows of a self-join whose pairs are counted.
    pub(super) fn audit(&self) -> &Audit {
        self.audit.get_or_init(|| Audit::of_self_join(self.batch.num_rows()))
    }

    /// What the memory of more indexes is reserved beside.
    pub(super) fn reservation(&self) -> &MemoryReservation {
        &self.reservation
    }

    /// How many probe rows are best made ready at once.
    pub(super) fn rows_at_once(&self) -> usize {
        self.matcher.info().rows_at_once
    }

    /// Says that a partition is done; true for the last one, which emits what is left of the build side.
    pub(super) fn finish_partition(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The next positions of a self-join that the caller has to probe, `None` when all are taken.
    pub(super) fn claim_stretch(&self) -> Option<(usize, usize)> {
        let mut start = self.next_stretch.load(Ordering::Relaxed);
        loop {
            if start >= self.matcher.info().self_join_len {
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
        self.matcher.info().self_join_len == 0 && self.next_stretch.swap(1, Ordering::Relaxed) == 0
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
