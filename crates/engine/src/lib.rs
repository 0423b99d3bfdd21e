//! The engines: pairs of rows from key columns of a build and a probe side.
//!
//! An engine filters by bounds that lose nothing and decides by the measure itself. Nothing here knows SQL or
//! DataFusion: keys come as Arrow arrays, and whoever drives a join makes rows of the pairs.

#![deny(missing_docs)]

pub mod accelerator;
pub mod access_path;
pub mod atoms;
pub mod cache;
pub mod choice;
pub mod concat;
pub mod condition;
pub mod cpu;
pub mod equality;
pub mod error;
mod explain;
mod fallback;
pub mod metrics;
pub mod nearest;
pub mod numbering;
mod offload;
pub mod parallel;
pub mod plan;
pub mod reason;
pub mod repeated;
pub mod rules;
pub mod sets;
pub mod strings;
#[cfg(test)]
mod test_oracle;
pub mod vectors;
pub mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::ArrayRef;

pub use error::{Error, Result};

use accelerator::Accelerator;
use metrics::MetricValue;

/// Pairs of row numbers, one entry a pair in both columns.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Rows of the build side.
    pub build: Vec<u32>,
    /// Rows of the probe side.
    pub probe: Vec<u32>,
}

impl Pairs {
    /// Appends one pair.
    #[inline]
    pub fn push(&mut self, build: u32, probe: u32) {
        self.build.push(build);
        self.probe.push(probe);
    }

    /// Appends the pairs of some build rows with one probe row.
    #[inline]
    pub fn push_all(&mut self, build: impl Iterator<Item = u32>, probe: u32) {
        self.build.extend(build);
        self.probe.resize(self.build.len(), probe);
    }

    /// The build and the probe row at a place.
    #[inline(always)]
    pub fn at(&self, place: u16) -> (u32, u32) {
        (self.build[place as usize], self.probe[place as usize])
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.build.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.build.is_empty()
    }

    /// Forgets all pairs but the first ones.
    pub fn truncate(&mut self, count: usize) {
        self.build.truncate(count);
        self.probe.truncate(count);
    }

    /// Forgets the pairs and keeps the memory.
    pub fn clear(&mut self) {
        self.build.clear();
        self.probe.clear();
    }
}

/// Tells long loops that nobody waits for their result any more.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the work that shares this flag to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work should stop. A cancelled loop returns early; what it has produced is not used.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends what nobody waits for.
    ///
    /// # Errors
    /// Once it is cancelled.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// The group id of a row that has no partner by the equality keys (a NULL key, or a value that the build side lacks).
pub const NO_GROUP: u32 = u32::MAX;

/// One side's key column, and the group of each row where the join also has equality keys.
///
/// Rows of different groups never pair. Groups are dense ids given by the build side.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    /// One value a row; a NULL value never matches.
    pub values: ArrayRef,
    /// One group a row, or none where the join has no equality keys.
    pub groups: Option<Vec<u32>>,
}

/// Where a probe stands: which of its rows come next.
///
/// For a batch the rows are `0..rows` in the engine's own order; in a self-join they are positions of the index.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    /// The next row.
    pub next: usize,
    /// One past the last row.
    pub end: usize,
}

impl Cursor {
    /// Whether every row has been probed.
    pub fn is_done(&self) -> bool {
        self.next >= self.end
    }
}

/// What one call of [`Index::probe`] may do before it returns.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Return once this many pairs are there; the call may overshoot by what one step of it yields.
    pub pairs: usize,
    /// Return after about this much work, in pairs tested, so that the driver can report and be cancelled.
    pub work: usize,
}

/// What a probe has done so far.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Pairs that the access path produced.
    pub candidates: usize,
    /// Pairs whose score was computed.
    pub verified: usize,
    /// Pairs that matched.
    pub matched: usize,
}

/// What an index is built with.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// How many threads the build may use.
    pub threads: usize,
    /// Whether the probe side is the build side itself ([`Probe::SelfJoin`]).
    pub self_join: bool,
    /// Rows that will be probed, where the planner knows.
    pub probe_rows: Option<usize>,
    /// The device of the join, where it was [sent columns](accelerator::prefetch::ColumnPrefetch) ahead.
    pub device: Option<&'a Arc<dyn Accelerator>>,
    /// Whether the caller divides keys that a device has no memory for, and is to be told so; the CPU takes them
    /// otherwise.
    pub divides: bool,
    /// Stops the build.
    pub cancel: &'a Cancel,
    /// Asked before memory is taken, with the bytes that come on top; an error ends the build.
    pub reserve: &'a (dyn Fn(usize) -> Result<()> + Sync),
}

impl<'a> BuildContext<'a> {
    /// A build by so many threads for another side, of which nothing is known.
    pub fn new(threads: usize, cancel: &'a Cancel, reserve: &'a (dyn Fn(usize) -> Result<()> + Sync)) -> Self {
        Self { threads, self_join: false, probe_rows: None, device: None, divides: false, cancel, reserve }
    }

