//! Connected components of links that are sent here.
//!
//! The device keeps ids in a hash table and a tree of its slots for each component, and no link: a link makes one tree
//! of two at once. Threads send links by streams of their own and take turns at the table. It grows before links come
//! that may not find room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaStream};
use similarity_engine::Cancel;
use similarity_engine::accelerator::components::{DeviceComponents, LinkedIds, PIECE};
use similarity_engine::error::Result;
use similarity_engine::offered::Offered;
use similarity_engine::parallel::each_in_turn;

use crate::buffer::Buffer;
use crate::fault::{Fault, placed};
use crate::kernels::{IdTable, LeastIds};
use crate::memory::Budget;
use crate::transfers::pieces;
use crate::wait::wait;

/// Links of a launch at most.
const LINKS: usize = 1 << 20;

/// Slots of a table at least, and at most: a slot has a number of 32 bits that is never the greatest one.
const FEWEST_SLOTS: usize = 1 << 10;
const MOST_SLOTS: usize = 1 << 31;

/// The bit of a number's sign.
const SIGN: u64 = 1 << 63;

/// Components on a device.
#[derive(Debug)]
pub(super) struct ComponentsOnDevice {
    budget: Budget,
    stream: Arc<CudaStream>,
    /// What makes the order of ids that of numbers without a sign.
    sign: u64,
    trees: Mutex<Trees>,
}

/// The trees so far.
#[derive(Debug)]
struct Trees {
    /// None before the first link.
    table: Option<IdTable>,
    /// How many ids there are, on the device and as it has said last.
    known: Buffer<u64>,
    ids: usize,
    /// Events around the kernels.
    timing: [CudaEvent; 2],
}

impl ComponentsOnDevice {
    /// Components without a link yet.
    pub(super) fn try_new(budget: &Budget, signed: bool) -> Result<Self, Fault> {
        let stream = budget.device.stream()?;
        let event = || budget.device.context().cuda().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        let trees = Trees { table: None, known: budget.zeros(&stream, 1)?, ids: 0, timing: [event()?, event()?] };
        let sign = if signed { SIGN } else { 0 };
        Ok(Self { budget: budget.clone(), stream, sign, trees: Mutex::new(trees) })
    }

    fn trees(&self) -> MutexGuard<'_, Trees> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds up to [`LINKS`] links.
    fn link_some(&self, left: &[&[u64]], right: &[&[u64]]) -> Result<(), Fault> {
        let count: usize = left.iter().map(|part| part.len()).sum();
        let sending = self.budget.device.stream()?;
        let ends = self.budget.upload_parts(&sending, 2 * count, left.iter().chain(right).copied())?;
        wait(&sending)?;
        let mut trees = self.trees();
        let linked = trees.link(&self.budget, &self.stream, &ends, count);
        // whatever was launched, the ends may be given back behind this
        let waited = wait(&self.stream);
        linked.and(waited.map_err(Fault::from))
    }

    /// Each id with the least one of its component, on the device.
    fn find_least(&self, trees: &mut Trees) -> Result<LeastIds, Fault> {
        let (budget, stream, ids) = (&self.budget, &self.stream, trees.ids);
        let slots = trees.table.as_ref().map_or(0, |table| table.slots() as usize);
        let mut found = LeastIds {
            of_slots: budget.zeros(stream, slots)?,
            ids: budget.buffer(stream, ids)?,
            clusters: budget.buffer(stream, ids)?,
            written: budget.zeros(stream, 1)?,
        };
        let [started, ended] = &trees.timing;
        started.record(stream)?;
        if let Some(table) = &mut trees.table {
            budget.device.kernels().components()?.least(stream, table, self.sign, &mut found)?;
        }
        ended.record(stream)?;
        wait(stream)?;
        budget.metrics.launch(1, started.elapsed_ms(ended)?, 0);
        Ok(found)
    }
}

