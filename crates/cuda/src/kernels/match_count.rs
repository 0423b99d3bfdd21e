//! Launches of the kernels of `match_count.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::common::Pair;
use super::generated::match_count::{CountedRows, Counting, CountingRows, Kernels, TiedRows};
use super::generated::nearest::Searched;
use super::grid::{Grid, Launched};
use crate::address::Address;
use crate::buffer::Buffer;
use crate::context::DeviceContext;
use crate::fault::Fault;
use crate::replicate::{Copying, Replicate};

/// The kernels of `match_count.cu`.
pub(crate) struct MatchCountKernels(Kernels);

/// Columns of places, in as many bytes as the last one needs.
#[derive(Debug)]
pub(crate) enum Places {
    Narrow(Buffer<u16>),
    Wide(Buffer<u32>),
}

impl Replicate for Places {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(match self {
            Self::Narrow(places) => Self::Narrow(places.replicate(to)?),
            Self::Wide(places) => Self::Wide(places.replicate(to)?),
        })
    }
}

/// What build rows are gathered from, row by row.
#[derive(Clone, Copy)]
pub(crate) struct CountedSpans {
    /// First and last places, condition by condition.
    pub(crate) spans: Address<[u32; 2]>,
    /// Ranks; none where all are 0.
    pub(crate) ranks: Option<Address<u32>>,
}

/// Two sides of which conditions are counted.
#[derive(Clone, Copy)]
pub(crate) struct CountedSides {
    pub(crate) build: CountedRows,
    pub(crate) probe: CountingRows,
    /// Whether places have two bytes.
    pub(crate) is_narrow: bool,
    /// The weight of each condition, where they have any.
    pub(crate) weights: Option<Address<f64>>,
}

/// Blocks of the searched rows: the first one and how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchedBlocks {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// What a launch goes through for some blocks of the searched rows.
#[derive(Clone, Copy)]
pub(crate) struct CountedParts<'a> {
    pub(crate) blocks: SearchedBlocks,
    /// The masks of these blocks.
    pub(crate) masks: &'a Buffer<u64>,
    /// Numbers of parts of the build side, at least `count`.
    pub(crate) parts: &'a Buffer<u32>,
    pub(crate) count: u32,
}

/// Conditions whose number has four binary digits.
const FEW_CONDITIONS: u32 = 15;
/// Conditions that counts have digits for.
pub(crate) const MOST_CONDITIONS: usize = 255;

impl MatchCountKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self(Kernels::load(context)?))
    }

    /// Writes the places of all rows, and their ranks where there are any.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        build: CountedRows,
        from: CountedSpans,
        places: &mut Places,
        ranks: Option<&mut Buffer<u32>>,
    ) -> Launched {
        let grid = Grid::Threads(build.stride);
        let ranks = ranks.map(|ranks| ranks.address_mut(stream));
        let CountedSpans { spans, ranks: row_ranks } = from;
        // SAFETY: the addresses are of live columns of `stride` places, and of spans and ranks of all rows.
        unsafe {
            match places {
                Places::Narrow(places) => {
                    let places = places.address_mut(stream);
                    self.0.match_count_gather_narrow(stream, grid, build, spans, row_ranks, places, ranks)
                }
                Places::Wide(places) => {
                    let places = places.address_mut(stream);
                    self.0.match_count_gather_wide(stream, grid, build, spans, row_ranks, places, ranks)
                }
            }
        }
    }

    /// Writes the masks of some blocks of the searched rows: `of_block` for each.
    pub(crate) fn masks(
        &self,
        stream: &CudaStream,
        sides: &CountedSides,
        searched: Searched,
        (blocks, of_block): (SearchedBlocks, u32),
        masks: &mut Buffer<u64>,
    ) -> Launched {
        let grid = Grid::Items(u64::from(blocks.count) * u64::from(of_block));
        let first = searched.first + blocks.first * super::BLOCK;
        // SAFETY: the addresses are of live columns, and there is room for the masks of all blocks.
        unsafe {
            let masks = masks.address_mut(stream);
            self.0.match_count_masks(stream, grid, sides.build, sides.probe, first, blocks.count, masks)
        }
    }

    /// Offers the searched rows of some blocks what they may keep of some parts, or appends to `tied` what ties with
    /// the worst that they keep. Adds to `counted` how many rows were offered and how many tie.
    pub(crate) fn count(
        &self,
        stream: &CudaStream,
        sides: &CountedSides,
        CountedParts { blocks, masks, parts, count }: CountedParts<'_>,
        searched: Searched,
        tied: Option<&mut Buffer<Pair>>,
        counted: &mut Buffer<u64>,
    ) -> Launched {
        let capacity = tied.as_ref().map_or(0, |tied| tied.slice.len() as u64);
        let by = Counting {
            build: sides.build,
            probe: sides.probe,
            searched,
            tied: TiedRows { pairs: tied.map(|tied| tied.address_mut(stream)), capacity },
            masks: masks.address(stream),
            first_block: blocks.first,
            part_count: count,
            parts: parts.address(stream),
            weights: sides.weights,
            counted: counted.address_mut(stream),
        };
        let has_few = sides.build.conditions <= FEW_CONDITIONS;
        let count_by = match (sides.weights.is_some(), sides.is_narrow, has_few) {
            (true, true, _) => Kernels::match_count_sums_narrow,
            (true, false, _) => Kernels::match_count_sums_wide,
            (false, true, true) => Kernels::match_count_narrow_4,
            (false, true, false) => Kernels::match_count_narrow_8,
            (false, false, true) => Kernels::match_count_wide_4,
            (false, false, false) => Kernels::match_count_wide_8,
        };
        // SAFETY: the addresses are of live columns with places of this width, the masks are those of the blocks, no
        // part is behind the last position, and each condition has a weight, or counts have as many digits.
        unsafe { count_by(&self.0, stream, Grid::Blocks(blocks.count * count), by) }
    }
}
