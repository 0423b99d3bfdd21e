//! What an index is built with, and what its probe batches are made ready with.

use crate::cancel::Cancel;
use crate::error::Result;
use crate::overrides::Overrides;
use crate::recall::Recall;

/// What an index is built with.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// How many threads the build may use.
    pub threads: usize,
    /// How many threads one call of a probe may use.
    pub probe_threads: usize,
    /// Whether the probe side is the build side itself ([`Probe::SelfJoin`](crate::Probe::SelfJoin)).
    pub self_join: bool,
    /// Rows that will be probed, where the planner knows.
    pub probe_rows: Option<usize>,
    /// The share of pairs that is to be found, where some may be missed.
    pub recall: Option<Recall>,
    /// What is forced in place of what the keys would decide.
    pub overrides: Overrides,
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
        Self {
            threads,
            probe_threads: threads,
            self_join: false,
            probe_rows: None,
            recall: None,
            overrides: Overrides::NONE,
            divides: false,
            cancel,
            reserve,
        }
    }

    /// How something is made ready as a part of this build.
    pub fn preparing(&self) -> PrepareContext<'a> {
        PrepareContext { threads: self.threads, cancel: self.cancel }
    }

    /// Rows of another side that will be probed: where nobody knows, as many as the build side has.
    pub(crate) fn expected_probe_rows(&self, build_rows: usize) -> usize {
        self.probe_rows.unwrap_or(build_rows)
    }
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
    pub(crate) fn by(threads: usize) -> Self {
        static NEVER: std::sync::LazyLock<Cancel> = std::sync::LazyLock::new(Cancel::default);
        Self { threads, cancel: &NEVER }
    }
}
