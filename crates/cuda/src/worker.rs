//! One CUDA stream of a device, and the buffers that pairs come back through.

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaStream};

use super::buffer::Buffer;
use super::fault::Fault;
use super::kernels::{Appended, BLOCK, Pair, Positions, Task, TaskList};
use super::memory::{Budget, Room};
use super::object_pool::ObjectPool;
use super::staging::{FETCHED, Lent, Staging};
use super::wait::{given_up, wait};
use super::work_split::BLOCKS_OF_TASK;
use similarity_engine::{Cancel, Counts, Pairs};

/// Workers of one index: enough for copies and kernels to overlap.
pub(super) const WORKERS: usize = 3;

/// Pairs that the buffers of a worker hold at most.
const MOST_CANDIDATES: usize = 1 << 24;
const MOST_PAIRS: usize = 1 << 22;

/// Characters of strings that are decided in one piece.
const LENGTH_OF_CANDIDATE: usize = 64;

/// What is launched to find the pairs of some tasks.
pub(super) trait Comparison {
    /// Appends the positions of pairs that a filter cannot tell from matches.
    fn filter(&self, stream: &Arc<CudaStream>, tasks: TaskList<'_>, candidates: &mut Appended<'_>)
    -> Result<(), Fault>;

    /// Appends the row numbers of the candidates that match.
    fn verify(
        &self,
        stream: &Arc<CudaStream>,
        candidates: &Appended<'_>,
        pairs: &mut Appended<'_>,
    ) -> Result<(), Fault>;

    /// How many numbers it counts besides.
    fn tallied(&self) -> usize {
        0
    }

    /// Starts to copy these to the host.
    fn fetch_tally(&self, _stream: &Arc<CudaStream>, _to: &mut [u64]) -> Result<(), Fault> {
        Ok(())
    }

    /// Takes note that all of what was launched last has found room, and of what it has counted.
    fn done(&self, _stream: &Arc<CudaStream>, _tally: &[u64]) {}
}

/// What a run has done: all probe positions before `end`.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) counts: Counts,
    pub(super) end: u32,
}

/// How many workers there are, and how many pairs the buffers of each hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    pub(super) workers: usize,
    pub(super) candidates: usize,
    pub(super) pairs: usize,
    /// Pairs after which a run stops as soon as it can.
    pub(super) enough: usize,
}

impl Capacity {
    /// What a budget allows so many workers, and room for what one task of so many rows can yield at least.
    pub(super) fn of(budget: &Budget, rows_of_task: u32, workers: usize) -> Self {
        let share = budget.available() / (8 * workers * size_of::<Pair>());
        let least = least(rows_of_task);
        Self {
            workers,
            candidates: share.clamp(least, MOST_CANDIDATES.max(least)),
            pairs: share.clamp(least, MOST_PAIRS.max(least)),
            enough: MOST_PAIRS,
        }
    }

    /// Capacity for strings of so many characters: fewer candidates of longer ones, so that deciding them takes a
    /// launch no longer.
    pub(super) fn for_strings(self, rows_of_task: u32, mean_length: usize) -> Self {
        let candidates = self.candidates * LENGTH_OF_CANDIDATE / mean_length.max(LENGTH_OF_CANDIDATE);
        Self { candidates: candidates.max(least(rows_of_task)), ..self }
    }
}

/// The pairs that one task yields at most.
pub(super) fn least(rows_of_task: u32) -> usize {
    rows_of_task as usize * (BLOCKS_OF_TASK * BLOCK) as usize
}

/// `tasks` in pieces, in their order, each of which finds room if all yield as much for their work: together they have
/// yielded more than there is `room` for. A single one is cut within its range.
pub(super) fn pieces(tasks: &[Task], yielded: usize, room: usize) -> Vec<Vec<Task>> {
    // they do not yield quite as much each
    let count = (yielded / (room - room / 8).max(1) + 1).max(2);
    match tasks {
        &[Task { probe, first, end }] => {
            let blocks = ((end - first) as usize).div_ceil(count).max(1);
            let piece = |first| vec![Task { probe, first, end: end.min(first + blocks as u32) }];
            (first..end).step_by(blocks).map(piece).collect()
        }
        _ => tasks.chunks(tasks.len().div_ceil(count).max(1)).map(<[Task]>::to_vec).collect(),
    }
}

