//! The kernels of `kernels/`: the only place where something is launched.
//!
//! `generated` has a function for each kernel, whose arguments have the kernel's types. The other files say what the
//! host decides of a launch: how many blocks of threads there are, which variant runs, and which buffers it is given.
//! Buffers are at least as long as the contracts in `kernels/README.md` say, which callers see to. What is launched on
//! one stream runs in order.

use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError, LaunchConfig};

use super::buffer::Buffer;
use super::fault::Fault;

mod coded_strings;
mod equality;
mod generated;
mod nearest;
mod prefixes;
mod rules;
mod sets;
mod sort;
mod strings;
mod vectors;

pub(super) use coded_strings::*;
pub(super) use equality::*;
pub(super) use generated::arrow_strings::ArrowStrings as ArrowStringsOnDevice;
pub(super) use generated::common::{Pair, Task};
pub(super) use generated::constants;
pub(super) use generated::edit_measure::{EditCondition, Reach};
pub(super) use generated::equality::{Counted, Known as KnownOnDevice, Records as RecordsOnDevice};
pub(super) use generated::nearest::{Neighbour as FoundNeighbour, Round, Searched};
pub(super) use generated::prefixes::{
    Postings as PostingsOnDevice, Prefixes as PrefixesOnDevice, Ranges as RangesOnDevice,
};
pub(super) use generated::rules::{
    Batch as BatchOnDevice, Items as ItemsOnDevice, Near as NearOnDevice, RuleSets, RuleTexts, RuleVectors,
    Span as SpanOnDevice, Step as RuleStep,
};
pub(super) use generated::set_measure::SetCondition;
pub(super) use generated::sets::Sets as SetsOnDevice;
pub(super) use generated::strings::{CodedStrings as CodedStringsOnDevice, Signer as SignerOnDevice};
pub(super) use generated::vector_measure::VectorCondition;
pub(super) use generated::vectors::{Frame as FrameOnDevice, Vectors as VectorsOnDevice};
pub(super) use nearest::{NearestKernels, NearestSides, neighbours, neighbours_mut};
pub(super) use prefixes::*;
pub(super) use rules::*;
pub(super) use sets::*;
pub(super) use sort::{DigitCounts, SortKernels};
pub(super) use strings::*;
pub(super) use vectors::*;

type Launched = Result<(), Fault>;

/// Positions of a block.
pub(super) const BLOCK: u32 = constants::common::BLOCK;

/// Records of a key and a row, to be sorted.
#[derive(Debug)]
pub(super) struct KeyedRows {
    pub(super) keys: Buffer<u64>,
    pub(super) rows: Buffer<u32>,
}

/// For each of some probe blocks the first and one past the last build block that it is compared with.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) firsts: Buffer<u32>,
    pub(super) ends: Buffer<u32>,
}

/// The tasks of a launch.
#[derive(Clone, Copy)]
pub(super) struct TaskList<'a> {
    pub(super) on_device: &'a Buffer<Task>,
    pub(super) on_host: &'a [Task],
}

impl TaskList<'_> {
    /// Grid with a block of threads for each task.
    fn grid(&self) -> Grid {
        Grid::Blocks(self.on_host.len() as u32)
    }
}

/// The probe positions of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Positions {
    pub(super) begin: u32,
    pub(super) end: u32,
}

/// Pairs that a kernel appends, and how many there are or would be.
pub(super) struct Appended<'a> {
    pub(super) pairs: &'a mut Buffer<Pair>,
    pub(super) count: &'a mut Buffer<u64>,
    pub(super) capacity: u64,
}

/// How many blocks of threads a launch has. How many threads a block has is said by the kernel.
#[derive(Debug, Clone, Copy)]
enum Grid {
    /// So many blocks.
    Blocks(u32),
    /// A thread for each of so many items.
    Threads(u32),
    /// A warp for each of so many items.
    Warps(u32),
    /// A thread for each of so many items, up to a bound beyond which each takes several.
    Items(u64),
}

/// Threads of a warp.
const WARP: u32 = constants::common::WARP_LANES;

impl Grid {
    /// Grid of blocks of so many threads, each with so many bytes of dynamic shared memory. It is never empty.
    fn of(self, threads: u32, shared_mem_bytes: u32) -> LaunchConfig {
        let blocks = match self {
            Self::Blocks(blocks) => blocks,
            Self::Threads(items) => items.div_ceil(threads),
            Self::Warps(items) => items.div_ceil(threads / WARP),
            Self::Items(items) => items.div_ceil(u64::from(threads)).min(1 << 16) as u32,
        };
        LaunchConfig { grid_dim: (blocks.max(1), 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes }
    }
}

/// Fault of a kernel that this device does not have.
fn no_kernel() -> Fault {
    Fault::Device(DriverError(CUresult::CUDA_ERROR_NOT_FOUND))
}

fn multiprocessors(context: &Arc<CudaContext>) -> Result<u32, DriverError> {
    let count = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok(count.max(1) as u32)
}
