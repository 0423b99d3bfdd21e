//! Rows that have found a partner, in joins that ask for no more than that: semi and anti joins.
//!
//! An index finds all partners of a row, of which the first one settles it. Where most pairs are about rows that are
//! settled, such rows are kept away from the index. The way depends on the side that comes out.
//!
//! ```text
//! probe rows   batch --> index of 16 build rows --rest--> of 256 --rest--> .. --rest--> of all rows
//! build rows   index of all rows --settled rows out--> index of the others --settled rows out--> ..
//! ```
//!
//! A row with many partners has one among few build rows, taken from everywhere. A row that has a share `p` of them
//! costs about `16 p` pairs by the first index. Each further one adds some six pairs at most, however many rows it has.
//!
//! Indexes are built once so many pairs were found in vain that building takes no longer. A join whose rows have few
//! partners never comes to that. Where the conditions are cheap and the index leaves a large share of all pairs, the
//! condition itself is evaluated instead, row by row until its first partner (`nested`). That is a nested loop join
//! that stops early.
//!
//! Memory: the rows of these indexes once more, and the indexes. Where the pool refuses it, the index of all rows goes
//! on.

mod nested;
mod probing;
mod settles;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use foldhash::fast::FixedState;

use self::nested::Nested;
pub(super) use self::settles::Settles;
use super::engine::{EngineResult, engine_error};
use super::strategy::DynBuiltJoin;
use similarity_engine::{BuildContext, Cancel, Erased};

/// Build rows of the first sample, and by how much the next one is larger.
const SAMPLE: usize = 16;
/// Pairs in vain that take as long as to index a row, and the fewest that are worth a look.
const PAIRS_A_ROW: usize = 16;
const FEWEST_IN_VAIN: usize = 4096;
/// An index that leaves this part of all pairs saves less than a pair of it costs more.
const DENSE: usize = 8;
/// Pairs after which that is asked.
const FEWEST_EXAMINED: usize = 1 << 18;
/// Rows over which a condition is evaluated at least, for evaluating it to be cheap.
const FEWEST_AT_ONCE: usize = 1024;
/// A sample that settles less than this part of the rows is left out, once it has been tried on enough.
const FEW_SETTLED: usize = 8;
const TRIED: usize = 1024;

/// What one step has done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Done {
    /// Pairs that satisfy everything, and how many of them have settled a row.
    pub(super) pairs: usize,
    pub(super) settled: usize,
    /// Candidates that were no such pairs.
    pub(super) failed: usize,
}

/// Some rows of a build side, and what finds their partners.
#[derive(Debug)]
pub(super) struct Part {
    pub batch: RecordBatch,
    /// The number of each row in the build side; none where they are all of it.
    rows: Option<Vec<u32>>,
    pub matcher: Box<DynBuiltJoin>,
    /// Whether the matcher has asked the whole condition.
    pub decides: bool,
    /// Probe rows that were tried, and those of them that were settled.
    tried: AtomicUsize,
    settled: AtomicUsize,
    _reservation: Option<MemoryReservation>,
}

impl Part {
    /// A row in the build side.
    pub(super) fn row(&self, row: u32) -> u32 {
        self.rows.as_ref().map_or(row, |rows| rows[row as usize])
    }

    fn is_useful(&self) -> bool {
        let tried = self.tried.load(Ordering::Relaxed);
        tried < TRIED || self.settled.load(Ordering::Relaxed) * FEW_SETTLED >= tried
    }
}

