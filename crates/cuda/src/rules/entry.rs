//! An entry of a join of rules on a device: batches of its candidates walk the execution tree.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::accelerator::rules::{
    DeviceColumns, DeviceEntry, DeviceItems, DeviceRules, PlacedRows, ProbeRows, WalkedEntry,
};
use similarity_engine::error::{Result, internal_err};

use super::atoms::{RulesOnDevice, WORKERS};
use super::columns::ColumnsOnDevice;
use super::launches::{TreeLaunches, Unknown};
use super::probe_ranges::{PAIRS_OF_TASK, ProbeRanges};
use super::walk_buffers::{WalkBuffer, WalkingPairs};
use crate::buffer::Buffer;
use crate::equality::RowsByGroup;
use crate::fault::{Fault, placed};
use crate::kernels::{Appended, BatchOnDevice, Compared, NONE, Pair, Task, TaskList, TaskPortion};
use crate::replicate::{Replicate as _, replicated};
use crate::scheduler::Scheduler;
use crate::work_split::WorkSplit;
use crate::worker::Comparison;
use similarity_engine::atoms::RuleCounters;
use similarity_engine::offered::Offered;
use similarity_engine::{Cancel, Counts, Cursor, Pairs};

/// Pairs that walk a tree together at most.
const MOST_WALKING: usize = 1 << 22;

/// Bytes of each of them.
const WALKING_BYTES: usize = size_of::<Pair>() + size_of::<u8>() + size_of::<u16>() + 2 * size_of::<u32>();

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
    tree: TreeLaunches,
    /// Path of the entries before this one.
    earlier: TreeLaunches,
    /// Items of a self-join.
    self_join: Option<ProbeRanges>,
    /// Pairs that walk together.
    walking: usize,
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
        // more pairs pass the one and fewer the other than should, so that no match is lost to the host
        let tree = TreeLaunches::new(entry.tree, Unknown::Pass);
        let (Some(tree), Some(earlier)) = (tree, TreeLaunches::new(entry.earlier, Unknown::Fail)) else {
            return Ok(None);
        };
        if !rules.has(tree.atoms.iter().chain(&earlier.atoms).copied()) {
            return Ok(None);
        }
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
        let share = budget.available() / (4 * WORKERS * WALKING_BYTES);
        let walking = share.clamp(PAIRS_OF_TASK as usize, MOST_WALKING);
        stream.synchronize()?;
        Ok(Some(Self { rows, tree, earlier, self_join, walking, steps: Scheduler::new(Arc::clone(&rules.workers)) }))
    }
}

