//! The neighbours of some probe positions, found in rounds.
//!
//! First some blocks nearby are compared, then a sample of all blocks, larger and larger ones, and at last all: each
//! round knows from those before how far it has to look. What is compared, and how, is up to the family of keys.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUevent_flags;

use super::Rounds;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::nearest::NO_SEED;
use crate::kernels::constants::vectors::GROUPED;
use crate::kernels::{
    Appended, BLOCK, FoundNeighbour, Pair, Round, Searched, Task, TaskList, neighbours, neighbours_mut,
};
use crate::memory::Budget;
use crate::worker::pieces;
use similarity_engine::Cancel;
use similarity_engine::nearest::Neighbour;

/// Neighbours of a row at most.
pub(crate) const MOST_WANTED: usize = 960;
/// Probe positions that are searched at once at most, neighbours of them, and how many of these searches there may be.
const MOST_POSITIONS: usize = 1 << 18;
const MOST_NEIGHBOURS: usize = 1 << 22;
pub(crate) const SEARCHES: usize = 2;
/// Candidates of a launch at most.
const MOST_CANDIDATES: usize = 1 << 24;
/// Probe blocks of a task, one a warp.
const BLOCKS_OF_TASK: u32 = 4;
/// Candidates of a task with one build block at most.
const LEAST_CANDIDATES: usize = (BLOCKS_OF_TASK * BLOCK * BLOCK) as usize;
/// Tasks that keep the device busy to the end.
const ENOUGH_TASKS: u32 = 4096;
/// How many times as many blocks a round takes as those before it.
const GROWTH: u32 = 4;
/// The share of a score within which all others are.
const EVERYWHERE: f32 = 1.0;
/// Build blocks that a warp looks at together: the range of a task is a multiple of as many.
const BLOCKS_OF_STEP: u32 = GROUPED;
/// Tasks that one launch can do, however large they are.
const TASKS_OF_LAUNCH: u64 = 1024;

/// Places for what a row is offered: those that it keeps, and room for a round of others.
fn capacity_of(wanted: usize) -> usize {
    (2 * wanted + BLOCK as usize).next_power_of_two()
}

/// Bytes of the buffers of a row.
fn bytes_of_row(wanted: usize) -> usize {
    (capacity_of(wanted) + wanted) * size_of::<FoundNeighbour>() + 32
}

/// Probe positions that are searched at once.
pub(crate) fn positions_at_once(budget: &Budget, wanted: usize) -> usize {
    let share = budget.available() / (4 * SEARCHES);
    let positions = (share / bytes_of_row(wanted)).min(MOST_POSITIONS).min(MOST_NEIGHBOURS / wanted.max(1));
    positions.max(BLOCK as usize) / BLOCK as usize * BLOCK as usize
}

/// The neighbours of positions one after the other.
#[derive(Debug)]
pub(super) struct Found {
    wanted: usize,
    neighbours: Vec<FoundNeighbour>,
    counts: Vec<u32>,
    pub(super) candidates: usize,
}

impl Found {
    /// Neighbours of the position at this place of the range, best first.
    pub(super) fn of(&self, place: usize) -> &[Neighbour<i64>] {
        neighbours(&self.neighbours[place * self.wanted..][..self.counts[place] as usize])
    }

    /// Neighbours of that position, to be changed.
    pub(super) fn of_mut(&mut self, place: usize) -> &mut [Neighbour<i64>] {
        neighbours_mut(&mut self.neighbours[place * self.wanted..][..self.counts[place] as usize])
    }
}

/// A search on one stream.
pub(super) struct Search<'a, R> {
    budget: &'a Budget,
    stream: &'a Arc<CudaStream>,
    rounds: &'a R,
    searched: Searched,
    /// Blocks of the build side, and of the searched range.
    blocks: (u32, u32),
    candidates: Buffer<Pair>,
    candidate_count: Buffer<u64>,
    crowded: Buffer<u64>,
    kept: Buffer<u32>,
    compared: usize,
    /// What only the device reads.
    _offered: Buffer<FoundNeighbour>,
    _counts: Buffer<u32>,
    _seeds: Buffer<u32>,
    _reaches: [Buffer<f32>; 2],
}

