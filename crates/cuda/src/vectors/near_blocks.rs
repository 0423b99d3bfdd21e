//! How many build blocks are near each probe block, and how the work is cut by that.

use std::ops::Range;

use crate::kernels::{BLOCK, Task};
use crate::work_split::{PAIRS_OF_STEP, WorkSplit};

/// Probe blocks of a task, one a warp.
const BLOCKS_OF_TASK: u32 = 4;

/// Probe rows of a task.
pub(super) const ROWS_OF_TASK: u32 = BLOCKS_OF_TASK * BLOCK;

/// Pairs of blocks that a task is about: enough that finding them is little beside, few enough that tasks end together.
const TILES_OF_TASK: u64 = 512;

/// Dimensions that a comparison is counted for as one.
const DIMENSIONS_OF_PAIR: u32 = 16;

/// Build blocks under one outer box: tasks begin with whole ones.
const GROUPED: u32 = 64;

/// Near build blocks of each probe block.
#[derive(Debug, Clone, Default)]
pub(crate) struct NearBlocks {
    pub(super) firsts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    pub(super) counts: Vec<u32>,
    dimension: u32,
}

impl NearBlocks {
    /// Near blocks of so many probe blocks in so many dimensions, of which nothing is known yet.
    pub(super) fn of(blocks: u32, dimension: u32) -> Self {
        let zeros = vec![0; blocks as usize];
        Self { firsts: zeros.clone(), ends: zeros.clone(), counts: zeros, dimension }
    }

    /// Pairs that comparing the block of a position takes.
    fn pairs_of(&self, position: u32) -> u64 {
        u64::from(BLOCK * BLOCK) * u64::from(self.counts[(position / BLOCK) as usize])
    }

    pub(super) fn memory(&self) -> usize {
        (self.firsts.capacity() + self.ends.capacity() + self.counts.capacity()) * size_of::<u32>()
    }
}

impl WorkSplit for NearBlocks {
    fn parts(&self) -> u64 {
        16
    }

    fn most_pairs(&self) -> u64 {
        PAIRS_OF_STEP / u64::from(self.dimension.div_ceil(DIMENSIONS_OF_PAIR).max(1))
    }

    fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64) {
        let (mut at, mut done) = (start, 0);
        while at < end && done < pairs {
            done += self.pairs_of(at);
            at = (at / BLOCK + 1) * BLOCK;
        }
        (at.min(end), done)
    }

    fn tasks(&self, positions: Range<u32>) -> Vec<Task> {
        let (blocks, mut tasks) = (positions.start / BLOCK..positions.end.div_ceil(BLOCK), Vec::new());
        for probe in blocks.clone().step_by(BLOCKS_OF_TASK as usize) {
            let run = probe as usize..blocks.end.min(probe + BLOCKS_OF_TASK) as usize;
            let reaching = || run.clone().filter(|&block| self.counts[block] > 0);
            let first = reaching().map(|block| self.firsts[block]).min().unwrap_or(0);
            let end = reaching().map(|block| self.ends[block]).max().unwrap_or(0);
            let tiles: u64 = reaching().map(|block| u64::from(self.counts[block])).sum();
            let length = u64::from(end - first).div_ceil(tiles.div_ceil(TILES_OF_TASK).max(1)) as u32;
            let mut from = first;
            while from < end {
                let to = (from + length.max(1)).next_multiple_of(GROUPED).min(end);
                tasks.push(Task { probe, first: from, end: to });
                from = to;
            }
        }
        tasks
    }
}
