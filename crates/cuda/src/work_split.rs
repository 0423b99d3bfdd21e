//! How the comparisons of two sides are cut into steps and tasks.

use std::ops::Range;

use super::kernels::Task;

/// Build blocks of one task at most.
pub(super) const BLOCKS_OF_TASK: u32 = 32;

/// Pairs of the least work that are compared between two looks at the cancel flag: some hundredths of a second's work.
pub(super) const PAIRS_OF_STEP: u64 = 1 << 36;

/// How the comparisons of two sides are cut.
pub(super) trait WorkSplit {
    /// Parts that a self-join is cut into where they are no more work than a step: enough for copies and kernels to
    /// overlap, and for many threads to go on with the pairs.
    fn parts(&self) -> u64;

    /// Pairs that are compared between two looks at the cancel flag at most.
    fn most_pairs(&self) -> u64;

    /// The end of a range of probe positions from `start` on whose comparisons are about `pairs`, before `end`, and how
    /// many they are.
    fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64);

    /// Tasks for a range of probe positions, in their order.
    fn tasks(&self, positions: Range<u32>) -> Vec<Task>;

    /// The end of a part of a self-join of `count` positions from `start` on.
    fn part(&self, start: u32, count: u32) -> u32 {
        let (_, all) = self.stretch(0, count, u64::MAX);
        self.stretch(start, count, (all / self.parts()).clamp(1, self.most_pairs())).0
    }
}
