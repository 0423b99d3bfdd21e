//! A sample of probe rows for which all pairs are looked at, so that a join says what it has found of them.

use crate::metrics::{Count, MetricValue};

/// Pairs that are looked at beside the join, about.
const PAIRS: usize = 100_000_000;
/// Rows of the sample at most, and of how many rows one is in it.
const MOST_ROWS: usize = 512;
const ROWS_FOR_EACH: usize = 64;

/// The sample and what has become of it.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// From each of so many probe rows one is in the sample.
    stride: usize,
    /// Pairs of these rows that satisfy the condition.
    pairs: Count,
    /// Pairs among them that the bands have found.
    found: Count,
}

impl Sampled {
    /// A sample of so many probe rows that each have so many partners by group and size.
    pub fn new(probe_rows: usize, partners: usize) -> Self {
        let rows = (PAIRS / partners.max(1)).clamp(1, MOST_ROWS).min((probe_rows / ROWS_FOR_EACH).max(1));
        Self { stride: (probe_rows / rows).max(1), pairs: Count::new(), found: Count::new() }
    }

    /// Whether a probe row is in the sample.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        row % self.stride == self.stride / 2
    }

    /// Notes how many pairs a row of the sample has, and how many of them were found.
    pub fn note(&self, pairs: usize, found: usize) {
        self.pairs.add(pairs);
        self.found.add(found);
    }

    /// The counts for EXPLAIN ANALYZE.
    pub fn metrics(&self) -> Vec<MetricValue> {
        let count = |name, count: &Count| MetricValue::Count { name, count: count.clone() };
        vec![count("recall_sample_pairs", &self.pairs), count("recall_sample_found", &self.found)]
    }
}
