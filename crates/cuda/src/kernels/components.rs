//! Launches of the kernels of `components.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::components::{IdTable as IdTableOnDevice, Kernels};
use super::grid::{Grid, Launched};
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// Ids in a hash table, and a tree of its slots for each component.
#[derive(Debug)]
pub(crate) struct IdTable {
    /// The id of each slot, 0 where there is none. Behind all slots is one that is not 0 if 0 is an id.
    pub(crate) ids: Buffer<u64>,
    /// The slot above each, and 1; 0 for a root.
    pub(crate) above: Buffer<u32>,
    /// Slots that hashes lead to, a power of two up to 2^31.
    pub(crate) capacity: u32,
}

impl IdTable {
    /// Slots in all.
    pub(crate) fn slots(&self) -> u32 {
        self.capacity + 1
    }

    fn on_device(&mut self, stream: &CudaStream) -> IdTableOnDevice {
        let (ids, above) = (self.ids.address_mut(stream), self.above.address_mut(stream));
        IdTableOnDevice { ids, above, mask: self.capacity - 1, unused: 0 }
    }
}

/// Room for each id with the least one of its component.
pub(crate) struct LeastIds {
    /// For each slot, zeros.
    pub(crate) of_slots: Buffer<u64>,
    pub(crate) ids: Buffer<u64>,
    pub(crate) clusters: Buffer<u64>,
    /// How many are written, zero.
    pub(crate) written: Buffer<u64>,
}

/// The kernels of `components.cu`.
pub(crate) struct ComponentKernels {
    kernels: Kernels,
}

impl ComponentKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)? })
    }

    /// Adds `count` links to a table with room for twice as many ids, and the ids that are new to `known`.
    pub(crate) fn link(
        &self,
        stream: &CudaStream,
        table: &mut IdTable,
        ends: &Buffer<u64>,
        count: u32,
        known: &mut Buffer<u64>,
    ) -> Launched {
        let (table, ends, known) = (table.on_device(stream), ends.address(stream), known.address_mut(stream));
        // SAFETY: there are two ends a link, and a slot without an id for each that is new.
        unsafe { self.kernels.link_ids(stream, Grid::Items(count.into()), table, ends, count, known) }
    }

    /// Brings ids and trees to a larger table, which has none.
    pub(crate) fn grow(
        &self,
        stream: &CudaStream,
        from: &mut IdTable,
        to: &mut IdTable,
        moved: &mut Buffer<u32>,
    ) -> Launched {
        let grid = Grid::Threads(from.slots());
        let (from, to) = (from.on_device(stream), to.on_device(stream));
        // SAFETY: `moved` has a place for each slot of `from`, all of whose ids have room.
        unsafe { self.kernels.move_ids(stream, grid, from, to, moved.address_mut(stream)) }?;
        // SAFETY: as above.
        unsafe { self.kernels.move_trees(stream, grid, from, to, moved.address(stream)) }
    }

    /// Writes all ids, whose order is that of `id ^ sign` without a sign, with the least one of their component.
    pub(crate) fn least(&self, stream: &CudaStream, table: &mut IdTable, sign: u64, out: &mut LeastIds) -> Launched {
        let (grid, table) = (Grid::Threads(table.slots()), table.on_device(stream));
        // SAFETY: there is a zero for each slot.
        unsafe { self.kernels.find_least(stream, grid, table, sign, out.of_slots.address_mut(stream)) }?;
        let (ids, clusters) = (out.ids.address_mut(stream), out.clusters.address_mut(stream));
        // SAFETY: there is room for all ids.
        unsafe {
            self.kernels.write_least(
                stream,
                grid,
                table,
                sign,
                out.of_slots.address(stream),
                ids,
                clusters,
                out.written.address_mut(stream),
            )
        }
    }
}
