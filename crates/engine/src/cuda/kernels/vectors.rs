//! The kernels of `vectors.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Appended, Launched, Task, grid, grid_of_items, multiprocessors};
use crate::cuda::memory::Buffer;

/// The kernels of `vectors.cu`.
pub(in crate::cuda) struct VectorKernels {
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
pub(in crate::cuda) struct VectorsOnDevice {
    pub(in crate::cuda) values: u64,
    pub(in crate::cuda) sources: u64,
    pub(in crate::cuda) rows: u64,
    pub(in crate::cuda) groups: u64,
    pub(in crate::cuda) points: u64,
    pub(in crate::cuda) halves: u64,
    pub(in crate::cuda) terms: u64,
    pub(in crate::cuda) residues: u64,
    pub(in crate::cuda) lengths: u64,
    pub(in crate::cuda) lows: u64,
    pub(in crate::cuda) highs: u64,
    pub(in crate::cuda) norms: u64,
    pub(in crate::cuda) count: u32,
    pub(in crate::cuda) unused: u32,
}

// SAFETY: the layout is that of the structure in vectors.cuh.
unsafe impl DeviceRepr for VectorsOnDevice {}

/// `VectorTest` of `measure/vector_measure.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(in crate::cuda) struct VectorTest {
    pub(in crate::cuda) lower: f64,
    pub(in crate::cuda) upper: f64,
    pub(in crate::cuda) most: f64,
    pub(in crate::cuda) far: f64,
    pub(in crate::cuda) by_norm: f64,
    pub(in crate::cuda) scale: f64,
    pub(in crate::cuda) measure: u32,
    pub(in crate::cuda) metric: u32,
    pub(in crate::cuda) dimension: u32,
    pub(in crate::cuda) width: u32,
    pub(in crate::cuda) lower_inclusive: u32,
    pub(in crate::cuda) upper_inclusive: u32,
}

// SAFETY: the layout is that of the structure in vector_measure.cuh.
unsafe impl DeviceRepr for VectorTest {}

impl VectorTest {
    /// Whether scores are sums of products.
    pub(in crate::cuda) fn is_product(&self) -> bool {
        self.metric == 3
    }
}

/// `Frame` of `vectors.cu`: how vectors become points.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(in crate::cuda) struct FrameOnDevice {
    pub(in crate::cuda) order: u64,
    pub(in crate::cuda) centre: u64,
    pub(in crate::cuda) first: u64,
    pub(in crate::cuda) cells: u64,
    pub(in crate::cuda) dimension: u32,
    pub(in crate::cuda) curved: u32,
    pub(in crate::cuda) bits: u32,
    pub(in crate::cuda) unit: u32,
}

// SAFETY: the layout is that of the structure in vectors.cu.
unsafe impl DeviceRepr for FrameOnDevice {}

/// The vectors of a side in the order of its rows.
pub(in crate::cuda) struct RowVectors {
    pub(in crate::cuda) values: Buffer<f64>,
    /// Where a row's vector is among `values`, in vectors; none where that is the row number.
    pub(in crate::cuda) sources: Option<Buffer<u32>>,
    /// The row numbers.
    pub(in crate::cuda) rows: Buffer<u32>,
    /// None where all rows are of one group.
    pub(in crate::cuda) groups: Option<Buffer<u32>>,
    pub(in crate::cuda) count: u32,
}

impl RowVectors {
    fn sources(&self) -> &Buffer<u32> {
        self.sources.as_ref().unwrap_or(&self.rows)
    }
}

/// What rows are sorted by.
pub(in crate::cuda) struct RowKeys {
    pub(in crate::cuda) lengths: Buffer<f64>,
    pub(in crate::cuda) keys: Buffer<u64>,
    pub(in crate::cuda) order: Buffer<u32>,
}

/// The columns of a side by position.
#[derive(Debug)]
pub(in crate::cuda) struct VectorPositions {
    pub(in crate::cuda) sources: Buffer<u32>,
    pub(in crate::cuda) rows: Buffer<u32>,
    pub(in crate::cuda) groups: Option<Buffer<u32>>,
    pub(in crate::cuda) lengths: Buffer<f64>,
    /// Positions with vectors, and all in whole blocks.
    pub(in crate::cuda) count: u32,
    pub(in crate::cuda) padded: u32,
}

/// Points in half precision.
#[derive(Debug)]
pub(in crate::cuda) struct Halves {
    pub(in crate::cuda) numbers: Buffer<u16>,
    pub(in crate::cuda) terms: Buffer<f32>,
    pub(in crate::cuda) residues: Buffer<u32>,
    pub(in crate::cuda) lengths: Buffer<u32>,
}

