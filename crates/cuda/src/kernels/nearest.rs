//! The kernels of `nearest.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Appended, Launched, Task, VectorCondition, VectorsOnDevice, grid, grid_of_items, multiprocessors};
use crate::memory::Buffer;
use similarity_engine::nearest::Neighbour;

/// The kernels of `nearest.cu`.
pub(crate) struct NearestKernels {
    seeds: CudaFunction,
    /// Filters by the number of the metric.
    filters: [CudaFunction; 3],
    /// Where there are tensor cores.
    filter_halves: Option<CudaFunction>,
    offer: CudaFunction,
    select: CudaFunction,
    fetch: CudaFunction,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// `Neighbour` of `nearest.cu`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct FoundNeighbour(pub(crate) Neighbour<i64>);

// SAFETY: the layout is that of the structure in nearest.cu, and every bit pattern is a value.
unsafe impl DeviceRepr for FoundNeighbour {}

impl FoundNeighbour {
    /// Neighbours as rankings know them.
    pub(crate) fn neighbours(found: &[Self]) -> &[Neighbour<i64>] {
        // SAFETY: the layout is that of a neighbour.
        unsafe { std::slice::from_raw_parts(found.as_ptr().cast(), found.len()) }
    }

    /// Neighbours as rankings know them, to be changed.
    pub(crate) fn neighbours_mut(found: &mut [Self]) -> &mut [Neighbour<i64>] {
        // SAFETY: the layout is that of a neighbour.
        unsafe { std::slice::from_raw_parts_mut(found.as_mut_ptr().cast(), found.len()) }
    }
}

/// `Searched` of `nearest.cu`: the probe positions that are searched, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Searched {
    pub(crate) offered: u64,
    pub(crate) counts: u64,
    pub(crate) kept: u64,
    pub(crate) reach: u64,
    pub(crate) again: u64,
    pub(crate) crowded: u64,
    pub(crate) seeds: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) capacity: u32,
    pub(crate) wanted: u32,
    pub(crate) seed_count: u32,
    pub(crate) corner_count: u32,
    pub(crate) descending: u32,
    pub(crate) wider: f32,
    pub(crate) by_norm: f32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in nearest.cu.
unsafe impl DeviceRepr for Searched {}

/// `Round` of `nearest.cu`: which build blocks are compared.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Round {
    pub(crate) seed: u32,
    pub(crate) stride: u32,
    pub(crate) done: u32,
}

// SAFETY: the layout is that of the structure in nearest.cu.
unsafe impl DeviceRepr for Round {}

/// Two sides and the rows of one of them that are searched.
#[derive(Clone, Copy)]
pub(crate) struct NearestSides {
    pub(crate) probe: VectorsOnDevice,
    pub(crate) build: VectorsOnDevice,
    pub(crate) condition: VectorCondition,
    /// The rank of each build row as an address, 0 where all have the same.
    pub(crate) ranks: u64,
    pub(crate) searched: Searched,
}

/// Positions of a block.
const BLOCK: u32 = 64;
/// Warps of a block of threads.
const WARPS: u32 = 4;
/// Threads of a block that selects.
const SELECTING: u32 = 128;

impl NearestKernels {
    pub(crate) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../../kernels/ptx/nearest.sm80.ptx")
        } else {
            include_str!("../../../../kernels/ptx/nearest.sm75.ptx")
        };
        let module = context.load_module(Ptx::from_src(ptx))?;
        let function = |name: &str| module.load_function(&format!("nearest_{name}"));
        Ok(Self {
            seeds: function("seeds")?,
            filters: [function("filter_l1")?, function("filter_l2")?, function("filter_linf")?],
            filter_halves: tensor_cores.then(|| function("filter_halves")).transpose()?,
            offer: function("offer")?,
            select: function("select")?,
            fetch: function("fetch")?,
            blocks: 16 * multiprocessors(context)?,
        })
    }

    /// The seeds of each probe block.
    pub(crate) fn seeds(&self, stream: &CudaStream, sides: &NearestSides) -> Launched {
        let mut launch = stream.launch_builder(&self.seeds);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition.width).arg(&sides.searched);
        let blocks = sides.searched.count.div_ceil(BLOCK);
        // SAFETY: the arguments are those of nearest_seeds, a warp a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(WARPS), 32 * WARPS)) }?;
        Ok(())
    }

    /// Appends the positions of pairs of a round that the filter cannot tell from neighbours; in half precision where
    /// the sides have such points.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &NearestSides,
        (tasks, count): (&Buffer<Task>, u32),
        round: &Round,
        out: &mut Appended<'_>,
    ) -> Launched {
        let halves = self.filter_halves.as_ref().filter(|_| sides.build.halves != 0);
        let mut launch = stream.launch_builder(halves.unwrap_or(&self.filters[sides.condition.metric as usize]));
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&tasks.slice);
        launch.arg(&sides.searched).arg(round);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of nearest_filter_*, a block of threads a task; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(count, 32 * WARPS)) }?;
        Ok(())
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
        let mut launch = stream.launch_builder(&self.offer);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&sides.ranks).arg(&searched);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        // SAFETY: the arguments are those of nearest_offer, whose threads share whatever number of candidates there is.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }

    /// Leaves each row the best of what it was offered.
    pub(crate) fn select(&self, stream: &CudaStream, sides: &NearestSides) -> Launched {
        let mut launch = stream.launch_builder(&self.select);
        launch.arg(&sides.condition).arg(&sides.searched);
        let mut grid = grid(sides.searched.count, SELECTING);
        grid.shared_mem_bytes = sides.searched.capacity * size_of::<FoundNeighbour>() as u32;
        // SAFETY: the arguments are those of nearest_select, a block a row, whose offers fit the shared memory.
        unsafe { launch.launch(grid) }?;
        Ok(())
    }

    /// Writes the neighbours of the rows one after the other.
    pub(crate) fn fetch(
        &self,
        stream: &CudaStream,
        sides: &NearestSides,
        out: &mut Buffer<FoundNeighbour>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.fetch);
        launch.arg(&sides.searched).arg(&mut out.slice);
        let places = u64::from(sides.searched.count) * u64::from(sides.searched.wanted);
        // SAFETY: the arguments are those of nearest_fetch; `out` has a place for all neighbours.
        unsafe { launch.launch(grid_of_items(places, 256)) }?;
        Ok(())
    }
}
