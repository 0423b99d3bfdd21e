//! Candidates of an entry on their way: batches of pairs walk its tree, then that of the entries before.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::Pairs;
use similarity_engine::atoms::RuleCounters;
use similarity_engine::error::Result;
use similarity_engine::plan::ExecutionTree;

use super::atoms::{RulesOnDevice, WORKERS};
use super::columns::ColumnsOnDevice;
use super::launches::{TreeLaunches, Unknown};
use super::probe_ranges::{PAIRS_OF_TASK, ProbeRanges};
use super::walk_buffers::{WalkBuffer, WalkingPairs};
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{Appended, BatchOnDevice, Begun, Compared, NONE, Pair, Task, TaskList, TaskPortion};
use crate::worker::Comparison;

/// Pairs that walk a tree together at most.
const MOST_WALKING: usize = 1 << 22;

/// Bytes of each of them.
const WALKING_BYTES: usize = size_of::<Pair>() + size_of::<u8>() + size_of::<u16>() + 2 * size_of::<u32>();

/// The trees of an entry as they are launched.
#[derive(Debug, Clone)]
pub(super) struct TreesOnDevice {
    own: TreeLaunches,
    /// Path of the entries before this one.
    earlier: TreeLaunches,
    /// Pairs that walk together.
    pub(super) walking: usize,
}

impl TreesOnDevice {
    /// Launches of trees, the own one first; `None` where they ask what is not there.
    pub(super) fn new(rules: &RulesOnDevice, [own, earlier]: [&ExecutionTree; 2]) -> Option<Self> {
        // more pairs pass the one and fewer the other than should, so that no match is lost to the host
        let (own, earlier) = (TreeLaunches::new(own, Unknown::Pass)?, TreeLaunches::new(earlier, Unknown::Fail)?);
        if !rules.has(own.atoms.iter().chain(&earlier.atoms).copied()) {
            return None;
        }
        let share = rules.budget.available() / (4 * WORKERS * WALKING_BYTES);
        Some(Self { own, earlier, walking: share.clamp(PAIRS_OF_TASK as usize, MOST_WALKING) })
    }
}

/// Where the pairs that walk come from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// Items with their ranges of build rows by place.
    Ranges(&'a ProbeRanges, &'a Buffer<u32>),
    /// Pairs of an index: those from the first to the end of each task.
    Found(&'a Pairs),
}

/// Some candidates on their way.
pub(super) struct Walking<'a> {
    rules: &'a RulesOnDevice,
    trees: &'a TreesOnDevice,
    probe: Option<&'a ColumnsOnDevice>,
    source: Source<'a>,
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

impl<'a> Walking<'a> {
    /// Candidates that no step has asked, with the columns of their probe side, where that is not the build side.
    pub(super) fn new(
        rules: &'a RulesOnDevice,
        trees: &'a TreesOnDevice,
        probe: Option<&'a ColumnsOnDevice>,
        source: Source<'a>,
        counters: &'a mut RuleCounters,
    ) -> Self {
        Self { rules, trees, probe, source, kept: RefCell::new(None), counters: RefCell::new(counters) }
    }

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
        let (budget, tree) = (&self.rules.budget, &self.trees.own);
        let kernels = budget.device.kernels().rules()?;
        let portions = portions(tasks, self.trees.walking);
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
        let compared = self.compared(stream, tree)?;
        for portion in &portions {
            let begun = Begun { certain: tree.certain, remembers: tree.remembers, batch };
            match self.source {
                Source::Ranges(ranges, rows) => {
                    room.count.zeros(budget, stream, 1)?;
                    let first = on_device.address(stream).add(portion.start);
                    let tasks = TaskPortion { first, count: portion.len() as u32 };
                    kernels.candidates(stream, ranges.on_device(stream, rows), tasks, begun)?;
                }
                Source::Found(found) => {
                    let some = tasks[portion.start].first as usize..tasks[portion.end - 1].end as usize;
                    let [build, probe] = &mut room.found;
                    let build = budget.upload_to(stream, &found.build[some.clone()], build)?;
                    let probe = budget.upload_to(stream, &found.probe[some.clone()], probe)?;
                    kernels.found(stream, (build, probe), some.len() as u32, begun)?;
                }
            }
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
        let earlier = &self.trees.earlier;
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
        self.trees.own.numbers() + self.counters.borrow().candidates.len()
    }

    fn fetch_tally(&self, stream: &Arc<CudaStream>, to: &mut [u64]) -> Result<(), Fault> {
        let (budget, mut kept) = (&self.rules.budget, self.kept.borrow_mut());
        let Some(Kept { room, .. }) = kept.as_mut() else { return Ok(()) };
        let (numbers, by_clause) = to.split_at_mut(self.trees.own.numbers());
        budget.download(stream, room.numbers.of(budget, stream, numbers.len())?, numbers)?;
        budget.download(stream, room.by_clause.of(budget, stream, by_clause.len())?, by_clause)
    }

    fn done(&self, stream: &Arc<CudaStream>, counters: &[u64]) {
        let Some(Kept { room, pairs }) = self.kept.borrow_mut().take() else { return };
        self.rules.rooms.give_back(stream, room);
        let (numbers, by_clause) = counters.split_at(self.trees.own.numbers());
        let mut counters = self.counters.borrow_mut();
        self.trees.own.add(numbers, pairs, &mut counters);
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
