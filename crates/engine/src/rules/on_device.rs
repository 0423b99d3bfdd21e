//! An entry whose candidates are walked on devices.

use std::sync::Arc;

use crate::error::Result;

use crate::accelerator::rules::{DeviceItems, ProbeRows};
use crate::atoms::RuleCounters;
use crate::devices::{ReplicatedRules, RulesBatch};
use crate::{Cancel, Counts, Cursor, Pairs};

/// An entry on devices, with the rules that it is one of.
#[derive(Debug, Clone)]
pub(super) struct DeviceWalk {
    pub(super) rules: Arc<ReplicatedRules>,
    /// Place in the plan.
    pub(super) entry: usize,
    /// Whether some build rows are unknown there, so that the host decides their pairs.
    pub(super) has_unknown: bool,
    /// Fewest pairs of an index that it decides.
    pub(super) fewest_found: usize,
}

/// Fewest pairs of an index that a device decides. The amount is by design: some launches for each step of two trees.
pub(super) const WORTH_LAUNCHES: usize = 1 << 14;

/// Pairs that an index is asked for at once, where a device decides them.
pub(super) const PAIRS_AT_ONCE: usize = 1 << 18;

/// A probe batch that a device has, for an entry that is walked there.
#[derive(Clone, Copy)]
pub(super) struct WalkedBatch<'a> {
    pub(super) walk: &'a DeviceWalk,
    pub(super) batch: &'a RulesBatch,
}

impl WalkedBatch<'_> {
    /// Brings the probe rows that have partners; `None` where the device cannot take them.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(super) fn prepare(self, rows: &ProbeRows<'_>) -> Result<Option<Box<dyn DeviceItems>>> {
        self.walk.rules.prepare_entry(self.walk.entry, self.batch, rows)
    }
}

/// A probe batch on a device: its columns, and its rows that have partners, where no index finds these.
#[derive(Clone, Copy)]
pub(super) struct DeviceProbe<'a> {
    pub(super) batch: &'a RulesBatch,
    pub(super) items: Option<&'a dyn DeviceItems>,
}

/// An entry on devices, and what it is probed with there.
pub(super) struct ProbedWalk<'a> {
    pub(super) walk: &'a DeviceWalk,
    /// Probe batch; a self-join has none.
    pub(super) probe: Option<DeviceProbe<'a>>,
}

impl ProbedWalk<'_> {
    /// Whether some rows are unknown on the device, so that the host decides their pairs.
    pub(super) fn has_unknown(&self) -> bool {
        self.walk.has_unknown || self.probe.as_ref().is_some_and(|probe| probe.batch.has_unknown())
    }

    /// Appends the matches among some of the candidates from `cursor` on. `None`, and nothing is done, where no device
    /// can.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(super) fn walk(
        &self,
        cursor: &mut Cursor,
        cancel: &Cancel,
        out: &mut Pairs,
        counters: &mut RuleCounters,
    ) -> Result<Option<Counts>> {
        let probe = match self.probe {
            None => None,
            Some(DeviceProbe { batch, items: Some(items) }) => Some((batch, items)),
            Some(DeviceProbe { items: None, .. }) => return Ok(None),
        };
        self.walk.rules.walk(self.walk.entry, probe, cursor, cancel, (out, counters))
    }

    /// Appends the matches among pairs that an index has `found`. `None`, and nothing is done, where no device can.
    ///
    /// # Errors
    /// Errors that no device is to blame for.
    pub(super) fn decide(
        &self,
        found: &Pairs,
        cancel: &Cancel,
        out: &mut Pairs,
        counters: &mut RuleCounters,
    ) -> Result<Option<Counts>> {
        let batch = self.probe.map(|probe| probe.batch);
        self.walk.rules.decide(self.walk.entry, batch, found, cancel, (out, counters))
    }
}
