//! What takes links, and what it becomes.

use std::fmt::Debug;
use std::ops::Range;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Float64Type;

use crate::cancel::Cancel;
use crate::error::Result;
use crate::metrics::MetricValue;

/// Links of some batches, column by column.
#[derive(Debug, Default)]
pub struct LinkChunk {
    /// The first ids of each batch.
    pub left: Vec<ArrayRef>,
    /// The second ids of each batch.
    pub right: Vec<ArrayRef>,
    /// Scores of each batch as doubles; none where links have no score.
    pub scores: Vec<ArrayRef>,
}

impl LinkChunk {
    /// The score of each link, 1 where links have none.
    pub(super) fn each_score(&self) -> Box<dyn Iterator<Item = Option<f64>> + '_> {
        match self.scores.as_slice() {
            [] => Box::new(std::iter::repeat(Some(1.0))),
            scores => Box::new(scores.iter().flat_map(|scores| scores.as_primitive::<Float64Type>().iter())),
        }
    }
}

/// Takes links, from many threads at once.
pub trait LinkSink: Debug + Send + Sync {
    /// Adds links. A thread that brings some ten thousand at a time seldom waits for another.
    ///
    /// # Errors
    /// Ids of another type than announced, more than some four billion ids, or a score that the sink refuses.
    fn add(&self, chunk: &LinkChunk) -> Result<()>;

    /// Bytes held.
    fn memory(&self) -> usize;

    /// Bytes that [`finish`](Self::finish) needs at most beside those held.
    fn memory_to_finish(&self) -> usize;

    /// What the links say, found by up to `threads` threads.
    ///
    /// # Errors
    /// Once it is cancelled, or where the links cannot be answered for.
    fn finish(self: Box<Self>, threads: usize, cancel: &Cancel) -> Result<Box<dyn LinkTable>>;
}

/// A finished result.
pub trait LinkTable: Debug + Send + Sync {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// The columns of some rows.
    ///
    /// # Errors
    /// What a kernel of Arrow returns.
    fn columns(&self, rows: Range<usize>) -> Result<Vec<ArrayRef>>;

    /// The engine that has found it, and why, where that is not known beforehand.
    fn engine(&self) -> Option<&str> {
        None
    }

    /// What a device has counted, for EXPLAIN ANALYZE.
    fn metrics(&self) -> Vec<MetricValue> {
        Vec::new()
    }
}
