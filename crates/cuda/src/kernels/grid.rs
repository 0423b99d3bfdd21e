//! How large a launch is, and what comes of it.

use cudarc::driver::sys::CUresult;
use cudarc::driver::{DriverError, LaunchConfig};

use crate::fault::Fault;

/// What comes of a launch.
pub(super) type Launched = Result<(), Fault>;

/// How many blocks of threads a launch has. How many threads a block has is said by the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Grid {
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
pub(super) const WARP: u32 = 32;

impl Grid {
    /// Grid of blocks of so many threads, each with so many bytes of dynamic shared memory. It is never empty.
    pub(super) fn of(self, threads: u32, shared_mem_bytes: u32) -> LaunchConfig {
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
pub(super) fn no_kernel() -> Fault {
    Fault::Device(DriverError(CUresult::CUDA_ERROR_NOT_FOUND))
}
