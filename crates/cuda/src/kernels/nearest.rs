//! Launches of the kernels of `nearest.cu`.

use std::mem::offset_of;

use cudarc::driver::{CudaStream, DriverError};
use similarity_engine::nearest;

use super::generated::nearest::{Kernels, Neighbour, Searched};
use super::grid::{Grid, Launched};
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// The kernels of `nearest.cu`.
pub(crate) struct NearestKernels(Kernels);

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

impl NearestKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self(Kernels::load(context)?))
    }

    /// Leaves each row the best of what it was offered.
    pub(crate) fn select(&self, stream: &CudaStream, searched: Searched) -> Launched {
        let shared_bytes = searched.capacity * size_of::<Neighbour>() as u32;
        // SAFETY: the offers of a row fit the shared memory, and the addresses are of live columns.
        unsafe { self.0.nearest_select(stream, Grid::Blocks(searched.count), shared_bytes, searched) }
    }

    /// Writes the neighbours of the rows one after the other.
    pub(crate) fn fetch(&self, stream: &CudaStream, searched: Searched, out: &mut Buffer<Neighbour>) -> Launched {
        let places = u64::from(searched.count) * u64::from(searched.wanted);
        // SAFETY: `out` has a place for all neighbours.
        unsafe { self.0.nearest_fetch(stream, Grid::Items(places), searched, out.address_mut(stream)) }
    }
}
