//! Launches of the kernels of `sort.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::constants::sort::{DIGITS, TILE};
use super::generated::sort::Kernels;
use super::grid::{Grid, Launched};
use super::launch::KeyedRows;
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// Room for how many records have each digit.
pub(crate) struct DigitCounts {
    /// In each tile.
    pub(crate) of_tiles: Buffer<u32>,
    /// In all.
    pub(crate) totals: Buffer<u32>,
}

/// The kernels of `sort.cu`.
pub(crate) struct SortKernels {
    kernels: Kernels,
}

impl SortKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)? })
    }

    /// Moves `count` records to their places by the digit from bit `shift` on.
    pub(crate) fn pass(
        &self,
        stream: &CudaStream,
        from: &KeyedRows,
        to: &mut KeyedRows,
        count: u32,
        shift: u32,
        digits: &mut DigitCounts,
    ) -> Launched {
        let (keys, tiles) = (from.keys.address(stream), count.div_ceil(TILE));
        let DigitCounts { of_tiles, totals } = digits;
        // SAFETY: there is a number for each digit of each tile.
        unsafe {
            self.kernels.radix_count(stream, Grid::Blocks(tiles), keys, count, shift, of_tiles.address_mut(stream))
        }?;
        let (sums, all) = (of_tiles.address_mut(stream), totals.address_mut(stream));
        // SAFETY: there is a number for each digit.
        unsafe { self.kernels.radix_scan(stream, Grid::Warps(DIGITS), sums, all, tiles) }?;
        // SAFETY: the output is other memory, with room for all records.
        unsafe {
            self.kernels.radix_scatter(
                stream,
                Grid::Blocks(tiles),
                keys,
                from.rows.address(stream),
                to.keys.address_mut(stream),
                to.rows.address_mut(stream),
                count,
                shift,
                of_tiles.address(stream),
                totals.address(stream),
            )
        }
    }
}
