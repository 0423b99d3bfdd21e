//! An entry whose candidates are walked on a device.

use std::sync::Arc;

use crate::error::Result;

use crate::accelerator::rules::{DeviceColumns, DeviceEntry, DeviceItems, DeviceRules, ProbeRows};
use crate::atoms::RuleCounters;
use crate::{Cancel, Counts, Cursor, Pairs};

/// An entry on a device, with the rules that it is one of.
#[derive(Debug)]
pub(super) struct DeviceWalk {
    pub(super) rules: Arc<dyn DeviceRules>,
    pub(super) entry: Box<dyn DeviceEntry>,
}

impl DeviceWalk {
    /// Brings the probe rows that have partners; `None` where memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn prepare(&self, rows: &ProbeRows<'_>) -> Result<Option<Box<dyn DeviceItems>>> {
        self.entry.prepare(self.rules.as_ref(), rows)
    }
}

/// A probe batch on a device: its columns, and its rows that have partners.
#[derive(Clone, Copy)]
pub(super) struct DeviceProbe<'a> {
    pub(super) columns: &'a dyn DeviceColumns,
    pub(super) items: &'a dyn DeviceItems,
}

/// An entry on a device, and what it is probed with there.
pub(super) struct ProbedWalk<'a> {
    pub(super) walk: &'a DeviceWalk,
    /// Probe batch; a self-join has none.
    pub(super) probe: Option<DeviceProbe<'a>>,
}

impl ProbedWalk<'_> {
    /// Appends the matches among some of the candidates from `cursor` on. `None`, and nothing is done, where memory
    /// lacks.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn walk(
        &self,
        cursor: &mut Cursor,
        cancel: &Cancel,
        out: &mut Pairs,
        counters: &mut RuleCounters,
    ) -> Result<Option<Counts>> {
        let DeviceWalk { rules, entry } = self.walk;
        let probe = self.probe.map(|DeviceProbe { columns, items }| (columns, items));
        entry.walk(rules.as_ref(), probe, cursor, cancel, (out, counters))
    }
}
