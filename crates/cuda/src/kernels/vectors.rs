//! The kernels of `vectors.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Appended, Launched, Task, grid, grid_of_items, multiprocessors};
use crate::memory::Buffer;

/// The kernels of `vectors.cu`.
pub(crate) struct VectorKernels {
    keys: CudaFunction,
    gather: CudaFunction,
    points: CudaFunction,
    halves: CudaFunction,
    boxes: CudaFunction,
    outer_boxes: CudaFunction,
    reach: CudaFunction,
    /// Filters by the number of the metric.
    filters: [CudaFunction; 4],
    /// Where there are tensor cores.
    filter_halves: Option<CudaFunction>,
    verify: CudaFunction,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// `Vectors` of `vectors.cuh`: the columns of one side, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct VectorsOnDevice {
    pub(crate) values: u64,
    pub(crate) sources: u64,
    pub(crate) rows: u64,
    pub(crate) groups: u64,
    pub(crate) points: u64,
    pub(crate) halves: u64,
    pub(crate) terms: u64,
    pub(crate) residues: u64,
    pub(crate) lengths: u64,
    pub(crate) lows: u64,
    pub(crate) highs: u64,
    pub(crate) norms: u64,
    pub(crate) count: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in vectors.cuh.
unsafe impl DeviceRepr for VectorsOnDevice {}

/// `VectorCondition` of `measure/vector_measure.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct VectorCondition {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) most: f64,
    pub(crate) far: f64,
    pub(crate) by_norm: f64,
    pub(crate) scale: f64,
    pub(crate) measure: u32,
    pub(crate) metric: u32,
    pub(crate) dimension: u32,
    pub(crate) width: u32,
    pub(crate) lower_inclusive: u32,
    pub(crate) upper_inclusive: u32,
}

// SAFETY: the layout is that of the structure in vector_measure.cuh.
unsafe impl DeviceRepr for VectorCondition {}

impl VectorCondition {
    /// Whether scores are sums of products.
    pub(crate) fn is_product(&self) -> bool {
        self.metric == 3
    }
}

/// `Frame` of `vectors.cu`: how vectors become points.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct FrameOnDevice {
    pub(crate) order: u64,
    pub(crate) centre: u64,
    pub(crate) first: u64,
    pub(crate) cells: u64,
    pub(crate) dimension: u32,
    pub(crate) curved: u32,
    pub(crate) bits: u32,
    pub(crate) unit: u32,
}

// SAFETY: the layout is that of the structure in vectors.cu.
unsafe impl DeviceRepr for FrameOnDevice {}

/// The vectors of a side in the order of its rows.
pub(crate) struct RowVectors {
    pub(crate) values: Buffer<f64>,
    /// Where a row's vector is among `values`, in vectors; none where that is the row number.
    pub(crate) sources: Option<Buffer<u32>>,
    /// The row numbers.
    pub(crate) rows: Buffer<u32>,
    /// None where all rows are of one group.
    pub(crate) groups: Option<Buffer<u32>>,
    pub(crate) count: u32,
}

impl RowVectors {
    fn sources(&self) -> &Buffer<u32> {
        self.sources.as_ref().unwrap_or(&self.rows)
    }
}

/// What rows are sorted by.
pub(crate) struct RowKeys {
    pub(crate) lengths: Buffer<f64>,
    pub(crate) keys: Buffer<u64>,
    pub(crate) order: Buffer<u32>,
}

/// The columns of a side by position.
#[derive(Debug)]
pub(crate) struct VectorPositions {
    pub(crate) sources: Buffer<u32>,
    pub(crate) rows: Buffer<u32>,
    pub(crate) groups: Option<Buffer<u32>>,
    pub(crate) lengths: Buffer<f64>,
    /// Positions with vectors, and all in whole blocks.
    pub(crate) count: u32,
    pub(crate) padded: u32,
}

/// Points in half precision.
#[derive(Debug)]
pub(crate) struct Halves {
    pub(crate) numbers: Buffer<u16>,
    pub(crate) terms: Buffer<f32>,
    pub(crate) residues: Buffer<u32>,
    pub(crate) lengths: Buffer<u32>,
}

