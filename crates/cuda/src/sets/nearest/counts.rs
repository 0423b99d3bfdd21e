//! What is launched to rank sets by an inverted index: range by range it is counted how many tokens rows share.

use cudarc::driver::CudaStream;

use super::inverted_index::InvertedIndex;
use super::kept::SetsOnDevice;
use super::rounds::{SCORE_ORDER, sides};
use crate::fault::Fault;
use crate::kernels::{CountedRanges, NearestSets};
use crate::memory::Budget;
use crate::nearest::{NeighbourSearch, Offers, ScoreOrder, strides};
use crate::sets::sorted::SortedSets;
use similarity_engine::Cancel;

/// Postings that a launch reads, so that it takes some hundredths of a second. By design, not measured.
const POSTINGS_OF_LAUNCH: u64 = 1 << 33;
/// Blocks of threads of a launch.
const BLOCKS_OF_LAUNCH: u32 = 1 << 24;

/// A probe side, and the index of the build side that is ranked for it.
pub(super) struct CountedSets<'a> {
    index: &'a InvertedIndex,
    budget: &'a Budget,
    sides: NearestSets,
    /// Ranges of build positions.
    ranges: u32,
    /// Postings that a probe row has in one of them.
    postings: u64,
}

impl<'a> CountedSets<'a> {
    /// Search for a probe side whose tokens have so many postings.
    pub(super) fn new(
        sets: &'a SetsOnDevice,
        index: &'a InvertedIndex,
        probe: &'a SortedSets,
        postings: u64,
        stream: &CudaStream,
    ) -> Self {
        let ranges = sets.sets.count.div_ceil(index.room.positions());
        let postings = postings / (u64::from(probe.count) * u64::from(ranges)).max(1);
        Self { index, budget: &sets.budget, sides: sides(sets, probe, stream), ranges, postings }
    }

    /// Counts in some ranges, once more for rows that were offered more than they have places for.
    fn count(&self, offers: &mut Offers<'_>, ranges: &[u32], cancel: &Cancel) -> Result<usize, Fault> {
        let (budget, stream) = (self.budget, offers.stream);
        let kernels = budget.device.kernels().nearest_counts()?;
        let uploaded = budget.upload(stream, ranges)?;
        let counted = CountedRanges {
            postings: self.index.lists.on_device(stream),
            ranges: &uploaded,
            count: ranges.len() as u32,
            room: self.index.room,
        };
        let (mut again, mut before) = (false, [0; 2]);
        while !cancel.is_cancelled() {
            let offered =
                offers.offer(again, |searched, tally| kernels.counts(stream, &self.sides, counted, searched, tally))?;
            let [scored, read] = offered.tally;
            let tasks = if again { 0 } else { counted.count * offers.searched().count };
            budget.metrics.launch(tasks as usize, offered.milliseconds, scored - before[0]);
            budget.metrics.see_postings(read - before[1]);
            (again, before) = (true, offered.tally);
            if offered.crowded == 0 {
                break;
            }
        }
        Ok(before[0])
    }
}

impl NeighbourSearch for CountedSets<'_> {
    fn score_order(&self) -> ScoreOrder {
        SCORE_ORDER
    }

    fn run(&self, offers: &mut Offers<'_>, cancel: &Cancel) -> Result<usize, Fault> {
        let rows = offers.searched().count;
        let ranges = POSTINGS_OF_LAUNCH / (self.postings * u64::from(rows)).max(1);
        let at_once = ranges.clamp(1, u64::from(BLOCKS_OF_LAUNCH / rows)) as usize;
        let (mut scored, mut done) = (0, None);
        for stride in strides(self.ranges, 0) {
            let is_new = |range: &u32| done.is_none_or(|done| !range.is_multiple_of(done));
            let of_round: Vec<u32> = (0..self.ranges).step_by(stride as usize).filter(is_new).collect();
            for ranges in of_round.chunks(at_once) {
                scored += self.count(offers, ranges, cancel)?;
            }
            done = Some(stride);
        }
        Ok(scored)
    }
}
