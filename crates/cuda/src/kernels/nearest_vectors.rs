//! Launches of the kernels of `nearest_vectors.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::constants::vector_measure::{EUCLIDEAN, MANHATTAN};
use super::generated::nearest::{Round, Searched};
use super::generated::nearest_vectors::Kernels;
use super::generated::vector_measure::VectorCondition;
use super::generated::vectors::Vectors;
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, TaskList, multiprocessors};
use crate::address::Address;
use crate::context::DeviceContext;

/// The kernels of `nearest_vectors.cu`.
pub(crate) struct NearestVectorKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// Two sides whose vectors are ranked.
#[derive(Clone, Copy)]
pub(crate) struct NearestVectors {
    pub(crate) probe: Vectors,
    pub(crate) build: Vectors,
    pub(crate) condition: VectorCondition,
    /// The rank of each build row, none where all have the same.
    pub(crate) ranks: Option<Address<u32>>,
}

impl NearestVectorKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 16 * multiprocessors(context)? })
    }

    /// The seeds of each probe block.
    pub(crate) fn seeds(&self, stream: &CudaStream, sides: &NearestVectors, searched: Searched) -> Launched {
        let NearestVectors { probe, build, condition, .. } = *sides;
        let grid = Grid::Warps(searched.count.div_ceil(BLOCK));
        // SAFETY: the addresses are of live columns.
        unsafe { self.kernels.nearest_vector_seeds(stream, grid, probe, build, condition.width, searched) }
    }

    /// Appends the positions of pairs of a round that the filter cannot tell from neighbours; in half precision where
    /// the sides have such points.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &NearestVectors,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Launched {
        let filter = match sides.condition.metric {
            _ if sides.build.halves.is_some() => Kernels::nearest_vector_filter_halves,
            MANHATTAN => Kernels::nearest_vector_filter_l1,
            EUCLIDEAN => Kernels::nearest_vector_filter_l2,
            _ => Kernels::nearest_vector_filter_linf,
        };
        // SAFETY: the addresses are of live columns.
        unsafe {
            filter(
                &self.kernels,
                stream,
                tasks.grid(),
                sides.probe,
                sides.build,
                sides.condition,
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
        sides: &NearestVectors,
        searched: Searched,
        candidates: &Appended<'_>,
    ) -> Launched {
        // SAFETY: the threads share whatever number of candidates there is, and the addresses are of live columns.
        unsafe {
            self.kernels.nearest_vector_offer(
                stream,
                Grid::Blocks(self.blocks),
                sides.probe,
                sides.build,
                sides.condition,
                sides.ranks,
                searched,
                candidates.pairs.address(stream),
                candidates.count.address(stream),
                candidates.capacity,
            )
        }
    }
}
