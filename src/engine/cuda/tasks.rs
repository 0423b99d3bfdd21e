//! What is launched together: runs of probe blocks, each against the build blocks that group and size, length or place allow.

use std::ops::Range;

use super::kernels::Task;

/// Positions of a block.
pub(super) const BLOCK: u32 = 64;

/// Build blocks of one task.
pub(super) const BLOCKS_OF_TASK: u32 = 128;

/// Pairs that are compared between two looks at the cancel flag: some hundredths of a second's work.
pub(super) const PAIRS_OF_STEP: u64 = 1 << 36;

/// Parts that a self-join is cut into where they are no more work than a step: enough for copies and kernels to overlap.
const PARTS: u64 = 4;

/// For each probe block the build blocks that hold all partners of its sets.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) firsts: Vec<u32>,
    pub(super) ends: Vec<u32>,
}

impl Windows {
    /// The end of a range of probe positions from `start` on whose comparisons are about `pairs`, before `end`, and how many
    /// they are.
    pub(super) fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64) {
        let (mut at, mut done) = (start, 0);
        while at < end && done < pairs {
            let block = (at / BLOCK) as usize;
            done += u64::from(BLOCK * BLOCK) * u64::from(self.ends[block].saturating_sub(self.firsts[block]));
            at = (at / BLOCK + 1) * BLOCK;
        }
        (at.min(end), done)
    }

    /// The end of a part of a self-join of `count` positions from `start` on.
    pub(super) fn part(&self, start: u32, count: u32) -> u32 {
        let pairs = (self.pairs(0..count) / PARTS).clamp(1, PAIRS_OF_STEP);
        self.stretch(start, count, pairs).0
    }

    /// The pairs that comparing these probe positions takes, in whole blocks.
    fn pairs(&self, positions: Range<u32>) -> u64 {
        let blocks = (positions.start / BLOCK) as usize..positions.end.div_ceil(BLOCK) as usize;
        let width = |block: usize| u64::from(self.ends[block].saturating_sub(self.firsts[block]));
        blocks.map(width).sum::<u64>() * u64::from(BLOCK * BLOCK)
    }

    /// Tasks for a range of probe positions, each of up to `rows_of_task` of them.
    pub(super) fn tasks(&self, positions: Range<u32>, rows_of_task: u32, tasks: &mut Vec<Task>) {
        tasks.clear();
        let blocks = positions.start / BLOCK..positions.end.div_ceil(BLOCK);
        for probe in blocks.clone().step_by((rows_of_task / BLOCK) as usize) {
            let run = probe as usize..blocks.end.min(probe + rows_of_task / BLOCK) as usize;
            let first = self.firsts[run.clone()].iter().copied().min().unwrap_or(0);
            let end = self.ends[run].iter().copied().max().unwrap_or(0);
            let cuts = (first..end).step_by(BLOCKS_OF_TASK as usize);
            tasks.extend(cuts.map(|first| Task { probe, first, end: end.min(first + BLOCKS_OF_TASK) }));
        }
    }
}
