//! An entry of a join of rules on a device by equalities or by a band, which finds its candidates there.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::accelerator::rules::{
    DeviceColumns, DeviceEntry, DeviceItems, DeviceRules, PlacedRows, ProbeRows, WalkedEntry,
};
use similarity_engine::error::{Result, internal_err};

use super::atoms::{RulesOnDevice, WORKERS};
use super::probe_ranges::ProbeRanges;
use super::walking::{Source, TreesOnDevice, Walking};
use crate::buffer::Buffer;
use crate::equality::RowsByGroup;
use crate::fault::{Fault, placed};
use crate::replicate::{Replicate as _, replicated};
use crate::scheduler::Scheduler;
use crate::wait::wait;
use crate::work_split::WorkSplit;
use similarity_engine::atoms::RuleCounters;
use similarity_engine::offered::Offered;
use similarity_engine::{Cancel, Counts, Cursor, Pairs};

/// Parts of a self-join that is walked by a single entry: enough for copies and kernels to overlap.
const PARTS: usize = 4;

/// Parts of each of so many entries, which are walked side by side. Each launch takes a while to begin and to end.
pub(super) fn parts_of_entry(entries: usize) -> u64 {
    (WORKERS / entries.max(1)).clamp(1, PARTS) as u64
}

/// An entry by equalities or by a band.
#[derive(Debug)]
pub struct EntryOnDevice {
    rows: RowsOnDevice,
    trees: TreesOnDevice,
    /// Items of a self-join.
    self_join: Option<ProbeRanges>,
    steps: Scheduler,
}

/// Build rows by place.
#[derive(Debug)]
enum RowsOnDevice {
    Uploaded(Buffer<u32>),
    Grouped(Arc<RowsByGroup>),
}

impl RowsOnDevice {
    fn buffer(&self) -> &Buffer<u32> {
        match self {
            Self::Uploaded(rows) => rows,
            Self::Grouped(grouped) => grouped.rows_on_device(),
        }
    }
}

impl EntryOnDevice {
    /// Brings an entry to the device, unless its trees ask what is not there, or memory lacks.
    ///
    /// # Errors
    /// A device that fails.
    pub(crate) fn try_new(rules: &RulesOnDevice, entry: &WalkedEntry<'_>) -> Result<Offered<Self>> {
        placed(Self::arrange(rules, entry))
    }

    fn arrange(rules: &RulesOnDevice, entry: &WalkedEntry<'_>) -> Result<Option<Self>, Fault> {
        let budget = &rules.budget;
        let Some(trees) = TreesOnDevice::new(rules, entry.trees) else { return Ok(None) };
        let stream = budget.device.stream()?;
        let rows = match &entry.rows {
            PlacedRows::OnHost(rows) => RowsOnDevice::Uploaded(budget.upload(&stream, rows)?),
            PlacedRows::Grouped(grouped) => match Arc::clone(grouped).into_any().downcast() {
                Ok::<Arc<RowsByGroup>, _>(grouped) if grouped.budget().is_of_device_of(budget) => {
                    RowsOnDevice::Grouped(grouped)
                }
                // grouped by another device
                Ok(_) | Err(_) => RowsOnDevice::Uploaded(budget.upload(&stream, &grouped.rows()?)?),
            },
        };
        let self_join =
            match entry.behind.as_ref().map(|behind| ProbeRanges::self_join(budget, &stream, behind)).transpose()? {
                Some(None) => return Ok(None),
                self_join => self_join.flatten().map(|self_join| self_join.in_parts(entry.parts)),
            };
        wait(&stream)?;
        Ok(Some(Self { rows, trees, self_join, steps: Scheduler::new(Arc::clone(&rules.workers)) }))
    }
}

impl DeviceEntry for EntryOnDevice {
    fn prepare(&self, rules: &dyn DeviceRules, rows: &ProbeRows<'_>) -> Result<Option<Box<dyn DeviceItems>>> {
        let rules = RulesOnDevice::of(rules)?;
        let batch = |stream: Arc<CudaStream>| {
            // what was launched reads what others hold
            ProbeRanges::batch(&rules.budget, &stream, rows).inspect_err(|_| {
                let _ = wait(&stream);
            })
        };
        match rules.budget.device.stream().and_then(batch) {
            Err(Fault::Memory) => Ok(None),
            items => Ok(items?.map(|items| Box::new(items) as Box<dyn DeviceItems>)),
        }
    }

    fn replicate(&self, to: &dyn DeviceRules) -> Result<Offered<Box<dyn DeviceEntry>>> {
        let rules = RulesOnDevice::of(to)?;
        let copy = replicated(&rules.budget, |to| {
            Ok(Self {
                rows: RowsOnDevice::Uploaded(self.rows.buffer().replicate(to)?),
                trees: self.trees.clone(),
                self_join: self.self_join.replicate(to)?,
                steps: Scheduler::new(Arc::clone(&rules.workers)),
            })
        })?;
        Ok(copy.map(|entry| Box::new(entry) as Box<dyn DeviceEntry>))
    }

    fn self_join_stretch(&self, start: usize) -> usize {
        self.self_join.as_ref().map_or(start, |self_join| self_join.part(start as u32, self_join.len() as u32) as usize)
    }

    fn memory(&self) -> usize {
        self.self_join.as_ref().map_or(0, ProbeRanges::memory)
    }

    fn walk(
        &self,
        rules: &dyn DeviceRules,
        probe: Option<(&dyn DeviceColumns, &dyn DeviceItems)>,
        cursor: &mut Cursor,
        cancel: &Cancel,
        (out, counters): (&mut Pairs, &mut RuleCounters),
    ) -> Result<Option<Counts>> {
        let rules = RulesOnDevice::of(rules)?;
        let probe = match probe {
            Some((columns, items)) => match (columns.as_any().downcast_ref(), items.as_any().downcast_ref()) {
                (Some(columns), Some(items)) => Some((columns, items)),
                _ => return internal_err!("an entry on a device was given a batch that it did not prepare"),
            },
            None => None,
        };
        let Some(items) = probe.map(|(_, items)| items).or(self.self_join.as_ref()) else { return Ok(None) };
        let start = cursor.next;
        let (columns, source) = (probe.map(|(columns, _)| columns), Source::Ranges(items, self.rows.buffer()));
        let walking = Walking::new(rules, &self.trees, columns, source, counters);
        match self.steps.step((items, items.len() as u32), cursor, |_, _| walking, cancel, out) {
            Err(Fault::Memory) => Ok(None),
            counts => {
                let candidates = items.pairs(start..cursor.next) as usize;
                Ok(Some(Counts { candidates, verified: candidates, ..counts? }))
            }
        }
    }
}
