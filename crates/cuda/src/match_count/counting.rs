//! What is launched to rank rows by how many conditions hold: part by part of the build side, a sample of them first.

use cudarc::driver::CudaStream;

use super::build_side::CountedColumns;
use super::probe_side::CountingSide;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::match_count::PART;
use crate::kernels::constants::nearest::BY_SCORE;
use crate::kernels::{BLOCK, CountedParts, CountedSides, Pair, SearchedBlocks};
use crate::nearest::{NeighbourSearch, Offers, SEARCHES, ScoreOrder, strides};
use crate::wait::wait;
use similarity_engine::Cancel;

/// Masks that a launch looks up, so that it takes some hundredths of a second, and how many times as long one takes
/// where conditions have weights. By design, not measured.
const LOOKUPS_OF_LAUNCH: u64 = 1 << 32;
const WEIGHTED: u64 = 16;
/// Bytes of masks at most.
const MOST_BYTES: usize = 1 << 28;
/// Blocks of threads of a launch.
const BLOCKS_OF_LAUNCH: u64 = 1 << 30;

/// Room for rows that tie with the last one of a row, at first.
const TIES_OF_ROW: usize = 32;

/// Rows that tie, of all that are searched at once; where there are more, the CPU ranks, row by row.
const MOST_TIES: usize = 1 << 22;

/// Some blocks of the searched rows, and their masks.
#[derive(Clone, Copy)]
struct Masked<'a> {
    blocks: SearchedBlocks,
    masks: &'a Buffer<u64>,
}

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

    /// Makes the masks of the searched rows, of as many blocks at a time as there is room for, and goes on with them.
    fn block_by_block(
        &self,
        offers: &mut Offers<'_>,
        cancel: &Cancel,
        mut go_on: impl FnMut(&mut Offers<'_>, Masked<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (budget, stream, searched) = (offers.budget, offers.stream, offers.searched());
        let (all, of_block) = (searched.count / BLOCK, self.build.masks);
        let room = (budget.available() / (4 * SEARCHES)).min(MOST_BYTES);
        let at_once = (room / (of_block as usize * size_of::<u64>())).clamp(1, all.max(1) as usize) as u32;
        let mut masks = budget.buffer(stream, at_once as usize * of_block as usize)?;
        for first in (0..all).step_by(at_once as usize) {
            if cancel.is_cancelled() {
                break;
            }
            let blocks = SearchedBlocks { first, count: at_once.min(all - first) };
            let kernels = budget.device.kernels().match_count()?;
            kernels.masks(stream, &self.sides, searched, (blocks, of_block), &mut masks)?;
            go_on(offers, Masked { blocks, masks: &masks })?;
        }
        Ok(())
    }

    /// Parts that one launch goes through for so many blocks.
    fn parts_at_once(&self, blocks: u32) -> usize {
        let weighted = if self.build.weights.is_some() { WEIGHTED } else { 1 };
        let lookups = u64::from(blocks) * u64::from(PART) * u64::from(self.build.column_count) * weighted;
        (LOOKUPS_OF_LAUNCH / lookups.max(1)).clamp(1, (BLOCKS_OF_LAUNCH / u64::from(blocks)).max(1)) as usize
    }

    fn parts(&self) -> u32 {
        self.build.count.div_ceil(PART)
    }

    /// Offers all parts to some blocks of the searched rows: a sample of parts, larger ones, then all.
    fn rounds(&self, offers: &mut Offers<'_>, masked: Masked<'_>, cancel: &Cancel) -> Result<usize, Fault> {
        let (all, at_once) = (self.parts(), self.parts_at_once(masked.blocks.count));
        let (mut offered, mut done) = (0, None);
        for stride in strides(all, 0) {
            let is_new = |part: &u32| done.is_none_or(|done| !part.is_multiple_of(done));
            let of_round: Vec<u32> = (0..all).step_by(stride as usize).filter(is_new).collect();
            for parts in of_round.chunks(at_once) {
                offered += self.offer(offers, masked, parts, cancel)?;
            }
            done = Some(stride);
        }
        Ok(offered)
    }

    /// Offers some parts, once more to rows that were offered more than they have places for.
    fn offer(
        &self,
        offers: &mut Offers<'_>,
        Masked { blocks, masks }: Masked<'_>,
        parts: &[u32],
        cancel: &Cancel,
    ) -> Result<usize, Fault> {
        let (budget, stream) = (offers.budget, offers.stream);
        let kernels = budget.device.kernels().match_count()?;
        let uploaded = budget.upload(stream, parts)?;
        let counted = CountedParts { blocks, masks, parts: &uploaded, count: parts.len() as u32 };
        let (mut again, mut before) = (false, 0);
        while !cancel.is_cancelled() {
            let launched = offers
                .offer(again, |searched, tally| kernels.count(stream, &self.sides, counted, searched, None, tally))?;
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

    /// Adds to `ties` what of some parts ties with the worst row that is kept; `room` becomes as large as they need.
    fn tie(
        &self,
        offers: &mut Offers<'_>,
        Masked { blocks, masks }: Masked<'_>,
        parts: &[u32],
        (room, ties): (&mut Buffer<Pair>, &mut Vec<Pair>),
    ) -> Result<(), Fault> {
        let (budget, stream) = (offers.budget, offers.stream);
        let kernels = budget.device.kernels().match_count()?;
        let uploaded = budget.upload(stream, parts)?;
        let counted = CountedParts { blocks, masks, parts: &uploaded, count: parts.len() as u32 };
        loop {
            let launched = offers.offer(false, |searched, tally| {
                kernels.count(stream, &self.sides, counted, searched, Some(room), tally)
            })?;
            let [_, found] = launched.tally;
            budget.metrics.launch((blocks.count * counted.count) as usize, launched.milliseconds, found);
            if found > room.slice.len() {
                budget.metrics.retry();
                *room = budget.buffer(stream, found)?;
                continue;
            }
            let start = ties.len();
            if start + found > MOST_TIES {
                return Err(Fault::Memory);
            }
            ties.resize(start + found, Pair::default());
            budget.download(stream, room, &mut ties[start..])?;
            wait(stream)?;
            return Ok(());
        }
    }
}

impl NeighbourSearch for Counting<'_> {
    fn score_order(&self) -> ScoreOrder {
        ScoreOrder { descending: true, reach_by: BY_SCORE, dimension: 0, rounding: (1.0, 0.0) }
    }

    fn run(&self, offers: &mut Offers<'_>, cancel: &Cancel) -> Result<usize, Fault> {
        let mut offered = 0;
        self.block_by_block(offers, cancel, |offers, masked| {
            offered += self.rounds(offers, masked, cancel)?;
            Ok(())
        })?;
        Ok(offered)
    }

    fn finds_ties(&self) -> bool {
        true
    }

    fn ties(&self, offers: &mut Offers<'_>, cancel: &Cancel) -> Result<Vec<Pair>, Fault> {
        let room = TIES_OF_ROW * offers.searched().count as usize;
        let (mut room, mut ties) = (offers.budget.buffer(offers.stream, room)?, Vec::new());
        let all: Vec<u32> = (0..self.parts()).collect();
        self.block_by_block(offers, cancel, |offers, masked| {
            let chunks = all.chunks(self.parts_at_once(masked.blocks.count));
            for parts in chunks.take_while(|_| !cancel.is_cancelled()) {
                self.tie(offers, masked, parts, (&mut room, &mut ties))?;
            }
            Ok(())
        })?;
        ties.sort_unstable_by_key(|tie| (tie.probe, tie.build));
        Ok(ties)
    }
}
