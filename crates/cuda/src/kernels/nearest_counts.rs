//! Launches of the kernels of `nearest_counts.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::nearest::Searched;
use super::generated::nearest_counts::Kernels;
use super::generated::postings::Postings;
use super::generated::sets::Sets;
use super::grid::{Grid, Launched};
use super::nearest_sets::NearestSets;
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// The kernels of `nearest_counts.cu`.
pub(crate) struct NearestCountKernels(Kernels);

/// Room for counters, by which a build side is divided into ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CounterRoom {
    /// The power of two that is the number of words.
    pub(crate) word_bits: u32,
}

impl CounterRoom {
    /// 32 KiB: six blocks of threads fill a multiprocessor, and every device has as much.
    pub(crate) const DEFAULT: Self = Self { word_bits: 13 };

    /// Positions of a range: one a byte.
    pub(crate) fn positions(self) -> u32 {
        self.bytes()
    }

    fn bytes(self) -> u32 {
        (size_of::<u32>() as u32) << self.word_bits
    }
}

/// The ranges of a launch, and the postings that are counted in them.
#[derive(Clone, Copy)]
pub(crate) struct CountedRanges<'a> {
    pub(crate) postings: Postings,
    /// Numbers of ranges, at least `count`.
    pub(crate) ranges: &'a Buffer<u32>,
    pub(crate) count: u32,
    pub(crate) room: CounterRoom,
}

impl NearestCountKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self(Kernels::load(context)?))
    }

    /// Adds up how many postings the tokens of a probe side have.
    pub(crate) fn postings(
        &self,
        stream: &CudaStream,
        probe: Sets,
        postings: Postings,
        total: &mut Buffer<u64>,
    ) -> Launched {
        // SAFETY: the addresses are of live columns, and all tokens have a list.
        unsafe {
            self.0.nearest_set_postings(
                stream,
                Grid::Items(probe.count.into()),
                probe,
                postings,
                total.address_mut(stream),
            )
        }
    }

    /// Offers the searched rows what they may keep of some ranges of build positions, and adds to `counted` how many
    /// rows were scored and how many postings were read.
    pub(crate) fn counts(
        &self,
        stream: &CudaStream,
        sides: &NearestSets,
        CountedRanges { postings, ranges, count, room }: CountedRanges<'_>,
        searched: Searched,
        counted: &mut Buffer<u64>,
    ) -> Launched {
        // SAFETY: the addresses are of live columns, `counted` has two numbers, and no range is behind the last
        // position.
        unsafe {
            self.0.nearest_set_counts(
                stream,
                Grid::Blocks(searched.count * count),
                room.bytes(),
                sides.probe,
                sides.build,
                sides.by,
                postings,
                sides.ranks,
                searched,
                ranges.address(stream),
                room.word_bits,
                counted.address_mut(stream),
            )
        }
    }
}
