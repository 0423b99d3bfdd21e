//! One function for each kernel of `kernels/`: the only place where something is launched.
//!
//! A function takes buffers that are at least as long as the contract in `kernels/README.md` says, which its callers
//! see to; what is launched on one stream runs in order.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{CudaContext, DeviceRepr, DriverError, LaunchConfig};

use super::fault::Fault;
use super::memory::Buffer;

mod coded_strings;
mod equality;
mod nearest;
mod prefixes;
mod rules;
mod sets;
mod sort;
mod strings;
mod vectors;

pub(super) use coded_strings::*;
pub(super) use equality::*;
pub(super) use nearest::{FoundNeighbour, NearestKernels, NearestSides, Round, Searched};
pub(super) use prefixes::*;
pub(super) use rules::*;
pub(super) use sets::*;
pub(super) use sort::SortKernels;
pub(super) use strings::*;
pub(super) use vectors::{
    Boxes, FrameOnDevice, Halves, RowKeys, RowVectors, VectorCondition, VectorKernels, VectorPositions, VectorSides,
    VectorsOnDevice,
};

type Launched = Result<(), Fault>;

/// `Task` of `common.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Task {
    /// The first of the probe blocks.
    pub(super) probe: u32,
    /// The first build block.
    pub(super) first: u32,
    /// One past the last build block.
    pub(super) end: u32,
}

// SAFETY: the layout is that of the structure in common.cuh.
unsafe impl DeviceRepr for Task {}

/// `Pair` of `common.cuh`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RowPair {
    pub(super) build: u32,
    pub(super) probe: u32,
}

// SAFETY: the layout is that of the structure in common.cuh, and every bit pattern is a value.
unsafe impl DeviceRepr for RowPair {}
// SAFETY: as above.
unsafe impl cudarc::driver::ValidAsZeroBits for RowPair {}

/// `ArrowStrings` of `arrow_strings.cuh`, as addresses.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct ArrowStringsOnDevice {
    pub(super) views: u64,
    pub(super) bytes: u64,
    pub(super) buffers: u64,
    pub(super) valid: u64,
    pub(super) first_bit: u64,
    pub(super) count: u32,
    pub(super) unused: u32,
}

// SAFETY: the layout is that of the structure in arrow_strings.cuh.
unsafe impl DeviceRepr for ArrowStringsOnDevice {}

/// Pairs that a kernel appends, and how many there are or would be.
pub(super) struct Appended<'a> {
    pub(super) pairs: &'a mut Buffer<RowPair>,
    pub(super) count: &'a mut Buffer<u64>,
    pub(super) capacity: u64,
}

fn multiprocessors(context: &Arc<CudaContext>) -> Result<u32, DriverError> {
    let count = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok(count.max(1) as u32)
}

/// Grid of so many blocks of so many threads; it is never empty.
fn grid(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks.max(1), 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}

/// Enough threads for so many items, up to a bound beyond which each takes several.
fn grid_of_items(items: u64, threads: u32) -> LaunchConfig {
    grid(items.div_ceil(u64::from(threads)).min(1 << 16) as u32, threads)
}
