//! A probe batch, made ready for all entries.

use crate::cpu::columns::Columns;
use crate::devices::RulesBatch;
use crate::{AnyBatch, Prepared};

use super::on_device::DeviceProbe;
use super::places::ProbePlaces;

/// A probe batch ready for all clauses.
pub struct PreparedRules {
    pub(super) columns: Columns,
    /// Columns on a device, where some entries are walked there and it has memory for them.
    pub(super) on_device: Option<RulesBatch>,
    /// The batch as each entry reads it.
    pub(super) entries: Vec<PreparedEntry>,
    pub(super) unmatchable: usize,
}

impl PreparedRules {
    /// Rows for which no clause can hold, whatever the build side has.
    pub fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    /// The batch as an entry reads it.
    pub(super) fn entry(&self, entry: usize) -> EntryProbe<'_> {
        EntryProbe { prepared: &self.entries[entry], on_device: self.on_device.as_ref() }
    }
}

/// An entry's part of a probe batch.
pub(super) enum PreparedEntry {
    /// Probe rows with the places of their partners.
    Places(ProbePlaces),
    /// Probe batch of an index.
    Index(Prepared<AnyBatch>),
    /// Probe batch of which no row has a partner.
    Nothing,
}

/// A probe batch as one entry reads it.
#[derive(Clone, Copy)]
pub(super) struct EntryProbe<'a> {
    pub(super) prepared: &'a PreparedEntry,
    /// Columns on a device.
    on_device: Option<&'a RulesBatch>,
}

impl<'a> EntryProbe<'a> {
    /// The length of the cursor over the batch.
    pub(super) fn len(&self) -> usize {
        match self.prepared {
            PreparedEntry::Places(places) => places.len(),
            PreparedEntry::Index(prepared) => prepared.len,
            PreparedEntry::Nothing => 0,
        }
    }

    /// The batch on a device, where it is there.
    pub(super) fn on_device(&self) -> Option<DeviceProbe<'a>> {
        match self.prepared {
            PreparedEntry::Places(places) => Some(DeviceProbe { batch: self.on_device?, items: Some(places.items()?) }),
            PreparedEntry::Index(_) => Some(DeviceProbe { batch: self.on_device?, items: None }),
            PreparedEntry::Nothing => None,
        }
    }
}