    /// Rows of another side that will be probed: where nobody knows, as many as the build side has.
    fn expected_probe_rows(&self, build_rows: usize) -> usize {
        self.probe_rows.unwrap_or(build_rows)
    }
}

/// A build side made ready for probing; shared by all probe partitions.
pub trait Index: Send + Sync + std::fmt::Debug {
    /// The access path that was chosen, and why, for EXPLAIN ANALYZE.
    fn describe(&self) -> String;

    /// Bytes held.
    fn memory(&self) -> usize;

    /// Rows of the build side that can never match (NULL, blank).
    fn unmatchable(&self) -> usize;

    /// What it counts while it is built and probed, for EXPLAIN ANALYZE.
    fn metrics(&self) -> Vec<MetricValue> {
        Vec::new()
    }

    /// Whether pairs may come out that the condition does not hold for, because of rows whose answer is DataFusion's
    /// alone.
    fn is_undecided(&self) -> bool {
        false
    }

    /// Rows that a self-join probes: the length of the cursor over [`Probe::SelfJoin`].
    fn self_join_len(&self) -> usize;

    /// The end of a stretch of a self-join from `start` on, before [`self_join_len`](Self::self_join_len), that is neither
    /// too much work for partitions to end together nor too little to be worth claiming.
    fn self_join_stretch(&self, start: usize) -> usize {
        even_stretch(start, self.self_join_len())
    }

    /// How many rows of the probe side are best made ready at once, where it has as many.
    fn rows_at_once(&self) -> usize {
        1
    }

    /// Whether what is left of a batch, or of a self-join, that takes more than one call is faster where several
    /// threads share it.
    fn is_shared(&self, _probe: Option<&dyn PreparedProbe>) -> bool {
        true
    }

    /// Makes a batch of the probe side ready.
    ///
    /// # Errors
    /// For keys that cannot be compared with the build side.
    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Box<dyn PreparedProbe>>;

    /// Appends matching pairs from `cursor` on until it is done or `limit` is reached, and moves `cursor`.
    ///
    /// Over [`Probe::SelfJoin`], every unordered pair of two different build rows comes out once over the whole
    /// range `0..self_join_len()`, whichever way that range is cut between calls and threads.
    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts>;
}

/// How a probe batch is made ready.
#[derive(Debug, Clone, Copy)]
pub struct PrepareContext<'a> {
    /// Threads that may prepare a batch.
    pub threads: usize,
    /// Ends it: what has been made so far is not used.
    pub cancel: &'a Cancel,
}

#[cfg(test)]
impl PrepareContext<'static> {
    /// Context with so many threads that is never cancelled.
    fn by(threads: usize) -> Self {
        static NEVER: std::sync::LazyLock<Cancel> = std::sync::LazyLock::new(Cancel::default);
        Self { threads, cancel: &NEVER }
    }
}

/// Parts of the engines that tests on devices and benches look into. They are no interface.
#[doc(hidden)]
#[allow(missing_docs)]
pub mod internals {
    pub use crate::cpu::columns::{AtomDeciders, BuildAtoms, Columns};
    pub use crate::cpu::fingerprints::{Detail, Fingerprints, bound, mix};
    pub use crate::equality::DeviceGroups;
    pub use crate::fallback::LongStrings;
    pub use crate::offload::ROWS_OF_RULES;
    pub use crate::rules::internals::*;
}

/// The end of a stretch of `start..end` where all positions are about the same work.
pub fn even_stretch(start: usize, end: usize) -> usize {
    end.min(start + (end / 128).clamp(16, 4096))
}

/// What is probed.
#[derive(Clone, Copy)]
pub enum Probe<'a> {
    /// A prepared batch of another input.
    Batch(&'a dyn PreparedProbe),
    /// The build side itself.
    SelfJoin,
}

/// A probe batch in the form that its index wants.
pub trait PreparedProbe: Send + Sync + std::any::Any {
    /// The length of the cursor over this batch.
    fn len(&self) -> usize;

    /// Whether there is nothing to probe.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows that can never match (NULL, blank, or no partner by the equality keys).
    fn unmatchable(&self) -> usize;

    /// Whether pairs may come out that the condition does not hold for, because of rows of this batch (see
    /// [`Index::is_undecided`]).
    fn is_undecided(&self) -> bool {
        false
    }

    /// Value as `Any`, so that an index recognises what it has prepared.
    fn as_any(&self) -> &dyn std::any::Any;
}

impl dyn PreparedProbe {
    /// What the index of this type has prepared.
    ///
    /// # Errors
    /// A batch that another index has prepared.
    pub fn of<T: PreparedProbe>(&self) -> Result<&T> {
        match self.as_any().downcast_ref() {
            Some(prepared) => Ok(prepared),
            None => internal_err!("an index was given a probe batch that it did not prepare"),
        }
    }
}
