//! Where an index lies, and why, for EXPLAIN ANALYZE.

use std::fmt::{Display, Formatter};

use crate::metrics::{Count, MetricValue};

use super::offload::WorkEstimate;

/// The metric that says how often the CPU has taken over from a device.
pub(super) const CPU_FALLBACKS: &str = "cpu_fallbacks";

/// What became of keys that a device was to have.
#[derive(Debug)]
pub enum Placement<T> {
    /// The device has them.
    Device(T),
    /// The CPU is left to take them.
    Declined(Declined),
}

impl<T> Placement<T> {
    /// Changes what is on the device.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Placement<U> {
        match self {
            Self::Device(placed) => Placement::Device(form(placed)),
            Self::Declined(why) => Placement::Declined(why),
        }
    }

    /// What is on the device, if anything is.
    pub fn device(self) -> Option<T> {
        match self {
            Self::Device(placed) => Some(placed),
            Self::Declined(_) => None,
        }
    }
}

/// Why a device does not have what it was to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declined {
    /// Memory of the device that is ours is used up.
    Memory,
    /// Kernels for such keys do not exist.
    Keys,
    /// Device that cannot be used, and why.
    Device(String),
}

impl Display for Declined {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("the device has no memory left for it"),
            Self::Keys => f.write_str("there are no kernels for such values"),
            Self::Device(reason) => f.write_str(reason),
        }
    }
}

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
            MetricValue::Count { name: CPU_FALLBACKS, count }
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