impl<'a, R: Rounds> Search<'a, R> {
    /// Search for the `wanted` nearest rows of the positions in `positions`. These are ascending and in `range`, which
    /// begins with a block.
    pub(super) fn try_new(
        budget: &'a Budget,
        stream: &'a Arc<CudaStream>,
        rounds: &'a R,
        (range, positions): (Range<u32>, &[u32]),
        wanted: usize,
    ) -> Result<Self, Fault> {
        let padded = (range.end - range.start).next_multiple_of(BLOCK) as usize;
        let (capacity, (seed_count, corner_count), order) =
            (capacity_of(wanted), rounds.seed_counts(wanted), rounds.score_order());
        let mut reach = vec![-1.0f32; padded];
        positions.iter().for_each(|&position| reach[(position - range.start) as usize] = f32::INFINITY);
        let mut offered = budget.buffer(stream, padded * capacity)?;
        let mut seeds = budget.buffer(stream, padded / BLOCK as usize * seed_count as usize)?;
        let mut counts = budget.zeros(stream, padded)?;
        let mut reaches = [budget.upload(stream, &reach)?, budget.upload(stream, &reach)?];
        let mut kept = budget.zeros(stream, padded)?;
        let mut crowded = budget.zeros(stream, 1)?;
        let searched = Searched {
            offered: offered.address_mut(stream),
            counts: counts.address_mut(stream),
            kept: kept.address_mut(stream),
            reach: reaches[0].address_mut(stream),
            again: reaches[1].address_mut(stream),
            crowded: crowded.address_mut(stream),
            seeds: seeds.address_mut(stream),
            first: range.start,
            count: padded as u32,
            capacity: capacity as u32,
            wanted: wanted as u32,
            seed_count,
            corner_count,
            descending: order.descending.into(),
            reach_by: order.reach_by,
            dimension: order.dimension,
            wider: order.rounding.0,
            by_norm: order.rounding.1,
        };
        let room = budget.available() / (4 * SEARCHES * size_of::<Pair>());
        let room = room.min(padded * BLOCK as usize).clamp(LEAST_CANDIDATES, MOST_CANDIDATES);
        // the copies of what is on the stack are over
        stream.synchronize()?;
        Ok(Self {
            rounds,
            searched,
            blocks: (rounds.build_blocks(), padded as u32 / BLOCK),
            candidates: budget.buffer(stream, room)?,
            candidate_count: budget.zeros(stream, 1)?,
            crowded,
            kept,
            compared: 0,
            _offered: offered,
            _counts: counts,
            _seeds: seeds,
            _reaches: reaches,
            budget,
            stream,
        })
    }

    /// Searches; none once `cancel` says so.
    pub(super) fn run(mut self, cancel: &Cancel) -> Result<Option<Found>, Fault> {
        let kernels = self.budget.device.kernels().nearest()?;
        let mut seen = 0.0;
        for &far in self.rounds.shares() {
            self.round(Round { seed: NO_SEED, stride: 1, done: 0, far, seen }, cancel)?;
            seen = far;
        }
        let far = EVERYWHERE;
        self.rounds.seeds(self.stream, self.searched)?;
        for seed in 0..self.searched.seed_count.min(self.blocks.0) {
            self.round(Round { seed, stride: 1, done: 0, far, seen }, cancel)?;
        }
        let mut done = 0;
        for stride in self.strides() {
            self.round(Round { seed: NO_SEED, stride, done, far, seen }, cancel)?;
            done = stride;
        }
        if cancel.is_cancelled() {
            // what was launched reads columns of others
            self.stream.synchronize()?;
            return Ok(None);
        }
        let (count, wanted) = (self.searched.count as usize, self.searched.wanted as usize);
        let mut out = self.budget.buffer(self.stream, count * wanted)?;
        kernels.fetch(self.stream, self.searched, &mut out)?;
        let mut found = Found {
            wanted,
            neighbours: vec![FoundNeighbour::default(); count * wanted],
            counts: vec![0; count],
            candidates: self.compared,
        };
        self.budget.download(self.stream, &out, &mut found.neighbours)?;
        self.budget.download(self.stream, &self.kept, &mut found.counts)?;
        self.stream.synchronize()?;
        Ok(Some(found))
    }

    /// The numbers of which blocks are multiples in one round after the other.
    fn strides(&self) -> Vec<u32> {
        let mut strides = vec![1];
        if self.rounds.samples() {
            let mut seen = self.blocks.0 / GROWTH;
            while seen > self.searched.seed_count {
                strides.push(strides[strides.len() - 1] * GROWTH);
                seen /= GROWTH;
            }
        }
        strides.reverse();
        strides
    }

