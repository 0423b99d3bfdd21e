//! The kernels of `sets.cu`.

use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Appended, Launched, Task, grid, grid_of_items, multiprocessors};
use crate::memory::Buffer;

/// The kernels of `sets.cu`.
pub(crate) struct SetKernels {
    signatures: CudaFunction,
    gather: CudaFunction,
    summaries: CudaFunction,
    windows: CudaFunction,
    /// Filters by words of 256 bits: 1, 2, 4, 8.
    filters: [CudaFunction; 4],
    verify: CudaFunction,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// `Sets` of `sets.cu`: the columns of one side, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SetsOnDevice {
    pub(crate) signatures: u64,
    pub(crate) sizes: u64,
    pub(crate) known: u64,
    pub(crate) ones: u64,
    pub(crate) groups: u64,
    pub(crate) rows: u64,
    pub(crate) starts: u64,
    pub(crate) tokens: u64,
    pub(crate) summaries: u64,
    pub(crate) count: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in sets.cu.
unsafe impl DeviceRepr for SetsOnDevice {}

/// `SetCondition` of `measure/set_measure.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SetCondition {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) share: f64,
    pub(crate) probe_share: f64,
    pub(crate) build_of_probe: f64,
    pub(crate) probe_of_build: f64,
    pub(crate) weights: [f64; 2],
    pub(crate) measure: u32,
    pub(crate) form: u32,
    pub(crate) lower_inclusive: u32,
    pub(crate) upper_inclusive: u32,
    pub(crate) is_reversed: u32,
    pub(crate) unused: u32,
}

// as in set_measure.cuh
const _: () = assert!(size_of::<SetCondition>() == 88 && offset_of!(SetCondition, measure) == 64);

// SAFETY: the layout is that of the structure in set_measure.cuh.
unsafe impl DeviceRepr for SetCondition {}

/// `Summary` of `sets.cu`: eight numbers.
pub(crate) type Summary = [u32; 8];

/// The sets of a side in the order of its rows.
pub(crate) struct RowColumns {
    pub(crate) starts: Buffer<u64>,
    pub(crate) tokens: Buffer<u32>,
    pub(crate) sizes: Buffer<u32>,
    /// None where all rows are of one group.
    pub(crate) groups: Option<Buffer<u32>>,
    /// The row numbers.
    pub(crate) rows: Buffer<u32>,
    pub(crate) count: u32,
}

/// Signatures in the order of rows, and what to sort them by.
pub(crate) struct RowSignatures {
    pub(crate) signatures: Buffer<u32>,
    pub(crate) ones: Buffer<u32>,
    pub(crate) keys: Buffer<u64>,
    pub(crate) order: Buffer<u32>,
}

