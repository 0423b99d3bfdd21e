//! The neighbours of some probe positions, found in rounds.
//!
//! First some blocks nearby are compared, then a sample of all blocks, larger and larger ones, and at last all: each
//! round knows from those before how far it has to look. What is compared, and how, is up to the family of keys.

use super::offers::{Offers, SEARCHES, ScoreOrder};
use super::{NeighbourSearch, Rounds};
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::nearest::NO_SEED;
use crate::kernels::constants::vectors::GROUPED;
use crate::kernels::{Appended, BLOCK, Pair, Round, Searched, Task, TaskList};
use crate::worker::pieces;
use similarity_engine::Cancel;

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

/// The numbers of which parts of a build side are multiples in one round after the other: the first round is about more
/// parts than `seen`, and the last one about all.
pub(crate) fn strides(parts: u32, seen: u32) -> Vec<u32> {
    let (mut strides, mut sample) = (vec![1], parts / GROWTH);
    while sample > seen {
        strides.push(strides[strides.len() - 1] * GROWTH);
        sample /= GROWTH;
    }
    strides.reverse();
    strides
}

/// A search by rounds of a filter.
struct Search<'a, 'b, R> {
    rounds: &'a R,
    offers: &'a mut Offers<'b>,
    searched: Searched,
    /// Blocks of the build side, and of the searched range.
    blocks: (u32, u32),
    candidates: Buffer<Pair>,
    compared: usize,
}

impl<R: Rounds> NeighbourSearch for R {
    fn score_order(&self) -> ScoreOrder {
        Rounds::score_order(self)
    }

    fn run(&self, offers: &mut Offers<'_>, cancel: &Cancel) -> Result<usize, Fault> {
        Search::try_new(self, offers)?.run(cancel)
    }
}

impl<'a, 'b, R: Rounds> Search<'a, 'b, R> {
    fn try_new(rounds: &'a R, offers: &'a mut Offers<'b>) -> Result<Self, Fault> {
        let (budget, stream, Searched { count, wanted, .. }) = (offers.budget, offers.stream, offers.searched());
        let seed_counts = rounds.seed_counts(wanted as usize);
        let searched = offers.with_seeds(seed_counts)?;
        let room = budget.available() / (4 * SEARCHES * size_of::<Pair>());
        let room = room.min((count * BLOCK) as usize).clamp(LEAST_CANDIDATES, MOST_CANDIDATES);
        let candidates = budget.buffer(stream, room)?;
        Ok(Self { rounds, searched, blocks: (rounds.build_blocks(), count / BLOCK), candidates, compared: 0, offers })
    }

    /// Searches, and returns how many candidates there were.
    fn run(mut self, cancel: &Cancel) -> Result<usize, Fault> {
        let mut seen = 0.0;
        for &far in self.rounds.shares() {
            self.round(Round { seed: NO_SEED, stride: 1, done: 0, far, seen }, cancel)?;
            seen = far;
        }
        let far = EVERYWHERE;
        self.rounds.seeds(self.offers.stream, self.searched)?;
        for seed in 0..self.searched.seed_count.min(self.blocks.0) {
            self.round(Round { seed, stride: 1, done: 0, far, seen }, cancel)?;
        }
        let mut done = 0;
        for stride in self.strides() {
            self.round(Round { seed: NO_SEED, stride, done, far, seen }, cancel)?;
            done = stride;
        }
        Ok(self.compared)
    }

    fn strides(&self) -> Vec<u32> {
        if self.rounds.samples() { strides(self.blocks.0, self.searched.seed_count) } else { vec![1] }
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
                self.offers.budget.metrics.retry();
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
        let (budget, stream) = (self.offers.budget, self.offers.stream);
        let tasks = compared.map(|(tasks, _)| budget.upload(stream, tasks)).transpose()?;
        let capacity = self.candidates.slice.len() as u64;
        let (rounds, pairs) = (self.rounds, &mut self.candidates);
        let offered = self.offers.offer(compared.is_none(), |searched, count| {
            let mut candidates = Appended { pairs, count, capacity };
            if let (Some((listed, round)), Some(tasks)) = (compared, &tasks) {
                let tasks = TaskList { on_device: tasks, on_host: listed };
                rounds.filter(stream, searched, tasks, round, &mut candidates)?;
            }
            rounds.offer(stream, searched, &candidates)
        })?;
        let [candidates, _] = offered.tally;
        let (tasks, new) = compared.map_or((0, 0), |(tasks, _)| (tasks.len(), candidates));
        budget.metrics.launch(tasks, offered.milliseconds, new);
        Ok([candidates, offered.crowded])
    }
}
