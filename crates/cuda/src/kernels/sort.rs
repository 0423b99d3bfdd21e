//! The kernels of `sort.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Launched, grid};
use crate::memory::Buffer;

/// The kernels of `sort.cu`.
pub(crate) struct SortKernels {
    count: CudaFunction,
    scan: CudaFunction,
    scatter: CudaFunction,
}

/// Threads of a block of `sort.cu`.
const SORT_THREADS: u32 = 256;
/// Records of a block of `sort.cu`.
const SORT_TILE: u32 = 4096;

impl SortKernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module = context.load_module(Ptx::from_src(include_str!("../../../../kernels/ptx/sort.sm75.ptx")))?;
        Ok(Self {
            count: module.load_function("radix_count")?,
            scan: module.load_function("radix_scan")?,
            scatter: module.load_function("radix_scatter")?,
        })
    }

    /// Counts the digits from bit `shift` on of every tile of `n` keys.
    pub(crate) fn count(
        &self,
        stream: &CudaStream,
        keys: &Buffer<u64>,
        n: u32,
        shift: u32,
        counts: &mut Buffer<u32>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.count);
        launch.arg(&keys.slice).arg(&n).arg(&shift).arg(&mut counts.slice);
        // SAFETY: the arguments are those of radix_count, and `counts` has 256 entries a tile.
        unsafe { launch.launch(grid(n.div_ceil(SORT_TILE), SORT_THREADS)) }?;
        Ok(())
    }

    /// Makes offsets of the counts of `tiles` tiles.
    pub(crate) fn scan(
        &self,
        stream: &CudaStream,
        counts: &mut Buffer<u32>,
        totals: &mut Buffer<u32>,
        tiles: u32,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.scan);
        launch.arg(&mut counts.slice).arg(&mut totals.slice).arg(&tiles);
        // SAFETY: the arguments are those of radix_scan, a warp for each of the 256 digits.
        unsafe { launch.launch(grid(32, SORT_THREADS)) }?;
        Ok(())
    }

    /// Moves `n` records to their places by the digit from bit `shift` on.
    pub(crate) fn scatter(
        &self,
        stream: &CudaStream,
        from: (&Buffer<u64>, &Buffer<u32>),
        to: (&mut Buffer<u64>, &mut Buffer<u32>),
        n: u32,
        shift: u32,
        offsets: (&Buffer<u32>, &Buffer<u32>),
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.scatter);
        launch.arg(&from.0.slice).arg(&from.1.slice).arg(&mut to.0.slice).arg(&mut to.1.slice);
        launch.arg(&n).arg(&shift).arg(&offsets.0.slice).arg(&offsets.1.slice);
        // SAFETY: the arguments are those of radix_scatter; both outputs hold n records.
        unsafe { launch.launch(grid(n.div_ceil(SORT_TILE), SORT_THREADS)) }?;
        Ok(())
    }
}
