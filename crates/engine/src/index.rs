//! The contract of an index: values for what is known once it is built, and verbs for what it does.
//!
//! ```text
//! keys of a build side --> Index --prepare--> Prepared<Batch> --probe----> pairs        PairIndex
//!                            |                                --nearest--> neighbours   NearestIndex
//!                          info()
//! ```

use std::fmt::Debug;

use crate::batch::{AnyBatch, Prepared, Probe};
use crate::cancel::Cancel;
use crate::context::PrepareContext;
use crate::cursor::{Cursor, Limit};
use crate::error::Result;
use crate::key_column::KeyColumn;
use crate::metrics::MetricValue;
use crate::pairs::{Counts, Pairs};
use crate::stored::{Store, stored};

/// Facts about an index, computed once when it is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexInfo {
    /// The access path that was chosen, and why, for EXPLAIN ANALYZE.
    pub path: String,
    /// Bytes held.
    pub bytes: usize,
    /// Rows of the build side that can never match (NULL, blank), or that have no score with any row.
    pub unmatchable: usize,
    /// Whether pairs may come out that the condition does not hold for, because of rows whose answer is DataFusion's
    /// alone.
    pub undecided: bool,
    /// Rows that a self-join probes: the length of the cursor over [`Probe::SelfJoin`].
    pub self_join_len: usize,
    /// How many rows of the probe side are best made ready at once, where it has as many.
    pub rows_at_once: usize,
    /// Whether what is left of a self-join that takes more than one call is faster where several threads share it.
    pub shared: bool,
}

impl Default for IndexInfo {
    /// An index that holds nothing, decides every pair, and is probed by all threads, row by row.
    fn default() -> Self {
        Self {
            path: String::new(),
            bytes: 0,
            unmatchable: 0,
            undecided: false,
            self_join_len: 0,
            rows_at_once: 1,
            shared: true,
        }
    }
}

stored!(IndexInfo { path, bytes, unmatchable, undecided, self_join_len, rows_at_once, shared });

/// A build side made ready for probing; shared by all probe partitions.
pub trait Index: Send + Sync + Debug {
    /// A probe batch in the form that the index wants.
    type Batch: Send + Sync + 'static;

    /// What is known of the index since it was built.
    fn info(&self) -> &IndexInfo;

    /// What it counts while it is built and probed, for EXPLAIN ANALYZE.
    fn metrics(&self) -> Vec<MetricValue> {
        Vec::new()
    }

    /// What writes the index for a later process; `None` where it has parts that no other process can have.
    fn stored(&self) -> Option<&dyn Store> {
        None
    }

    /// Makes a batch of the probe side ready.
    ///
    /// # Errors
    /// For keys that cannot be compared with the build side.
    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<Self::Batch>>;
}

/// An index that finds the pairs of a condition.
pub trait PairIndex: Index {
    /// The end of a stretch of a self-join from `start` on, before [`self_join_len`](IndexInfo::self_join_len), that is
    /// neither too much work for partitions to end together nor too little to be worth claiming.
    fn self_join_stretch(&self, start: usize) -> usize {
        even_stretch(start, self.info().self_join_len)
    }

    /// Appends matching pairs from `cursor` on until it is done or `limit` is reached, and moves `cursor`.
    ///
    /// Over [`Probe::SelfJoin`], every unordered pair of two different build rows comes out once over the whole
    /// range `0..self_join_len`, whichever way that range is cut between calls and threads.
    ///
    /// # Errors
    /// A batch where the index was built for a self-join, a self-join where it was not, a device that fails.
    fn probe(
        &self,
        probe: Probe<'_, Self::Batch>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts>;
}

/// An index that finds pairs, of whichever kind.
pub type DynPairIndex = dyn PairIndex<Batch = AnyBatch>;

/// The end of a stretch of `start..end` where all positions are about the same work.
pub fn even_stretch(start: usize, end: usize) -> usize {
    end.min(start + (end / 128).clamp(16, 4096))
}