impl Trees {
    /// Adds `count` links, whose `ends` must live until `stream` was waited for.
    fn link(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        ends: &Buffer<u64>,
        count: usize,
    ) -> Result<(), Fault> {
        self.timing[0].record(stream)?;
        let most = self.ids + 2 * count;
        let table = match self.table.take() {
            Some(table) if most <= room(table.capacity as usize) => table,
            table => self.grown(budget, stream, table, most)?,
        };
        let table = self.table.insert(table);
        budget.device.kernels().components()?.link(stream, table, ends, count as u32, &mut self.known)?;
        self.timing[1].record(stream)?;
        let mut known = [0];
        budget.download(stream, &self.known, &mut known)?;
        wait(stream)?;
        self.ids = known[0] as usize;
        budget.metrics.launch(1, self.timing[0].elapsed_ms(&self.timing[1])?, 0);
        Ok(())
    }

    /// A table for so many ids, with those of `smaller`, which stays where there is no memory for another one.
    fn grown(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        smaller: Option<IdTable>,
        ids: usize,
    ) -> Result<IdTable, Fault> {
        let smaller = self.table.insert(match smaller {
            Some(smaller) => smaller,
            None => return table(budget, stream, ids),
        });
        let mut larger = table(budget, stream, ids)?;
        let mut moved = budget.buffer(stream, smaller.slots() as usize)?;
        budget.device.kernels().components()?.grow(stream, smaller, &mut larger, &mut moved)?;
        Ok(larger)
    }
}

/// Ids that a table of so many slots has at most, so that few of them look far for their slot.
fn room(slots: usize) -> usize {
    slots / 4 * 3
}

/// A table without an id, and with room for so many.
fn table(budget: &Budget, stream: &Arc<CudaStream>, ids: usize) -> Result<IdTable, Fault> {
    let capacity = (ids.div_ceil(3) * 4).next_power_of_two().max(FEWEST_SLOTS);
    if capacity > MOST_SLOTS {
        return Err(Fault::Memory);
    }
    let slots = capacity + 1;
    Ok(IdTable { ids: budget.zeros(stream, slots)?, above: budget.zeros(stream, slots)?, capacity: capacity as u32 })
}

impl DeviceComponents for ComponentsOnDevice {
    fn link(&self, left: &[&[u64]], right: &[&[u64]]) -> Result<Offered<()>> {
        let (left, right) = (pieces(left, LINKS), pieces(right, LINKS));
        let linked = left.iter().zip(&right).try_for_each(|((_, left), (_, right))| self.link_some(left, right));
        placed(linked.map(Some))
    }

    fn ids(&self) -> usize {
        self.trees().ids
    }

    fn clusters(&self, threads: usize, cancel: &Cancel) -> Result<Offered<Vec<LinkedIds>>> {
        let mut trees = self.trees();
        let found = self.find_least(&mut trees).inspect_err(|_| {
            let _ = wait(&self.stream);
        });
        let count = trees.ids;
        let fetched = found.and_then(|found| {
            let fetch = |piece: usize| {
                cancel.check()?;
                let rows = piece * PIECE..count.min((piece + 1) * PIECE);
                let (ids, others) =
                    (self.budget.fetch(&found.ids, rows.clone())?, self.budget.fetch(&found.clusters, rows)?);
                Ok(LinkedIds { ids, others })
            };
            each_in_turn(count.div_ceil(PIECE), threads, fetch).into_iter().collect::<Result<Vec<_>, Fault>>()
        });
        placed(fetched.map(Some))
    }

    fn forest(&self) -> Result<Vec<LinkedIds>> {
        let trees = self.trees();
        let Some(table) = &trees.table else { return Ok(Vec::new()) };
        let slots = table.slots() as usize;
        let (ids, above) = (self.budget.fetch(&table.ids, 0..slots)?, self.budget.fetch(&table.above, 0..slots)?);
        let id = |slot: usize| if slot + 1 == slots { 0 } else { ids[slot] };
        let piece = |first: usize| {
            let there = (first..slots.min(first + PIECE)).filter(|&slot| ids[slot] != 0);
            let links =
                there.map(|slot| (id(slot), id(above[slot].checked_sub(1).map_or(slot, |above| above as usize))));
            let (ids, others) = links.unzip();
            LinkedIds { ids, others }
        };
        Ok((0..slots).step_by(PIECE).map(piece).collect())
    }
}
