//! Why an index is on the engine that it is on, for EXPLAIN ANALYZE.

use std::fmt::{Display, Formatter};

use crate::metrics::{Count, MetricValue};

use super::offload::WorkEstimate;

/// The metric that says how often the CPU has taken over from a device.
pub(super) const CPU_FALLBACKS: &str = "cpu_fallbacks";

/// Why a device does not have what it was to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Memory of the device that is ours is used up.
    Memory,
    /// Kernels for such keys do not exist.
    Keys,
    /// Device that cannot be used, and why.
    Device(String),
}

impl Display for Refused {
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
    pub(super) refused: Option<Refused>,
}

impl Reason {
    /// Reason for a build side that was meant for a device and is not there. The pair is the number of its rows and of
    /// those that match nothing: if all match nothing, nothing was refused.
    pub(super) fn but(self, refused: Refused, (rows, unmatchable): (usize, usize)) -> Self {
        Self { refused: (unmatchable < rows).then_some(refused), ..self }
    }

    /// What `auto` went by alone.
    pub(super) fn weighed(&self) -> Self {
        Self { refused: None, ..self.clone() }
    }

    /// A fallback where a device was to have it.
    pub fn metric(&self) -> Option<MetricValue> {
        self.refused.as_ref().map(|_| {
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
        match &self.refused {
            Some(refused) => write!(f, "; cpu: {refused}"),
            None => Ok(()),
        }
    }
}
