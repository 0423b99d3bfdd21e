//! What is launched together: runs of probe blocks, each against the build blocks that group and size, length or place
//! allow.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::fault::Fault;
use super::kernels::{BLOCK, Task, Windows};
use super::memory::Budget;
use super::wait::wait;
use super::work_split::{BLOCKS_OF_TASK, PAIRS_OF_STEP, WorkSplit};

/// Tasks of a launch that keep all of a device busy: where it has less to do, they are shorter.
const TASKS_OF_LAUNCH: u64 = 2048;

/// How many times as long popcounts are taken to take as tensor cores.
const POPCOUNTS: u64 = 8;

/// Words of the shortest signatures.
const FEWEST_WORDS: u32 = 8;

/// What block ranges are made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockShape {
    /// Blocks of the probe side.
    pub(super) blocks: u32,
    /// Probe positions of a task at most.
    pub(super) rows_of_task: u32,
    /// Words of a signature.
    pub(super) words: u32,
}

/// Range of build blocks that hold all partners of its rows, for each probe block.
#[derive(Debug, Clone)]
pub(super) struct BlockRanges {
    firsts: Vec<u32>,
    ends: Vec<u32>,
    /// Probe positions of a task at most.
    rows_of_task: u32,
    most_pairs: u64,
}

impl BlockRanges {
    /// Windows of all probe blocks. `launch` writes their first build blocks, and those after the last ones, on the
    /// device.
    pub(super) fn fetch(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        BlockShape { blocks, rows_of_task, words }: BlockShape,
        launch: impl FnOnce(&mut Windows) -> Result<(), Fault>,
    ) -> Result<Self, Fault> {
        let none = vec![0; blocks as usize];
        let by_popcounts = if budget.device.has_tensor_cores() { 1 } else { POPCOUNTS };
        let most_pairs = PAIRS_OF_STEP / by_popcounts / u64::from(words.div_ceil(FEWEST_WORDS).max(1));
        let mut windows = Self { firsts: none.clone(), ends: none, rows_of_task, most_pairs };
        if blocks > 0 {
            let mut on_device = Windows {
                firsts: budget.buffer(stream, blocks as usize)?,
                ends: budget.buffer(stream, blocks as usize)?,
            };
            launch(&mut on_device)?;
            budget.download(stream, &on_device.firsts, &mut windows.firsts)?;
            budget.download(stream, &on_device.ends, &mut windows.ends)?;
            wait(stream)?;
        }
        Ok(windows)
    }

    /// First build blocks, and those after the last ones, on the device.
    pub(super) fn upload(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<Windows, Fault> {
        Ok(Windows { firsts: budget.upload(stream, &self.firsts)?, ends: budget.upload(stream, &self.ends)? })
    }

    pub(super) fn memory(&self) -> usize {
        (self.firsts.capacity() + self.ends.capacity()) * size_of::<u32>()
    }
}

impl WorkSplit for BlockRanges {
    fn parts(&self) -> u64 {
        16
    }

    fn most_pairs(&self) -> u64 {
        self.most_pairs
    }

    fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64) {
        let (mut at, mut done) = (start, 0);
        while at < end && done < pairs {
            let block = (at / BLOCK) as usize;
            done += u64::from(BLOCK * BLOCK) * u64::from(self.ends[block].saturating_sub(self.firsts[block]));
            at = (at / BLOCK + 1) * BLOCK;
        }
        (at.min(end), done)
    }

    fn tasks(&self, positions: Range<u32>) -> Vec<Task> {
        let (blocks, run) = (positions.start / BLOCK..positions.end.div_ceil(BLOCK), self.rows_of_task / BLOCK);
        let of_run = |probe: u32| {
            let run = probe as usize..blocks.end.min(probe + run) as usize;
            let first = self.firsts[run.clone()].iter().copied().min().unwrap_or(0);
            let end = self.ends[run].iter().copied().max().unwrap_or(0);
            Task { probe, first, end: end.max(first) }
        };
        let runs: Vec<Task> = blocks.clone().step_by(run as usize).map(of_run).collect();
        let all: u64 = runs.iter().map(|run| u64::from(run.end - run.first)).sum();
        let length = (all / TASKS_OF_LAUNCH).clamp(1, BLOCKS_OF_TASK.into()) as u32;
        let cut = |&Task { probe, first, end }: &Task| {
            let cuts = (first..end).step_by(length as usize);
            cuts.map(move |first| Task { probe, first, end: end.min(first + length) })
        };
        runs.iter().flat_map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_shorter_where_there_are_few() {
        for (blocks, longest) in [(3, 1), (120, 1), (400, 9), (1000, BLOCKS_OF_TASK)] {
            let windows = BlockRanges {
                firsts: (0..blocks).collect(),
                ends: vec![blocks; blocks as usize],
                rows_of_task: 4 * BLOCK,
                most_pairs: u64::MAX,
            };
            let tasks = windows.tasks(0..blocks * BLOCK - 5);
            assert_eq!(tasks.iter().map(|task| task.end - task.first).max(), Some(longest), "{blocks}");
            let mut left: Vec<_> = (0..blocks).step_by(4).map(|probe| (probe, probe)).collect();
            for Task { probe, first, end } in tasks {
                let next = &mut left[probe as usize / 4].1;
                assert!(*next == first && first < end && end <= blocks);
                *next = end;
            }
            assert!(left.iter().all(|&(_, next)| next == blocks), "{left:?}");
        }
    }
}
