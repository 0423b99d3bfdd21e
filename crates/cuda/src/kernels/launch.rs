//! What several kernels are launched with.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUdevice_attribute;

use super::generated::common::{Pair, Task};
use super::generated::constants;
use super::grid::{Grid, WARP};
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// Positions of a block.
pub(crate) const BLOCK: u32 = constants::common::BLOCK;

const _: () = assert!(WARP == constants::common::WARP_LANES);

/// Records of a key and a row, to be sorted.
#[derive(Debug)]
pub(crate) struct KeyedRows {
    pub(crate) keys: Buffer<u64>,
    pub(crate) rows: Buffer<u32>,
}

/// For each of some probe blocks the first and one past the last build block that it is compared with.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) firsts: Buffer<u32>,
    pub(crate) ends: Buffer<u32>,
}

/// The tasks of a launch.
#[derive(Clone, Copy)]
pub(crate) struct TaskList<'a> {
    pub(crate) on_device: &'a Buffer<Task>,
    pub(crate) on_host: &'a [Task],
}

impl TaskList<'_> {
    /// Grid with a block of threads for each task.
    pub(super) fn grid(&self) -> Grid {
        Grid::Blocks(self.on_host.len() as u32)
    }
}

/// The probe positions of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) begin: u32,
    pub(crate) end: u32,
}

/// Pairs that a kernel appends, and how many there are or would be.
pub(crate) struct Appended<'a> {
    pub(crate) pairs: &'a mut Buffer<Pair>,
    pub(crate) count: &'a mut Buffer<u64>,
    pub(crate) capacity: u64,
}

/// Multiprocessors of a device.
pub(super) fn multiprocessors(context: &DeviceContext) -> Result<u32, DriverError> {
    let count = context.cuda().attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok(count.max(1) as u32)
}
