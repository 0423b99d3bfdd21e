//! Launches of the kernels of `nearest.cu`.

use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use similarity_engine::nearest;

use super::generated::constants::vector_measure::{EUCLIDEAN, MANHATTAN};
use super::generated::nearest::{Kernels, Neighbour, Round, Searched};
use super::generated::vector_measure::VectorCondition;
use super::generated::vectors::Vectors;
use super::grid::{Grid, Launched};
use super::launch::{Appended, BLOCK, TaskList, multiprocessors};
use crate::address::Address;
use crate::buffer::Buffer;

/// The kernels of `nearest.cu`.
pub(crate) struct NearestKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

const _: () = {
    type OnHost = nearest::Neighbour<i64>;
    assert!(size_of::<OnHost>() == size_of::<Neighbour>() && align_of::<OnHost>() == align_of::<Neighbour>());
    assert!(offset_of!(OnHost, score) == offset_of!(Neighbour, score));
    assert!(offset_of!(OnHost, rank) == offset_of!(Neighbour, rank));
    assert!(offset_of!(OnHost, row) == offset_of!(Neighbour, row));
};

/// Neighbours as rankings know them.
pub(crate) fn neighbours(found: &[Neighbour]) -> &[nearest::Neighbour<i64>] {
    // SAFETY: the layout is that of a neighbour, as checked above.
    unsafe { std::slice::from_raw_parts(found.as_ptr().cast(), found.len()) }
}

/// Neighbours as rankings know them, to be changed.
pub(crate) fn neighbours_mut(found: &mut [Neighbour]) -> &mut [nearest::Neighbour<i64>] {
    // SAFETY: the layout is that of a neighbour, as checked above.
    unsafe { std::slice::from_raw_parts_mut(found.as_mut_ptr().cast(), found.len()) }
}

/// Two sides and the rows of one of them that are searched.
#[derive(Clone, Copy)]
pub(crate) struct NearestSides {
    pub(crate) probe: Vectors,
    pub(crate) build: Vectors,
    pub(crate) condition: VectorCondition,
    /// The rank of each build row, none where all have the same.
    pub(crate) ranks: Option<Address<u32>>,
    pub(crate) searched: Searched,
}

impl NearestKernels {
    pub(crate) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context, tensor_cores)?, blocks: 16 * multiprocessors(context)? })
    }

    /// The seeds of each probe block.
    pub(crate) fn seeds(&self, stream: &CudaStream, sides: &NearestSides) -> Launched {
        let NearestSides { probe, build, condition, searched, .. } = *sides;
        let grid = Grid::Warps(searched.count.div_ceil(BLOCK));
        // SAFETY: the addresses are of live columns.
        unsafe { self.kernels.nearest_seeds(stream, grid, probe, build, condition.width, searched) }
    }

    /// Appends the positions of pairs of a round that the filter cannot tell from neighbours; in half precision where
    /// the sides have such points.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &NearestSides,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Launched {
        let filter = match sides.condition.metric {
            _ if sides.build.halves.is_some() => Kernels::nearest_filter_halves,
            MANHATTAN => Kernels::nearest_filter_l1,
            EUCLIDEAN => Kernels::nearest_filter_l2,
            _ => Kernels::nearest_filter_linf,
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
                sides.searched,
                round,
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Offers candidates to the rows that are searched, or `again` to those that were offered too many.
    pub(crate) fn offer(
        &self,
        stream: &CudaStream,
        sides: &NearestSides,
        candidates: &Appended<'_>,
        again: bool,
    ) -> Launched {
        let searched = match again {
            true => Searched { reach: sides.searched.again, ..sides.searched },
            false => sides.searched,
        };
        // SAFETY: the threads share whatever number of candidates there is, and the addresses are of live columns.
        unsafe {
            self.kernels.nearest_offer(
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

    /// Leaves each row the best of what it was offered.
    pub(crate) fn select(&self, stream: &CudaStream, sides: &NearestSides) -> Launched {
        let NearestSides { condition, searched, .. } = *sides;
        let shared_bytes = searched.capacity * size_of::<Neighbour>() as u32;
        // SAFETY: the offers of a row fit the shared memory, and the addresses are of live columns.
        unsafe { self.kernels.nearest_select(stream, Grid::Blocks(searched.count), shared_bytes, condition, searched) }
    }

    /// Writes the neighbours of the rows one after the other.
    pub(crate) fn fetch(&self, stream: &CudaStream, sides: &NearestSides, out: &mut Buffer<Neighbour>) -> Launched {
        let places = u64::from(sides.searched.count) * u64::from(sides.searched.wanted);
        // SAFETY: `out` has a place for all neighbours.
        unsafe { self.kernels.nearest_fetch(stream, Grid::Items(places), sides.searched, out.address_mut(stream)) }
    }
}
