//! A sample of probe rows for which all pairs are looked at, so that a join says what it has found of them. The result
//! stays as it is.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Result;
use crate::metrics::{Count, MetricValue};
use crate::stored::{Sink, Source, Store, Stored};

/// The share of the time of a join that its sample may take.
const SHARE: f64 = 0.05;
/// Rows of the sample, where one in [`ROWS_FOR_EACH`] is as many.
const ROWS: (f64, f64) = (8.0, 512.0);
const ROWS_FOR_EACH: usize = 64;

/// The sample and what has become of it.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// From each of so many probe rows one is in the sample, by a key of its content.
    stride: u32,
    /// Rows that the sample may still take: alike rows are in it together.
    left: AtomicUsize,
    /// Pairs of these rows that satisfy the condition.
    pairs: Count,
    /// Pairs among them that the bands have found.
    found: Count,
}

impl Store for Sampled {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.stride.store(sink)?;
        self.left.load(Ordering::Relaxed).store(sink)
    }
}

impl Stored for Sampled {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let (stride, left) = (u32::load(source)?, usize::load(source)?);
        Ok(Self { stride: stride.max(1), left: AtomicUsize::new(left), pairs: Count::new(), found: Count::new() })
    }
}

impl Sampled {
    /// A sample of so many probe rows. To compare one of them with all others takes `of_row` nanoseconds, and the join
    /// `of_join`.
    pub fn new(probe_rows: usize, of_row: f64, of_join: f64) -> Self {
        let rows = (SHARE * of_join / of_row.max(1.0)).clamp(ROWS.0, ROWS.1) as usize;
        let rows = rows.min((probe_rows / ROWS_FOR_EACH).max(1));
        let stride = u32::try_from(probe_rows / rows).unwrap_or(u32::MAX).max(1);
        Self { stride, left: AtomicUsize::new(2 * rows), pairs: Count::new(), found: Count::new() }
    }

    /// Whether the probe row with this key is in the sample.
    #[inline]
    pub fn takes(&self, key: u32) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        key.is_multiple_of(self.stride)
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Notes how many pairs a row of the sample has, and how many of them were found.
    pub fn note(&self, pairs: usize, found: usize) {
        self.pairs.add(pairs);
        self.found.add(found);
    }

    /// The counts for EXPLAIN ANALYZE.
    pub fn metrics(&self) -> Vec<MetricValue> {
        let count = |name: &'static str, count: &Count| MetricValue::Count { name: name.into(), count: count.clone() };
        vec![count("recall_sample_pairs", &self.pairs), count("recall_sample_found", &self.found)]
    }
}