/// Indexes rows of the build side.
type IndexRows = dyn Fn(&RecordBatch, &BuildContext<'_>) -> Result<Box<DynBuiltJoin>> + Send + Sync;

/// What a build side knows of rows that are settled.
pub(super) struct Settling {
    settles: Settles,
    index: Box<IndexRows>,
    /// Whether the condition costs no more than a look at a pair, and a plain join would evaluate it for all pairs.
    is_cheap: bool,
    /// Pairs of settled rows, since an index was last built.
    in_vain: AtomicUsize,
    /// Candidates of the last index that did not satisfy the condition, and how many pairs there were.
    failed: AtomicUsize,
    examined: AtomicUsize,
    /// Whether the condition is evaluated for all pairs that are left.
    is_dense: AtomicBool,
    /// Samples of the build side, small ones first; or its rows that are not settled, the last of several.
    parts: RwLock<Vec<Arc<Part>>>,
    building: Mutex<()>,
    /// Probe rows claimed of a self-join whose index is not asked any more.
    claimed: AtomicUsize,
    counters: Counters,
}

/// For EXPLAIN ANALYZE.
#[derive(Debug)]
pub(super) struct Counters {
    /// Indexes over some of the rows.
    pub indexes: Count,
    /// Batches for which the condition was evaluated.
    pub nested: Count,
}

impl fmt::Debug for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settling").field("settles", &self.settles).field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Settling {
    /// For a build side whose rows `index` indexes; and what it counts.
    pub(super) fn new(settles: Settles, index: Box<IndexRows>, is_cheap: bool, counters: Counters) -> Self {
        Self {
            settles,
            index,
            is_cheap,
            in_vain: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            examined: AtomicUsize::new(0),
            is_dense: AtomicBool::new(false),
            parts: RwLock::default(),
            building: Mutex::default(),
            claimed: AtomicUsize::new(0),
            counters,
        }
    }

    fn parts(&self) -> Vec<Arc<Part>> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last(&self) -> Option<Arc<Part>> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    /// Takes note of pairs that told nothing new, and says whether building an index of `rows` rows takes no longer.
    fn is_in_vain(&self, pairs: usize, rows: usize) -> bool {
        self.in_vain.fetch_add(pairs, Ordering::Relaxed) + pairs >= (PAIRS_A_ROW * rows).max(FEWEST_IN_VAIN)
    }

    /// Takes note of how many of so many pairs an index has left in vain.
    fn examine(&self, failed: usize, pairs: usize) {
        let failed = self.failed.fetch_add(failed, Ordering::Relaxed) + failed;
        let examined = self.examined.fetch_add(pairs, Ordering::Relaxed) + pairs;
        if self.is_cheap {
            let is_dense = failed >= FEWEST_EXAMINED && failed.saturating_mul(DENSE) >= examined;
            self.is_dense.store(is_dense, Ordering::Relaxed);
        }
    }

    fn is_dense(&self) -> bool {
        self.is_dense.load(Ordering::Relaxed)
    }

    /// How many build rows the next sample has; none where it would be most of `rows` rows.
    fn next_sample(&self, rows: usize) -> Option<usize> {
        let samples = self.parts.read().unwrap_or_else(PoisonError::into_inner).len() as u32;
        SAMPLE.checked_pow(samples + 1).filter(|sample| sample.saturating_mul(4) <= rows)
    }

    /// Indexes `rows` of `batch` and keeps the part, as the only one or behind the others. Does nothing where another
    /// thread is about it, or where memory is refused.
    fn build(
        &self,
        (batch, rows): (&RecordBatch, Vec<u32>),
        threads: usize,
        cancel: &Cancel,
        reservation: &MemoryReservation,
    ) -> Result<bool> {
        let Ok(_building) = self.building.try_lock() else { return Ok(false) };
        self.in_vain.store(0, Ordering::Relaxed);
        let batch = taken(batch, &rows)?;
        let reservation = reservation.new_empty();
        let bytes = get_record_batch_memory_size(&batch) + rows.len() * size_of::<u32>();
        if reservation.try_grow(bytes).is_err() {
            return Ok(false);
        }
        let reserve = |bytes| reservation.try_grow(bytes).map_err(engine_error);
        let context = BuildContext::new(threads, cancel, &reserve);
        let Ok(matcher) = (self.index)(&batch, &context) else {
            // the index of all rows goes on
            cancel.check().or_datafusion()?;
            return Ok(false);
        };
        self.counters.indexes.add(1);
        self.keep(Part::new(batch, Some(rows), matcher, Some(reservation)));
        Ok(true)
    }

    fn keep(&self, part: Part) {
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        if self.settles == Settles::Build {
            parts.clear();
        }
        parts.push(Arc::new(part));
        [&self.failed, &self.examined].into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

impl Part {
    fn new(
        batch: RecordBatch,
        rows: Option<Vec<u32>>,
        matcher: Box<DynBuiltJoin>,
        reservation: Option<MemoryReservation>,
    ) -> Self {
        let (tried, settled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { batch, rows, matcher, decides: false, tried, settled, _reservation: reservation }
    }

    /// Rows whose partners are found by the condition alone.
    fn nested(nested: Nested, rows: Option<Vec<u32>>) -> Self {
        let batch = nested.build.clone();
        Self { decides: true, ..Self::new(batch, rows, Box::new(Erased(nested)), None) }
    }
}

/// Some rows of a batch, which may have no columns.
fn taken(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch> {
    if batch.num_columns() > 0 {
        return Ok(take_record_batch(batch, &UInt32Array::from(rows.to_vec()))?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), Vec::new(), &options)?)
}

/// So many of `rows` rows, one from each of as many stretches.
fn sample(count: usize, rows: usize) -> Vec<u32> {
    let hasher = FixedState::default();
    let first = |stretch: usize| stretch * rows / count;
    let row = |stretch: usize| {
        let (start, end) = (first(stretch), first(stretch + 1));
        (start + hasher.hash_one(start) as usize % (end - start)) as u32
    };
    (0..count).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_different_rows_from_everywhere() {
        for (count, rows) in [(1, 1), (16, 16), (16, 64), (256, 40_000)] {
            let sample = sample(count, rows);
            assert!(sample.len() == count && sample.is_sorted_by(|one, other| one < other));
            assert!(sample.iter().all(|&row| (row as usize) < rows));
        }
    }
}