/// A CUDA stream with its buffers.
#[derive(Debug)]
pub(super) struct Worker {
    budget: Budget,
    stream: Arc<CudaStream>,
    capacity: Capacity,
    tasks: Room<Task>,
    candidates: Buffer<Pair>,
    candidate_count: Buffer<u64>,
    pairs: Buffer<Pair>,
    pair_count: Buffer<u64>,
    staging: Lent,
    /// Start and end of a launch.
    timing: [CudaEvent; 2],
}

impl Worker {
    fn try_new(budget: &Budget, capacity: Capacity) -> Result<Self, Fault> {
        let stream = budget.device.stream()?;
        let event = || stream.context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        Ok(Self {
            tasks: Room::default(),
            timing: [event()?, event()?],
            candidates: budget.buffer(&stream, capacity.candidates)?,
            candidate_count: budget.buffer(&stream, 1)?,
            pairs: budget.buffer(&stream, capacity.pairs)?,
            pair_count: budget.buffer(&stream, 1)?,
            staging: Lent::from(budget.device.context(), budget.device.staging())?,
            budget: budget.clone(),
            stream,
            capacity,
        })
    }

    /// CUDA stream of the worker.
    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Appends the row numbers of the pairs of `tasks` that match, which are in the order of their probe positions, all
    /// in `range`. Tasks that yield more than the buffers hold are done in pieces. Stops between two runs of probe
    /// positions once there are many pairs.
    pub(super) fn run(
        &mut self,
        comparison: &dyn Comparison,
        tasks: Vec<Task>,
        range: Positions,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Done, Fault> {
        let (mut counts, before, mut last) = (Counts::default(), out.len(), None);
        let mut left = vec![tasks];
        while let Some(mut tasks) = left.pop() {
            let Some(&Task { probe, .. }) = tasks.first() else { continue };
            if cancel.is_cancelled() {
                break;
            }
            if out.len() - before >= self.capacity.enough {
                if last != Some(probe) {
                    return Ok(Done { counts, end: range.begin.max(probe * BLOCK) });
                }
                let rest = tasks.split_off(tasks.partition_point(|task| task.probe == probe));
                left.push(rest);
            }
            let (candidates, matched) = match self.launch(comparison, &tasks) {
                // others have taken the memory: less may do, once what was launched has ended, which reads what may be
                // given back
                Err(Fault::Memory) if tasks.len() > 1 => {
                    wait(&self.stream)?;
                    (self.capacity.candidates + 1, 0)
                }
                launched => launched?,
            };
            let Capacity { candidates: of_candidates, pairs: of_pairs, .. } = self.capacity;
            if candidates > of_candidates || matched > of_pairs {
                self.budget.metrics.retry();
                let (yielded, room) =
                    if candidates > of_candidates { (candidates, of_candidates) } else { (matched, of_pairs) };
                left.extend(pieces(&tasks, yielded, room).into_iter().rev());
                continue;
            }
            comparison.done(&self.stream, self.staging.counters(comparison.tallied())?);
            last = tasks.last().map(|task| task.probe);
            self.fetch(matched, out)?;
            counts.candidates += candidates;
            counts.verified += candidates;
            counts.matched += matched;
        }
        Ok(Done { counts, end: range.end })
    }

    /// Compares, and returns how many candidates there are or would be, and pairs, where all candidates have found
    /// room.
    fn launch(&mut self, comparison: &dyn Comparison, tasks: &[Task]) -> Result<(usize, usize), Fault> {
        let stream = &self.stream;
        let on_device = self.budget.upload_to(stream, tasks, &mut self.tasks)?;
        stream.memset_zeros(&mut self.candidate_count.slice)?;
        stream.memset_zeros(&mut self.pair_count.slice)?;
        let Capacity { candidates, pairs, .. } = self.capacity;
        let mut candidates =
            Appended { pairs: &mut self.candidates, count: &mut self.candidate_count, capacity: candidates as u64 };
        let mut pairs = Appended { pairs: &mut self.pairs, count: &mut self.pair_count, capacity: pairs as u64 };
        let [started, ended] = &self.timing;
        started.record(stream)?;
        comparison.filter(stream, TaskList { on_device, on_host: tasks }, &mut candidates)?;
        comparison.verify(stream, &candidates, &mut pairs)?;
        ended.record(stream)?;
        comparison.fetch_tally(stream, self.staging.counters(comparison.tallied())?)?;
        let Staging { counted: [candidates, pairs], .. } = self.staging.get();
        self.budget.download(stream, &self.candidate_count, candidates)?;
        self.budget.download(stream, &self.pair_count, pairs)?;
        wait(stream)?;
        let (candidates, pairs) = (candidates.as_slice()?[0] as usize, pairs.as_slice()?[0] as usize);
        self.budget.metrics.launch(tasks.len(), started.elapsed_ms(ended)?, candidates);
        Ok((candidates, pairs))
    }

    /// Brings the first `count` pairs to the host.
    fn fetch(&mut self, count: usize, out: &mut Pairs) -> Result<(), Fault> {
        out.build.reserve(count);
        out.probe.reserve(count);
        for start in (0..count).step_by(FETCHED) {
            let end = count.min(start + FETCHED);
            // as many as the destination has are copied
            let fetched = &mut self.staging.get().fetched.as_mut_slice()?[..end - start];
            self.budget.download_from(&self.stream, &self.pairs, start, fetched)?;
            wait(&self.stream)?;
            out.build.extend(fetched.iter().map(|pair| pair.build));
            out.probe.extend(fetched.iter().map(|pair| pair.probe));
        }
        Ok(())
    }
}

/// The workers of an index.
#[derive(Debug)]
pub(super) struct Workers {
    budget: Budget,
    capacity: Capacity,
    pool: ObjectPool<Worker>,
}

impl Workers {
    /// Workers, of which one is made now, so that there is always one.
    pub(super) fn try_new(budget: &Budget, capacity: Capacity) -> Result<Self, Fault> {
        let first = Worker::try_new(budget, capacity)?;
        Ok(Self { budget: budget.clone(), capacity, pool: ObjectPool::with_one(first, capacity.workers) })
    }

