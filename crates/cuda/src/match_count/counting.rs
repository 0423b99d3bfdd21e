//! What is launched to rank rows by how many conditions hold: part by part of the build side, a sample of them first.

use cudarc::driver::CudaStream;

use super::build_side::CountedColumns;
use super::probe_side::CountingSide;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::match_count::PART;
use crate::kernels::constants::nearest::BY_SCORE;
use crate::kernels::{BLOCK, CountedParts, CountedSides, SearchedBlocks};
use crate::nearest::{NeighbourSearch, Offers, SEARCHES, ScoreOrder, strides};
use similarity_engine::Cancel;

/// Masks that a launch looks up, so that it takes some hundredths of a second, and how many times as long one takes
/// where conditions have weights. By design, not measured.
const LOOKUPS_OF_LAUNCH: u64 = 1 << 32;
const WEIGHTED: u64 = 16;
/// Bytes of masks at most.
const MOST_BYTES: usize = 1 << 28;
/// Blocks of threads of a launch.
const BLOCKS_OF_LAUNCH: u64 = 1 << 30;

/// A probe side, and the build side that is ranked for it.
pub(super) struct Counting<'a> {
    build: &'a CountedColumns,
    sides: CountedSides,
}

impl<'a> Counting<'a> {
    pub(super) fn new(build: &'a CountedColumns, probe: &CountingSide, stream: &CudaStream) -> Self {
        let sides = CountedSides {
            build: build.on_device(stream),
            probe: probe.on_device(stream),
            is_narrow: build.is_narrow(),
            weights: build.weights.as_ref().map(|weights| weights.address(stream)),
        };
        Self { build, sides }
    }

    /// Offers all parts to some blocks of the searched rows: a sample of parts, larger ones, then all.
    fn rounds(
        &self,
        offers: &mut Offers<'_>,
        (blocks, masks): (SearchedBlocks, &Buffer<u64>),
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let all = self.build.count.div_ceil(PART);
        let weighted = if self.build.weights.is_some() { WEIGHTED } else { 1 };
        let lookups = u64::from(blocks.count) * u64::from(PART) * u64::from(self.build.column_count) * weighted;
        let most = BLOCKS_OF_LAUNCH / u64::from(blocks.count);
        let at_once = (LOOKUPS_OF_LAUNCH / lookups.max(1)).min(most).max(1) as usize;
        let (mut offered, mut done) = (0, None);
        for stride in strides(all, 0) {
            let is_new = |part: &u32| done.is_none_or(|done| !part.is_multiple_of(done));
            let of_round: Vec<u32> = (0..all).step_by(stride as usize).filter(is_new).collect();
            for parts in of_round.chunks(at_once) {
                offered += self.offer(offers, (blocks, masks), parts, cancel)?;
            }
            done = Some(stride);
        }
        Ok(offered)
    }

    /// Offers some parts, once more to rows that were offered more than they have places for.
    fn offer(
        &self,
        offers: &mut Offers<'_>,
        (blocks, masks): (SearchedBlocks, &Buffer<u64>),
        parts: &[u32],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let (budget, stream) = (offers.budget, offers.stream);
        let kernels = budget.device.kernels().match_count()?;
        let uploaded = budget.upload(stream, parts)?;
        let counted = CountedParts { blocks, masks, parts: &uploaded, count: parts.len() as u32 };
        let (mut again, mut before) = (false, 0);
        while !cancel.is_cancelled() {
            let launched =
                offers.offer(again, |searched, tally| kernels.offer(stream, &self.sides, counted, searched, tally))?;
            let [offered, _] = launched.tally;
            let tasks = if again { 0 } else { blocks.count * counted.count };
            budget.metrics.launch(tasks as usize, launched.milliseconds, offered - before);
            (again, before) = (true, offered);
            if launched.crowded == 0 {
                break;
            }
        }
        Ok(before)
    }
}

impl NeighbourSearch for Counting<'_> {
    fn score_order(&self) -> ScoreOrder {
        ScoreOrder { descending: true, reach_by: BY_SCORE, dimension: 0, rounding: (1.0, 0.0) }
    }

    fn run(&self, offers: &mut Offers<'_>, cancel: &Cancel) -> Result<usize, Fault> {
        let (budget, stream, searched) = (offers.budget, offers.stream, offers.searched());
        let (all, of_block) = (searched.count / BLOCK, self.build.masks);
        let room = (budget.available() / (4 * SEARCHES)).min(MOST_BYTES);
        let at_once = (room / (of_block as usize * size_of::<u64>())).clamp(1, all.max(1) as usize) as u32;
        let mut masks = budget.buffer(stream, at_once as usize * of_block as usize)?;
        let mut offered = 0;
        for first in (0..all).step_by(at_once as usize) {
            if cancel.is_cancelled() {
                break;
            }
            let blocks = SearchedBlocks { first, count: at_once.min(all - first) };
            let kernels = budget.device.kernels().match_count()?;
            kernels.masks(stream, &self.sides, searched, (blocks, of_block), &mut masks)?;
            offered += self.rounds(offers, (blocks, &masks), cancel)?;
        }
        Ok(offered)
    }
}