/// Boxes around blocks of points and around blocks of blocks.
#[derive(Debug)]
pub(in crate::cuda) struct Boxes {
    pub(in crate::cuda) lows: Buffer<f32>,
    pub(in crate::cuda) highs: Buffer<f32>,
    pub(in crate::cuda) norms: Buffer<f32>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(in crate::cuda) struct VectorSides {
    pub(in crate::cuda) probe: VectorsOnDevice,
    pub(in crate::cuda) build: VectorsOnDevice,
    pub(in crate::cuda) test: VectorTest,
    /// Whether both are one side.
    pub(in crate::cuda) own: bool,
}

/// Positions of a block of `vectors.cu`.
const BLOCK: u32 = 64;
/// Blocks in an outer box.
const GROUPED: u32 = 64;
/// Warps of a block of threads.
const WARPS: u32 = 4;

impl VectorKernels {
    pub(in crate::cuda) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../../../kernels/ptx/vectors.sm80.ptx")
        } else {
            include_str!("../../../../../kernels/ptx/vectors.sm75.ptx")
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
    pub(in crate::cuda) fn keys(
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
    pub(in crate::cuda) fn gather(
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
    pub(in crate::cuda) fn points(
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
    pub(in crate::cuda) fn halves(
        &self,
        stream: &Arc<CudaStream>,
        (frame, test): (&FrameOnDevice, &VectorTest),
        values: &Buffer<f64>,
        positions: &VectorPositions,
        out: &mut Halves,
    ) -> Launched {
        stream.memset_zeros(&mut out.residues.slice)?;
        stream.memset_zeros(&mut out.lengths.slice)?;
        let products = u32::from(test.is_product());
        let mut launch = stream.launch_builder(&self.halves);
        launch.arg(frame).arg(&values.slice).arg(&positions.sources.slice).arg(&positions.lengths.slice);
        launch.arg(&positions.count).arg(&positions.padded).arg(&products).arg(&test.scale);
        launch.arg(&mut out.numbers.slice).arg(&mut out.terms.slice);
        launch.arg(&mut out.residues.slice).arg(&mut out.lengths.slice);
        // SAFETY: the arguments are those of vector_halves; the outputs have all positions and blocks.
        unsafe { launch.launch(grid_of_items(u64::from(positions.padded), 128)) }?;
        Ok(())
    }

    /// Boxes of blocks, and of blocks of these.
    pub(in crate::cuda) fn boxes(
        &self,
        stream: &CudaStream,
        (frame, test): (&FrameOnDevice, &VectorTest),
        values: &Buffer<f64>,
        positions: &VectorPositions,
        out: &mut Boxes,
    ) -> Launched {
        let blocks = positions.count.div_ceil(BLOCK);
        let mut launch = stream.launch_builder(&self.boxes);
        launch.arg(frame).arg(&values.slice).arg(&positions.sources.slice).arg(&positions.lengths.slice);
        launch.arg(&positions.count).arg(&test.metric).arg(&test.width);
        launch.arg(&mut out.lows.slice).arg(&mut out.highs.slice).arg(&mut out.norms.slice);
        // SAFETY: the arguments are those of vector_boxes, a warp a block; the outputs have all boxes.
        unsafe { launch.launch(grid(blocks.div_ceil(WARPS), 32 * WARPS)) }?;
        let mut launch = stream.launch_builder(&self.outer_boxes);
        launch.arg(&positions.count).arg(&test.width);
        launch.arg(&mut out.lows.slice).arg(&mut out.highs.slice).arg(&mut out.norms.slice);
        // SAFETY: the arguments are those of vector_outer_boxes, a warp an outer box.
        unsafe { launch.launch(grid(blocks.div_ceil(GROUPED).div_ceil(WARPS), 32 * WARPS)) }?;
        Ok(())
    }

    /// For each of `blocks` probe blocks the first and one past the last near build block, and how many are near.
    pub(in crate::cuda) fn reach(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        blocks: u32,
        (firsts, ends, near): (&mut Buffer<u32>, &mut Buffer<u32>, &mut Buffer<u32>),
    ) -> Launched {
        let own = u32::from(sides.own);
        let mut launch = stream.launch_builder(&self.reach);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test).arg(&own);
        launch.arg(&mut firsts.slice).arg(&mut ends.slice).arg(&mut near.slice);
        // SAFETY: the arguments are those of vector_reach, a warp a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(WARPS), 32 * WARPS)) }?;
        Ok(())
    }

    /// Appends the positions of pairs that the filter cannot tell from matches, for the probe positions `range`; in half
    /// precision where both sides have such points.
    pub(in crate::cuda) fn filter(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let own = u32::from(sides.own);
        let halves = self.filter_halves.as_ref().filter(|_| sides.build.halves != 0);
        let mut launch = stream.launch_builder(halves.unwrap_or(&self.filters[sides.test.metric as usize]));
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test).arg(&tasks.slice).arg(&own);
        launch.arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of vector_filter_*, a block of threads a task; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(count, 32 * WARPS)) }?;
        Ok(())
    }

    /// Appends the row numbers of the candidates that match.
    pub(in crate::cuda) fn verify(
        &self,
        stream: &CudaStream,
        sides: &VectorSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.verify);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of vector_verify, whose threads share whatever number of candidates there is.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }
}