    /// Compares what a round is about.
    fn round(&mut self, round: Round, cancel: &Cancel) -> Result<(), Fault> {
        let pairs = self.rounds.pairs_of_launch();
        let tasks = self.tasks(&round, pairs);
        let pairs_of = |task: &Task| {
            let blocks = u64::from((task.end - task.first).div_ceil(round.stride));
            blocks * LEAST_CANDIDATES as u64
        };
        let most = tasks.iter().map(pairs_of).max().unwrap_or(0).max(1);
        for tasks in tasks.chunks((pairs / most).max(1) as usize) {
            self.compare(tasks.to_vec(), round, cancel)?;
        }
        Ok(())
    }

    /// Tasks of all probe blocks, of which many are no more than so many pairs.
    fn tasks(&self, round: &Round, pairs: u64) -> Vec<Task> {
        let (build, probe) = self.blocks;
        let first = self.searched.first / BLOCK;
        let runs = probe.div_ceil(BLOCKS_OF_TASK);
        let (end, length) = match round.seed {
            NO_SEED => {
                let parts = ENOUGH_TASKS.div_ceil(runs).min(build.div_ceil(BLOCKS_OF_STEP)).max(1);
                let most = pairs * u64::from(round.stride) / (TASKS_OF_LAUNCH * LEAST_CANDIDATES as u64);
                let length = u64::from(build.div_ceil(parts)).min(most) as u32;
                (build, length.max(1).next_multiple_of(BLOCKS_OF_STEP))
            }
            _ => (1, 1),
        };
        let of_run = |run: u32| {
            (0..end).step_by(length as usize).map(move |from| Task {
                probe: first + run * BLOCKS_OF_TASK,
                first: from,
                end: end.min(from + length),
            })
        };
        (0..runs).flat_map(of_run).collect()
    }

    /// Compares the blocks of `tasks`: in pieces where there are more candidates than there is room for; these are
    /// offered once more to rows that were offered more than they have places for.
    fn compare(&mut self, tasks: Vec<Task>, round: Round, cancel: &Cancel) -> Result<(), Fault> {
        let mut left = vec![tasks];
        while let Some(tasks) = left.pop() {
            if tasks.is_empty() || cancel.is_cancelled() {
                continue;
            }
            let [candidates, mut crowded] = self.launch(Some((&tasks, round)))?;
            let room = self.candidates.slice.len();
            if candidates > room {
                self.budget.metrics.retry();
                left.extend(pieces(&tasks, candidates, room).into_iter().rev());
                continue;
            }
            self.compared += candidates;
            while crowded > 0 && !cancel.is_cancelled() {
                [_, crowded] = self.launch(None)?;
            }
        }
        Ok(())
    }

    /// Compares the blocks of some tasks, or offers the same candidates again: how many there are, and how many rows
    /// were offered too many.
    fn launch(&mut self, compared: Option<(&[Task], Round)>) -> Result<[usize; 2], Fault> {
        let (stream, kernels) = (self.stream, self.budget.device.kernels().nearest()?);
        let tasks = compared.map(|(tasks, _)| self.budget.upload(stream, tasks)).transpose()?;
        stream.memset_zeros(&mut self.crowded.slice)?;
        let capacity = self.candidates.slice.len() as u64;
        let timing = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let started = stream.record_event(timing)?;
        if compared.is_some() {
            stream.memset_zeros(&mut self.candidate_count.slice)?;
        }
        let mut candidates = Appended { pairs: &mut self.candidates, count: &mut self.candidate_count, capacity };
        if let (Some((listed, round)), Some(tasks)) = (compared, &tasks) {
            let tasks = TaskList { on_device: tasks, on_host: listed };
            self.rounds.filter(stream, self.searched, tasks, round, &mut candidates)?;
        }
        let offered = match compared {
            Some(_) => self.searched,
            None => Searched { reach: self.searched.again, ..self.searched },
        };
        self.rounds.offer(stream, offered, &candidates)?;
        kernels.select(stream, self.searched)?;
        let ended = stream.record_event(timing)?;
        let mut counts = [[0u64]; 2];
        let [candidates, crowded] = &mut counts;
        self.budget.download(stream, &self.candidate_count, candidates)?;
        self.budget.download(stream, &self.crowded, crowded)?;
        stream.synchronize()?;
        let [[candidates], [crowded]] = counts.map(|[count]| [count as usize]);
        let (tasks, new) = compared.map_or((0, 0), |(tasks, _)| (tasks.len(), candidates));
        self.budget.metrics.launch(tasks, started.elapsed_ms(&ended)?, new);
        Ok([candidates, crowded])
    }
}