impl DeviceEntry for EntryOnDevice {
    fn prepare(&self, rules: &dyn DeviceRules, rows: &ProbeRows<'_>) -> Result<Option<Box<dyn DeviceItems>>> {
        let rules = RulesOnDevice::of(rules)?;
        let batch = |stream: Arc<CudaStream>| {
            // what was launched reads what others hold
            ProbeRanges::batch(&rules.budget, &stream, rows).inspect_err(|_| {
                let _ = stream.synchronize();
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
                tree: self.tree.clone(),
                earlier: self.earlier.clone(),
                self_join: self.self_join.replicate(to)?,
                walking: self.walking,
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
        let (start, before) = (cursor.next, (out.len(), counters.clone()));
        let walking = Walking {
            rules,
            entry: self,
            probe: probe.map(|(columns, _)| columns),
            items,
            kept: RefCell::new(None),
            counters: RefCell::new(&mut *counters),
        };
        match self.steps.step((items, items.len() as u32), cursor, |_, _| walking, cancel, out) {
            Err(Fault::Memory) => {
                out.truncate(before.0);
                *counters = before.1;
                Ok(None)
            }
            counts => {
                let candidates = items.pairs(start..cursor.next) as usize;
                Ok(Some(Counts { candidates, verified: candidates, ..counts? }))
            }
        }
    }
}

/// Some candidates on their way.
struct Walking<'a> {
    rules: &'a RulesOnDevice,
    entry: &'a EntryOnDevice,
    probe: Option<&'a ColumnsOnDevice>,
    items: &'a ProbeRanges,
    /// What the filter has left for the verification.
    kept: RefCell<Option<Kept>>,
    counters: RefCell<&'a mut RuleCounters>,
}

/// What the filter has left.
struct Kept {
    room: WalkBuffer,
    /// All candidates.
    pairs: usize,
}

/// Ranges of tasks that are up to `most` pairs each, and never fewer than one task.
fn portions(tasks: &[Task], most: usize) -> Vec<Range<usize>> {
    let mut portions = Vec::new();
    let (mut start, mut pairs) = (0, 0);
    for (at, task) in tasks.iter().enumerate() {
        let self_join = (task.end - task.first) as usize;
        if at > start && pairs + self_join > most {
            portions.push(start..at);
            (start, pairs) = (at, 0);
        }
        pairs += self_join;
    }
    portions.push(start..tasks.len());
    portions
}

impl Walking<'_> {
    fn compared(&self, stream: &Arc<CudaStream>, path: &TreeLaunches) -> Result<Vec<Compared>> {
        path.atoms.iter().map(|&atom| self.rules.compared(stream, atom, self.probe)).collect()
    }

    /// Launches the steps of a path over a batch.
    fn steps(
        &self,
        stream: &Arc<CudaStream>,
        path: &TreeLaunches,
        compared: &[Compared],
        batch: BatchOnDevice,
        numbers: &mut Buffer<u64>,
    ) -> Result<(), Fault> {
        let kernels = self.rules.budget.device.kernels().rules()?;
        path.steps
            .iter()
            .zip(compared)
            .try_for_each(|(step, compared)| kernels.step(stream, batch, *step, numbers, compared))
    }
}

impl Comparison for Walking<'_> {
    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        TaskList { on_device, on_host: tasks }: TaskList<'_>,
        candidates: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let (budget, EntryOnDevice { tree, walking: most_walking, .. }) = (&self.rules.budget, self.entry);
        let kernels = budget.device.kernels().rules()?;
        let portions = portions(tasks, *most_walking);
        let pairs =
            |portion: &Range<usize>| tasks[portion.clone()].iter().map(|task| (task.end - task.first) as usize).sum();
        let most = portions.iter().map(pairs).max().unwrap_or(0);
        let all: usize = portions.iter().map(pairs).sum();
        // what a launch that found no room has left is used again
        let left = self.kept.borrow_mut().take();
        let mut room = left.map_or_else(|| self.rules.rooms.take(stream), |left| left.room);
        let walking = WalkingPairs {
            pairs: room.pairs.of(budget, stream, most)?.address_mut(stream),
            count: room.count.of(budget, stream, 1)?.address_mut(stream),
            capacity: most,
            remembers: tree.remembers,
            are_there: false,
        };
        let batch = room.states.of(budget, stream, walking)?;
        let numbers = room.numbers.zeros(budget, stream, tree.numbers())?;
        let witnesses = room.witnesses.of(budget, stream, all.min(candidates.capacity as usize))?;
        let items = self.items.on_device(stream, self.entry.rows.buffer());
        let compared = self.compared(stream, tree)?;
        for portion in &portions {
            room.count.zeros(budget, stream, 1)?;
            let first = on_device.address(stream).add(portion.start);
            let tasks = TaskPortion { first, count: portion.len() as u32 };
            kernels.candidates(stream, items, tasks, tree.certain, tree.remembers, batch)?;
            self.steps(stream, tree, &compared, batch, numbers)?;
            kernels.witnessed(stream, batch, candidates, witnesses)?;
        }
        room.by_clause.zeros(budget, stream, self.counters.borrow().candidates.len())?;
        *self.kept.borrow_mut() = Some(Kept { room, pairs: all });
        Ok(())
    }

    fn verify(
        &self,
        stream: &Arc<CudaStream>,
        candidates: &Appended<'_>,
        pairs: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        let budget = &self.rules.budget;
        let mut kept = self.kept.borrow_mut();
        let Some(Kept { room, pairs: all }) = kept.as_mut() else { return Ok(()) };
        let earlier = &self.entry.earlier;
        if earlier.certain != NONE {
            // the entry before yields all of them
            return Ok(());
        }
        // there are no more of them than pairs
        let capacity = (*all).min(candidates.capacity as usize);
        let walking = WalkingPairs {
            // steps only read them
            pairs: candidates.pairs.address(stream).as_mut(),
            count: candidates.count.address(stream).as_mut(),
            capacity,
            remembers: earlier.remembers,
            are_there: true,
        };
        let batch = room.earlier.of(budget, stream, walking)?;
        let batch = BatchOnDevice { capacity: candidates.capacity, ..batch };
        let unused = room.unused.of(budget, stream, earlier.numbers())?;
        let compared = self.compared(stream, earlier)?;
        self.steps(stream, earlier, &compared, batch, unused)?;
        let witnesses = room.witnesses.of(budget, stream, capacity)?;
        let by_clause = room.by_clause.of(budget, stream, self.counters.borrow().candidates.len())?;
        budget.device.kernels().rules()?.unseen(stream, batch, witnesses, by_clause, pairs)
    }

    fn tallied(&self) -> usize {
        self.entry.tree.numbers() + self.counters.borrow().candidates.len()
    }

    fn fetch_tally(&self, stream: &Arc<CudaStream>, to: &mut [u64]) -> Result<(), Fault> {
        let (budget, mut kept) = (&self.rules.budget, self.kept.borrow_mut());
        let Some(Kept { room, .. }) = kept.as_mut() else { return Ok(()) };
        let (numbers, by_clause) = to.split_at_mut(self.entry.tree.numbers());
        budget.download(stream, room.numbers.of(budget, stream, numbers.len())?, numbers)?;
        budget.download(stream, room.by_clause.of(budget, stream, by_clause.len())?, by_clause)
    }

    fn done(&self, stream: &Arc<CudaStream>, counters: &[u64]) {
        let Some(Kept { room, pairs }) = self.kept.borrow_mut().take() else { return };
        self.rules.rooms.give_back(stream, room);
        let (numbers, by_clause) = counters.split_at(self.entry.tree.numbers());
        let mut counters = self.counters.borrow_mut();
        self.entry.tree.add(numbers, pairs, &mut counters);
        for (witnesses, &pairs) in counters.witnesses.iter_mut().zip(by_clause) {
            *witnesses += pairs as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_all_tasks() {
        let task = |pairs: u32| Task { probe: 0, first: 5, end: 5 + pairs };
        let tasks = [task(3), task(4), task(20), task(1), task(9)];
        assert_eq!(portions(&tasks, 10), [0..2, 2..3, 3..5]);
        assert_eq!(portions(&tasks[..2], 1), [0..1, 1..2]);
    }
}
