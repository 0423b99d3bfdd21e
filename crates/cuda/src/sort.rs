//! Records by a key, on a device: a stable radix sort, the lowest digit first.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::fault::Fault;
use super::kernels::constants::sort::{DIGITS, TILE};
use super::kernels::{DigitCounts, KeyedRows};
use super::memory::Budget;

/// Bits of a digit.
const DIGIT: u32 = DIGITS.ilog2();

/// `count` records in the order of the keys' lowest `bits` bits; equal ones keep their order.
pub(super) fn sort(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    mut records: KeyedRows,
    count: u32,
    bits: u32,
) -> Result<KeyedRows, Fault> {
    let kernels = budget.device.kernels().sort()?;
    let mut digits = DigitCounts {
        of_tiles: budget.buffer(stream, (count.div_ceil(TILE) * DIGITS) as usize)?,
        totals: budget.buffer(stream, DIGITS as usize)?,
    };
    let mut others =
        KeyedRows { keys: budget.buffer(stream, count as usize)?, rows: budget.buffer(stream, count as usize)? };
    for shift in (0..bits).step_by(DIGIT as usize).filter(|_| count > 1) {
        kernels.pass(stream, &records, &mut others, count, shift, &mut digits)?;
        std::mem::swap(&mut records, &mut others);
    }
    Ok(records)
}