/// The sets of a side in the order of positions.
#[derive(Debug)]
pub(crate) struct PositionColumns {
    pub(crate) signatures: Buffer<u32>,
    pub(crate) sizes: Buffer<u32>,
    pub(crate) known: Buffer<u32>,
    pub(crate) ones: Buffer<u32>,
    pub(crate) groups: Buffer<u32>,
    pub(crate) rows: Buffer<u32>,
    pub(crate) starts: Buffer<u64>,
    pub(crate) summaries: Buffer<Summary>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(crate) struct SetSides {
    pub(crate) probe: SetsOnDevice,
    pub(crate) build: SetsOnDevice,
    pub(crate) condition: SetCondition,
    /// Whether both are one side.
    pub(crate) self_join: bool,
}

impl SetKernels {
    pub(crate) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../../kernels/ptx/sets.sm80.ptx")
        } else {
            include_str!("../../../../kernels/ptx/sets.sm75.ptx")
        };
        let module: Arc<CudaModule> = context.load_module(Ptx::from_src(ptx))?;
        let filter = |bits: u32| module.load_function(&format!("set_filter_{bits}"));
        Ok(Self {
            signatures: module.load_function("set_signatures")?,
            gather: module.load_function("set_gather")?,
            summaries: module.load_function("set_summaries")?,
            windows: module.load_function("set_windows")?,
            filters: [filter(256)?, filter(512)?, filter(1024)?, filter(2048)?],
            verify: module.load_function("set_verify")?,
            blocks: 8 * multiprocessors(context)?,
        })
    }

    /// Signatures of `words` words for tokens of `ranks` ranks.
    pub(crate) fn signatures(
        &self,
        stream: &CudaStream,
        columns: &RowColumns,
        ranks: u32,
        words: u32,
        out: &mut RowSignatures,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.signatures);
        launch.arg(&columns.starts.slice).arg(&columns.tokens.slice).arg(&columns.sizes.slice);
        match &columns.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&columns.count).arg(&ranks).arg(&words);
        launch.arg(&mut out.signatures.slice).arg(&mut out.ones.slice);
        launch.arg(&mut out.keys.slice).arg(&mut out.order.slice);
        // SAFETY: the arguments are those of set_signatures, 8 rows a block.
        unsafe { launch.launch(grid(columns.count.div_ceil(8), 256)) }?;
        Ok(())
    }

    /// Columns in the order of `order`, with empty sets up to `padded` positions.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        columns: &RowColumns,
        (signatures, ones): (&Buffer<u32>, &Buffer<u32>),
        order: &Buffer<u32>,
        (padded, words): (u32, u32),
        out: &mut PositionColumns,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.gather);
        launch.arg(&order.slice).arg(&columns.count).arg(&padded).arg(&words).arg(&signatures.slice);
        launch.arg(&columns.sizes.slice).arg(&ones.slice);
        match &columns.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&columns.rows.slice).arg(&columns.starts.slice);
        launch.arg(&mut out.signatures.slice).arg(&mut out.sizes.slice).arg(&mut out.known.slice);
        launch.arg(&mut out.ones.slice).arg(&mut out.groups.slice);
        launch.arg(&mut out.rows.slice).arg(&mut out.starts.slice);
        // SAFETY: the arguments are those of set_gather; every output has `padded` positions.
        unsafe { launch.launch(grid_of_items(u64::from(padded) * u64::from(words), 256)) }?;
        Ok(())
    }

    /// What the sets of each block of positions have in common.
    pub(crate) fn summaries(&self, stream: &CudaStream, columns: &mut PositionColumns, count: u32) -> Launched {
        let mut launch = stream.launch_builder(&self.summaries);
        launch.arg(&columns.sizes.slice).arg(&columns.known.slice).arg(&columns.ones.slice);
        launch.arg(&columns.groups.slice).arg(&count).arg(&mut columns.summaries.slice);
        // SAFETY: the arguments are those of set_summaries, a thread a block of 64 positions.
        unsafe { launch.launch(grid(count.div_ceil(64 * 128), 128)) }?;
        Ok(())
    }

    /// The first and one past the last build block for each of `blocks` probe blocks.
    pub(crate) fn windows(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        blocks: u32,
        firsts: &mut Buffer<u32>,
        ends: &mut Buffer<u32>,
    ) -> Launched {
        let (self_join, first) = (u32::from(sides.self_join), 0u32);
        let mut launch = stream.launch_builder(&self.windows);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&first).arg(&blocks).arg(&self_join);
        launch.arg(&mut firsts.slice).arg(&mut ends.slice);
        // SAFETY: the arguments are those of set_windows, a thread a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(128), 128)) }?;
        Ok(())
    }

    /// Appends the positions of pairs whose signatures, of `words` words, allow a match, for the probe positions
    /// `range`.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        words: u32,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let self_join = u32::from(sides.self_join);
        let mut launch = stream.launch_builder(&self.filters[words.trailing_zeros() as usize - 3]);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&tasks.slice).arg(&self_join);
        launch.arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of set_filter_*, a block of threads a task; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(count, 128)) }?;
        Ok(())
    }

    /// Appends the row numbers of the candidates that match.
    pub(crate) fn verify(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.verify);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of set_verify, whose warps share whatever number of candidates there is.
        unsafe { launch.launch(grid(self.blocks, 256)) }?;
        Ok(())
    }
}
