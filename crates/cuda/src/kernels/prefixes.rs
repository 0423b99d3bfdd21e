//! Launches of the kernels of `prefixes.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::postings::Postings;
use super::generated::prefixes::{Kernels, Prefixes, Ranges};
use super::generated::set_measure::SetCondition;
use super::generated::sets::Sets;
use super::grid::{Grid, Launched, WARP};
use super::launch::{Appended, KeyedRows, Positions, TaskList, Windows};
use super::sets::SetSides;
use crate::buffer::Buffer;
use crate::context::DeviceContext;
use crate::replicate::replicate;

/// The kernels of `prefixes.cu`.
pub(crate) struct PrefixKernels {
    kernels: Kernels,
}

/// Which postings the tokens of probe prefixes are compared with, and how many they are for each probe block.
#[derive(Debug)]
pub(crate) struct RangeColumns {
    pub(crate) firsts: Buffer<u32>,
    pub(crate) offsets: Buffer<u32>,
    pub(crate) totals: Buffer<u64>,
}

/// Prefixes of two sides, and what the one asks of the other.
#[derive(Clone, Copy)]
pub(crate) struct PrefixSides {
    pub(crate) sets: SetSides,
    pub(crate) asked: Prefixes,
    pub(crate) posted: Prefixes,
    pub(crate) postings: Postings,
}

/// Prefixes of two sides, and the postings that the tokens of the probe side are compared with.
#[derive(Clone, Copy)]
pub(crate) struct PrefixRanges {
    pub(crate) sides: PrefixSides,
    pub(crate) ranges: Ranges,
}

replicate!(RangeColumns { firsts, offsets, totals });

impl PrefixKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)? })
    }

    /// How many tokens the prefix of each position has, on the build or the probe side.
    pub(crate) fn lengths(
        &self,
        stream: &CudaStream,
        sets: Sets,
        is_build: bool,
        condition: SetCondition,
        out: &mut Buffer<u32>,
    ) -> Launched {
        let (grid, out) = (Grid::Items(sets.count.into()), out.address_mut(stream));
        // SAFETY: `out` has an entry a position.
        unsafe { self.kernels.prefix_lengths(stream, grid, sets, condition, is_build.into(), out) }
    }

    /// The tokens of all prefixes, and the same once more to be sorted, each with its position.
    pub(crate) fn tokens(
        &self,
        stream: &CudaStream,
        sets: Sets,
        starts: &Buffer<u32>,
        tokens: &mut Buffer<u32>,
        postings: Option<&mut KeyedRows>,
    ) -> Launched {
        let grid = Grid::Items(u64::from(WARP) * u64::from(sets.count));
        let (starts, tokens) = (starts.address(stream), tokens.address_mut(stream));
        let (keys, positions) =
            postings.map(|postings| (postings.keys.address_mut(stream), postings.rows.address_mut(stream))).unzip();
        // SAFETY: the outputs are as long as the last start.
        unsafe { self.kernels.prefix_tokens(stream, grid, sets, starts, tokens, keys, positions) }
    }

    /// Where the postings of each of `ranks` tokens start, of which there are `count` in the order of `tokens`.
    pub(crate) fn starts(
        &self,
        stream: &CudaStream,
        tokens: &Buffer<u64>,
        count: u32,
        ranks: u32,
        out: &mut Buffer<u32>,
    ) -> Launched {
        let grid = Grid::Items(u64::from(ranks) + 1);
        // SAFETY: `out` has an entry a token and one more.
        unsafe {
            self.kernels.prefix_starts(stream, grid, tokens.address(stream), count, ranks, out.address_mut(stream))
        }
    }

    /// The postings that `blocks` probe blocks are compared with, by the windows of build blocks.
    pub(crate) fn ranges(
        &self,
        stream: &CudaStream,
        sides: &PrefixSides,
        windows: &Windows,
        blocks: u32,
        out: &mut RangeColumns,
    ) -> Launched {
        // SAFETY: there is a window a block, and an entry a token of a probe prefix.
        unsafe {
            self.kernels.prefix_ranges(
                stream,
                Grid::Blocks(blocks),
                sides.sets.probe,
                sides.sets.condition,
                sides.asked,
                sides.postings,
                windows.firsts.address(stream),
                windows.ends.address(stream),
                sides.sets.self_join.into(),
                out.firsts.address_mut(stream),
                out.offsets.address_mut(stream),
                out.totals.address_mut(stream),
            )
        }
    }

    /// Appends the positions of pairs that share a token of their prefixes and whose signatures, of `words` words,
    /// allow a match, for some probe positions.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        PrefixRanges { sides, ranges }: &PrefixRanges,
        words: u32,
        tasks: TaskList<'_>,
        positions: Positions,
        out: &mut Appended<'_>,
    ) -> Launched {
        // SAFETY: the addresses are of live columns, with signatures of so many words.
        unsafe {
            self.kernels.prefix_filter(
                stream,
                tasks.grid(),
                sides.sets.probe,
                sides.sets.build,
                sides.sets.condition,
                sides.asked,
                sides.posted,
                sides.postings,
                *ranges,
                tasks.on_device.address(stream),
                words,
                positions.begin,
                positions.end,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }
}