/// Boxes around blocks of points and around blocks of blocks.
#[derive(Debug)]
pub(crate) struct Boxes {
    pub(crate) lows: Buffer<f32>,
    pub(crate) highs: Buffer<f32>,
    pub(crate) norms: Buffer<f32>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(crate) struct VectorSides {
    pub(crate) probe: VectorsOnDevice,
    pub(crate) build: VectorsOnDevice,
    pub(crate) condition: VectorCondition,
    /// Whether both are one side.
    pub(crate) self_join: bool,
}

/// Positions of a block of `vectors.cu`.
const BLOCK: u32 = 64;
/// Blocks in an outer box.
const GROUPED: u32 = 64;
/// Warps of a block of threads.
const WARPS: u32 = 4;

impl VectorKernels {
    pub(crate) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../../kernels/ptx/vectors.sm80.ptx")
        } else {
            include_str!("../../../../kernels/ptx/vectors.sm75.ptx")
        };
        let module: Arc<CudaModule> = context.load_module(Ptx::from_src(ptx))?;
        let function = |name: &str| module.load_function(&format!("vector_{name}"));
        Ok(Self {
            keys: function("keys")?,
            gather: function("gather")?,
            points: function("points")?,
            halves: function("halves")?,
            boxes: function("boxes")?,
            outer_boxes: function("outer_boxes")?,
            reach: function("reach")?,
            filters: [
                function("filter_l1")?,
                function("filter_l2")?,
                function("filter_linf")?,
                function("filter_product")?,
            ],
            filter_halves: tensor_cores.then(|| function("filter_halves")).transpose()?,
            verify: function("verify")?,
            blocks: 16 * multiprocessors(context)?,
        })
    }

    /// The length and the sort key of each row.
    pub(crate) fn keys(
        &self,
        stream: &CudaStream,
        frame: &FrameOnDevice,
        rows: &RowVectors,
        out: &mut RowKeys,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.keys);
        launch.arg(frame).arg(&rows.values.slice).arg(&rows.sources().slice);
        match &rows.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&rows.count).arg(&mut out.lengths.slice).arg(&mut out.keys.slice).arg(&mut out.order.slice);
        // SAFETY: the arguments are those of vector_keys; every output has an entry a row.
        unsafe { launch.launch(grid_of_items(u64::from(rows.count), 128)) }?;
        Ok(())
    }

    /// Columns in the order of `order`.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        rows: &RowVectors,
        lengths: &Buffer<f64>,
        order: &Buffer<u32>,
        out: &mut VectorPositions,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.gather);
        launch.arg(&order.slice).arg(&out.count).arg(&out.padded);
        launch.arg(&rows.sources().slice).arg(&rows.rows.slice);
        match &rows.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&lengths.slice).arg(&mut out.sources.slice).arg(&mut out.rows.slice);
        match &mut out.groups {
            Some(groups) => launch.arg(&mut groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&mut out.lengths.slice);
        // SAFETY: the arguments are those of vector_gather; every output has `padded` positions, and both sides have
        // groups or neither has.
        unsafe { launch.launch(grid_of_items(u64::from(out.padded), 256)) }?;
        Ok(())
    }

    /// Points in single precision.
    pub(crate) fn points(
        &self,
        stream: &CudaStream,
        frame: &FrameOnDevice,
        values: &Buffer<f64>,
        positions: &VectorPositions,
        points: &mut Buffer<f32>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.points);
        launch.arg(frame).arg(&values.slice).arg(&positions.sources.slice).arg(&positions.lengths.slice);
        launch.arg(&positions.count).arg(&positions.padded).arg(&mut points.slice);
        let numbers = u64::from(positions.padded) * u64::from(frame.dimension);
        // SAFETY: the arguments are those of vector_points; `points` has all numbers of all positions.
        unsafe { launch.launch(grid_of_items(numbers, 256)) }?;
        Ok(())
    }

    /// Points in half precision.
    pub(crate) fn halves(
        &self,
        stream: &Arc<CudaStream>,
        (frame, condition): (&FrameOnDevice, &VectorCondition),
        values: &Buffer<f64>,
        positions: &VectorPositions,
        out: &mut Halves,
    ) -> Launched {
        stream.memset_zeros(&mut out.residues.slice)?;
        stream.memset_zeros(&mut out.lengths.slice)?;
        let products = u32::from(condition.is_product());
        let mut launch = stream.launch_builder(&self.halves);
        launch.arg(frame).arg(&values.slice).arg(&positions.sources.slice).arg(&positions.lengths.slice);
        launch.arg(&positions.count).arg(&positions.padded).arg(&products).arg(&condition.scale);
        launch.arg(&mut out.numbers.slice).arg(&mut out.terms.slice);
        launch.arg(&mut out.residues.slice).arg(&mut out.lengths.slice);
        // SAFETY: the arguments are those of vector_halves; the outputs have all positions and blocks.
        unsafe { launch.launch(grid_of_items(u64::from(positions.padded), 128)) }?;
        Ok(())
    }

    /// Boxes of blocks, and of blocks of these.
    pub(crate) fn boxes(
        &self,
        stream: &CudaStream,
        (frame, condition): (&FrameOnDevice, &VectorCondition),
        values: &Buffer<f64>,
        positions: &VectorPositions,
        out: &mut Boxes,
    ) -> Launched {
        let blocks = positions.count.div_ceil(BLOCK);
        let mut launch = stream.launch_builder(&self.boxes);
        launch.arg(frame).arg(&values.slice).arg(&positions.sources.slice).arg(&positions.lengths.slice);
        launch.arg(&positions.count).arg(&condition.metric).arg(&condition.width);
        launch.arg(&mut out.lows.slice).arg(&mut out.highs.slice).arg(&mut out.norms.slice);
        // SAFETY: the arguments are those of vector_boxes, a warp a block; the outputs have all boxes.
        unsafe { launch.launch(grid(blocks.div_ceil(WARPS), 32 * WARPS)) }?;
        let mut launch = stream.launch_builder(&self.outer_boxes);
        launch.arg(&positions.count).arg(&condition.width);
        launch.arg(&mut out.lows.slice).arg(&mut out.highs.slice).arg(&mut out.norms.slice);
        // SAFETY: the arguments are those of vector_outer_boxes, a warp an outer box.
        unsafe { launch.launch(grid(blocks.div_ceil(GROUPED).div_ceil(WARPS), 32 * WARPS)) }?;
        Ok(())
    }

    /// For each of `blocks` probe blocks the first and one past the last near build block, and how many are near.
    pub(crate) fn reach(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        blocks: u32,
        (firsts, ends, near): (&mut Buffer<u32>, &mut Buffer<u32>, &mut Buffer<u32>),
    ) -> Launched {
        let self_join = u32::from(sides.self_join);
        let mut launch = stream.launch_builder(&self.reach);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&self_join);
        launch.arg(&mut firsts.slice).arg(&mut ends.slice).arg(&mut near.slice);
        // SAFETY: the arguments are those of vector_reach, a warp a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(WARPS), 32 * WARPS)) }?;
        Ok(())
    }

    /// Appends the positions of pairs that the filter cannot tell from matches, for the probe positions `range`; in
    /// half precision where both sides have such points.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let self_join = u32::from(sides.self_join);
        let halves = self.filter_halves.as_ref().filter(|_| sides.build.halves != 0);
        let mut launch = stream.launch_builder(halves.unwrap_or(&self.filters[sides.condition.metric as usize]));
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&tasks.slice).arg(&self_join);
        launch.arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of vector_filter_*, a block of threads a task; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(count, 32 * WARPS)) }?;
        Ok(())
    }

    /// Appends the row numbers of the candidates that match.
    pub(crate) fn verify(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.verify);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of vector_verify, whose threads share whatever number of candidates there is.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }
}
