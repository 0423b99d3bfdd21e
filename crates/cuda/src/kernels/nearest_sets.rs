//! Launches of the kernels of `nearest_sets.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::nearest::{Round, Searched};
use super::generated::nearest_sets::{Kernels, SetRanking};
use super::generated::sets::Sets;
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, TaskList, multiprocessors};
use crate::address::Address;
use crate::context::DeviceContext;

/// The kernels of `nearest_sets.cu`.
pub(crate) struct NearestSetKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// Two sides whose sets are ranked.
#[derive(Clone, Copy)]
pub(crate) struct NearestSets {
    pub(crate) probe: Sets,
    pub(crate) build: Sets,
    pub(crate) by: SetRanking,
    /// Words of a signature.
    pub(crate) words: u32,
    /// The rank of each build row, none where all have the same.
    pub(crate) ranks: Option<Address<u32>>,
}

impl NearestSetKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 8 * multiprocessors(context)? })
    }

    /// The seeds of each probe block.
    pub(crate) fn seeds(&self, stream: &CudaStream, sides: &NearestSets, searched: Searched) -> Launched {
        let grid = Grid::Threads(searched.count.div_ceil(BLOCK));
        // SAFETY: the addresses are of live columns, and the build side has a block.
        unsafe { self.kernels.nearest_set_seeds(stream, grid, sides.probe, sides.build, searched) }
    }

    /// Appends the positions of pairs of a round whose signatures allow a score that a row would keep.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &NearestSets,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Launched {
        let filter = match sides.words {
            8 => Kernels::nearest_set_filter_256,
            16 => Kernels::nearest_set_filter_512,
            32 => Kernels::nearest_set_filter_1024,
            _ => Kernels::nearest_set_filter_2048,
        };
        // SAFETY: the addresses are of live columns, with signatures of so many words.
        unsafe {
            filter(
                &self.kernels,
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
        sides: &NearestSets,
        searched: Searched,
        candidates: &Appended<'_>,
    ) -> Launched {
        // SAFETY: the warps share whatever number of candidates there is, and the addresses are of live columns.
        unsafe {
            self.kernels.nearest_set_offer(
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