    /// How many workers there are, and what they hold.
    pub(super) fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Runs `work` with a worker that nobody else has, once there is one.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Worker) -> Result<T, Fault>) -> Result<T, Fault> {
        let waited = |worker: &mut Worker| {
            // what lies in pinned memory is not read before the device has written it
            given_up(self.budget.device.context().ordinal())?;
            work(worker).inspect_err(|_| {
                // what was launched reads columns that the caller may give back
                let _ = wait(&worker.stream);
            })
        };
        self.pool.with(|| Worker::try_new(&self.budget, self.capacity), waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_tasks_are_all_of_their_work() {
        let shown = |tasks: &[(u32, u32, u32)], yielded, room| -> Vec<Vec<(u32, u32, u32)>> {
            let tasks: Vec<Task> = tasks.iter().map(|&(probe, first, end)| Task { probe, first, end }).collect();
            let piece = |piece: Vec<Task>| piece.iter().map(|task| (task.probe, task.first, task.end)).collect();
            pieces(&tasks, yielded, room).into_iter().map(piece).collect()
        };
        let three = [(0, 0, 9), (4, 3, 5), (8, 1, 2)];
        assert_eq!(shown(&three, 11, 10), [vec![(0, 0, 9), (4, 3, 5)], vec![(8, 1, 2)]]);
        assert_eq!(shown(&three, 990, 10), [[(0, 0, 9)], [(4, 3, 5)], [(8, 1, 2)]]);
        assert_eq!(shown(&[(4, 3, 6)], 11, 10), [[(4, 3, 5)], [(4, 5, 6)]]);
        assert_eq!(shown(&[(4, 3, 6)], 35, 10), [[(4, 3, 4)], [(4, 4, 5)], [(4, 5, 6)]]);
    }
}
