//! Records by a key, on a device: a stable radix sort, the lowest digit first.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::fault::Fault;
use super::memory::{Budget, Buffer};

/// Bits of a digit.
const DIGIT: u32 = 8;
/// Values of a digit.
const DIGITS: usize = 256;
/// Records that one block of threads moves.
const TILE: usize = 4096;

/// The keys and values of `count` records in the order of the keys' lowest `bits` bits; equal ones keep their order.
pub(super) fn sort(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    mut keys: Buffer<u64>,
    mut values: Buffer<u32>,
    count: u32,
    bits: u32,
) -> Result<(Buffer<u64>, Buffer<u32>), Fault> {
    let kernels = budget.device.sort()?;
    let tiles = (count as usize).div_ceil(TILE);
    let mut counts = budget.buffer(stream, tiles * DIGITS)?;
    let mut totals = budget.buffer(stream, DIGITS)?;
    let mut other_keys = budget.buffer(stream, count as usize)?;
    let mut other_values = budget.buffer(stream, count as usize)?;
    for shift in (0..bits).step_by(DIGIT as usize).filter(|_| count > 1) {
        kernels.count(stream, &keys, count, shift, &mut counts)?;
        kernels.scan(stream, &mut counts, &mut totals, tiles as u32)?;
        let (from, to) = ((&keys, &values), (&mut other_keys, &mut other_values));
        kernels.scatter(stream, from, to, count, shift, (&counts, &totals))?;
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut values, &mut other_values);
    }
    Ok((keys, values))
}
