//! What an index counts while it is built and probed.
//!
//! Whoever runs a join shows these under their names. They go on counting after they are handed out.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A number that only grows; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Count(Arc<AtomicUsize>);

impl Count {
    /// A count of zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to it.
    pub fn add(&self, more: usize) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The number so far.
    pub fn value(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A duration that only grows; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Time(Count);

impl Time {
    /// No time at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds to it.
    pub fn add_duration(&self, more: Duration) {
        self.0.add(usize::try_from(more.as_nanos()).unwrap_or(usize::MAX));
    }

    /// Nanoseconds so far.
    pub fn value(&self) -> usize {
        self.0.value()
    }

    /// Adds the time until the timer is dropped.
    pub fn timer(&self) -> Timer<'_> {
        Timer { time: self, start: Instant::now() }
    }
}

/// A clock that runs until it is dropped.
pub struct Timer<'a> {
    time: &'a Time,
    start: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.time.add_duration(self.start.elapsed());
    }
}

/// A metric with its name.
#[derive(Debug, Clone)]
pub enum MetricValue {
    /// Something was counted.
    Count {
        /// The name that EXPLAIN ANALYZE shows.
        name: Cow<'static, str>,
        /// How many there are.
        count: Count,
    },
    /// Something took time.
    Time {
        /// The name that EXPLAIN ANALYZE shows.
        name: Cow<'static, str>,
        /// How long it took.
        time: Time,
    },
}

impl MetricValue {
    /// The name that EXPLAIN ANALYZE shows.
    pub fn name(&self) -> &str {
        match self {
            Self::Count { name, .. } | Self::Time { name, .. } => name,
        }
    }

    /// Metric under another name, which goes on counting.
    pub(crate) fn named(&self, name: String) -> Self {
        let name = name.into();
        match self {
            Self::Count { count, .. } => Self::Count { name, count: count.clone() },
            Self::Time { time, .. } => Self::Time { name, time: time.clone() },
        }
    }

    /// The count, or the nanoseconds.
    pub fn as_usize(&self) -> usize {
        match self {
            Self::Count { count, .. } => count.value(),
            Self::Time { time, .. } => time.value(),
        }
    }
}
