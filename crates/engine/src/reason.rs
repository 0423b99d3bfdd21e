//! Why an index is on the engine that it is on, for EXPLAIN ANALYZE.

use std::fmt::{Display, Formatter};

use crate::metrics::{Count, MetricValue};
use crate::offered::Declined;
use crate::work::WorkEstimate;

/// The metric that says how often the CPU has taken over from a device.
pub(super) const CPU_FALLBACKS: &str = "cpu_fallbacks";

/// What has decided for an engine.
#[derive(Debug, Clone, Default)]
pub struct Reason {
    /// What `auto` went by.
    pub(super) weighed: Option<WorkEstimate>,
    /// What was in the way of a device.
    pub(super) declined: Option<Declined>,
}

impl Reason {
    /// Reason for a build side of so many rows that a device has declined. Where all of them are unmatchable, there was
    /// nothing to decline.
    pub(super) fn but(self, declined: Declined, rows: usize, unmatchable: usize) -> Self {
        Self { declined: (unmatchable < rows).then_some(declined), ..self }
    }

    /// What `auto` went by alone.
    pub(super) fn weighed(&self) -> Self {
        Self { declined: None, ..self.clone() }
    }

    /// A fallback where a device was to have it.
    pub fn metric(&self) -> Option<MetricValue> {
        self.declined.as_ref().map(|_| {
            let count = Count::new();
            count.add(1);
            MetricValue::Count { name: CPU_FALLBACKS.into(), count }
        })
    }
}

/// What follows the description of an index.
impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if let Some(weighed) = &self.weighed {
            write!(f, "; {weighed}")?;
        }
        match &self.declined {
            Some(declined) => write!(f, "; cpu: {declined}"),
            None => Ok(()),
        }
    }
}
