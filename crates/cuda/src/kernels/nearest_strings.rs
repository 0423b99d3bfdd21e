//! Launches of the kernels of `nearest_strings.cu`.

use cudarc::driver::{CudaStream, DriverError};
use similarity_measures::EditKernel;

use super::generated::nearest::{Round, Searched};
use super::generated::nearest_strings::{EditRanking, Kernels};
use super::generated::strings::CodedStrings;
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, TaskList, multiprocessors};
use crate::address::Address;
use crate::context::DeviceContext;

/// The kernels of `nearest_strings.cu`.
pub(crate) struct NearestStringKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// Two sides whose strings are ranked.
#[derive(Clone, Copy)]
pub(crate) struct NearestStrings {
    pub(crate) probe: CodedStrings,
    pub(crate) build: CodedStrings,
    pub(crate) by: EditRanking,
    pub(crate) decision: EditKernel,
    /// Whether the symbols are bytes.
    pub(crate) is_small: bool,
    /// The rank of each build row, none where all have the same.
    pub(crate) ranks: Option<Address<u32>>,
}

impl NearestStringKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 16 * multiprocessors(context)? })
    }

    /// The seeds of each probe block.
    pub(crate) fn seeds(&self, stream: &CudaStream, sides: &NearestStrings, searched: Searched) -> Launched {
        let grid = Grid::Threads(searched.count.div_ceil(BLOCK));
        // SAFETY: the addresses are of live columns, and the build side has a block.
        unsafe { self.kernels.nearest_string_seeds(stream, grid, sides.probe, sides.build, searched) }
    }

    /// Appends the positions of pairs of a round whose signatures allow a score that a row would keep.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &NearestStrings,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Launched {
        // SAFETY: the addresses are of live columns.
        unsafe {
            self.kernels.nearest_string_filter(
                stream,
                tasks.grid(),
                sides.probe,
                sides.build,
                sides.by,
                tasks.on_device.address(stream),
                searched,
                round,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Offers candidates to the rows that are searched.
    pub(crate) fn offer(
        &self,
        stream: &CudaStream,
        sides: &NearestStrings,
        searched: Searched,
        candidates: &Appended<'_>,
    ) -> Launched {
        let offer = match (sides.decision, sides.is_small) {
            (EditKernel::Levenshtein, true) => Kernels::nearest_string_offer_levenshtein_small,
            (EditKernel::Levenshtein, false) => Kernels::nearest_string_offer_levenshtein_large,
            (EditKernel::Osa, true) => Kernels::nearest_string_offer_osa_small,
            (EditKernel::Osa, false) => Kernels::nearest_string_offer_osa_large,
            (EditKernel::Hamming, true) => Kernels::nearest_string_offer_hamming_small,
            (EditKernel::Hamming, false) => Kernels::nearest_string_offer_hamming_large,
            (EditKernel::Jaro, true) => Kernels::nearest_string_offer_jaro_small,
            (EditKernel::Jaro, false) => Kernels::nearest_string_offer_jaro_large,
        };
        // SAFETY: the threads share whatever number of candidates there is; both sides' symbols are of the kernel's
        // size, and the addresses are of live columns.
        unsafe {
            offer(
                &self.kernels,
                stream,
                Grid::Blocks(self.blocks),
                sides.probe,
                sides.build,
                sides.by,
                sides.ranks,
                searched,
                candidates.pairs.address(stream),
                candidates.count.address(stream),
                candidates.capacity,
            )
        }
    }
}
