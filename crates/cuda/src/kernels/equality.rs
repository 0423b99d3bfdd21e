//! Launches of the kernels of `equality.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::arrow_strings::ArrowStrings as ArrowStringsOnDevice;
use super::generated::constants::equality::TILE;
use super::generated::equality::{Counted, Kernels, Known, Records};
use super::grid::{Grid, Launched};
use super::launch::KeyedRows;
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// The kernels of `equality.cu`.
pub(crate) struct EqualityKernels {
    kernels: Kernels,
}

/// The key of a string that is NULL, which `equality.cu` gives it; those of others are smaller.
pub(crate) const NULL_STRING: u64 = 1 << 63;

/// Keys that are whole numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntegersOnDevice<'a> {
    pub(crate) values: &'a Buffer<i64>,
    /// A bit a row, from a first bit on; none where no row is NULL.
    pub(crate) valid: Option<&'a Buffer<u8>>,
    pub(crate) first_bit: u64,
    pub(crate) least: i64,
    /// The key of a row without a value, above how far any is from the least one.
    pub(crate) none: u64,
}

/// Keys that are the numbers that rows have in one or two other keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JointNumbers<'a> {
    pub(crate) left: &'a Buffer<u32>,
    pub(crate) right: Option<&'a Buffer<u32>>,
    /// Bits of the second number at most.
    pub(crate) bits: u32,
    /// The key of a row without a number.
    pub(crate) none: u64,
}

/// What is counted of records before they are numbered.
pub(crate) struct RecordCounts {
    /// First records of a key before each tile, then records that have a number.
    pub(crate) tiles: Buffer<u32>,
    pub(crate) counted: Buffer<Counted>,
}

/// Rows by the number of their key.
pub(crate) struct NumberedRows {
    /// The number of each row.
    pub(crate) numbers: Buffer<u32>,
    /// Where the rows of each number start.
    pub(crate) starts: Buffer<u32>,
    /// Rows by number, ascending within one.
    pub(crate) grouped: Buffer<u32>,
    /// The key of each number, if it is asked for.
    pub(crate) known: Option<Buffer<u64>>,
}

/// Keys of rows that are looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedKeys<'a> {
    pub(crate) keys: &'a Buffer<u64>,
    pub(crate) count: u32,
}

/// Strings of two sides whose hashes are compared; none where keys are no hashes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HashedStrings {
    pub(crate) asked: ArrowStringsOnDevice,
    pub(crate) known: ArrowStringsOnDevice,
}

impl EqualityKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)? })
    }

    /// Writes a record for each string.
    pub(crate) fn strings(&self, stream: &CudaStream, strings: ArrowStringsOnDevice, out: &mut KeyedRows) -> Launched {
        let (keys, rows) = (out.keys.address_mut(stream), out.rows.address_mut(stream));
        // SAFETY: there is a record a row, and the addresses are of live columns.
        unsafe { self.kernels.key_strings(stream, Grid::Threads(strings.count), strings, keys, rows) }
    }

    /// Writes a record for each of `count` numbers.
    pub(crate) fn numbers(
        &self,
        stream: &CudaStream,
        IntegersOnDevice { values, valid, first_bit, least, none }: IntegersOnDevice<'_>,
        count: u32,
        out: &mut KeyedRows,
    ) -> Launched {
        // SAFETY: there are as many values, bits and records as it takes.
        unsafe {
            self.kernels.key_numbers(
                stream,
                Grid::Threads(count),
                values.address(stream),
                valid.map(|valid| valid.address(stream)),
                first_bit,
                count,
                least,
                none,
                out.keys.address_mut(stream),
                out.rows.address_mut(stream),
            )
        }
    }

    /// Writes a record for each of `count` rows.
    pub(crate) fn pairs(
        &self,
        stream: &CudaStream,
        JointNumbers { left, right, bits, none }: JointNumbers<'_>,
        count: u32,
        out: &mut KeyedRows,
    ) -> Launched {
        // SAFETY: there are as many numbers and records as it takes.
        unsafe {
            self.kernels.key_pairs(
                stream,
                Grid::Threads(count),
                left.address(stream),
                right.map(|right| right.address(stream)),
                count,
                bits,
                none,
                out.keys.address_mut(stream),
                out.rows.address_mut(stream),
            )
        }
    }

    /// How many counters [`heads`](Self::heads) takes for so many records.
    pub(crate) fn counters(count: u32) -> usize {
        2 * tiles(count) as usize
    }

    /// Counts the first records of each key before each tile, those that have a number, and what `counted`, zeros, is
    /// about.
    pub(crate) fn heads(
        &self,
        stream: &CudaStream,
        records: Records,
        strings: ArrowStringsOnDevice,
        out: &mut RecordCounts,
    ) -> Launched {
        let (sums, counted) = (out.tiles.address_mut(stream), out.counted.address_mut(stream));
        let count = tiles(records.count);
        // SAFETY: there are two counters a tile, and the addresses are of live columns.
        unsafe { self.kernels.key_heads(stream, Grid::Blocks(count), records, strings, sums, counted) }?;
        // SAFETY: as above.
        unsafe { self.kernels.key_offsets(stream, Grid::Blocks(2), sums, count, counted) }
    }

    /// Writes the number of each row, where the rows of each number start, and these rows; also the key of each
    /// number, if asked.
    pub(crate) fn groups(
        &self,
        stream: &CudaStream,
        records: Records,
        counts: &RecordCounts,
        out: &mut NumberedRows,
    ) -> Launched {
        // SAFETY: no number or place is as great as the count of records.
        unsafe {
            self.kernels.key_groups(
                stream,
                Grid::Blocks(tiles(records.count)),
                records,
                counts.tiles.address(stream),
                counts.counted.address(stream),
                out.numbers.address_mut(stream),
                out.starts.address_mut(stream),
                out.grouped.address_mut(stream),
                out.known.as_mut().map(|known| known.address_mut(stream)),
            )
        }
    }

    /// Writes the number of each key among those that are known, and adds those that have one to `found`.
    pub(crate) fn find(
        &self,
        stream: &CudaStream,
        AskedKeys { keys, count }: AskedKeys<'_>,
        known: Known,
        strings: HashedStrings,
        numbers: &mut Buffer<u32>,
        found: &mut Buffer<u64>,
    ) -> Launched {
        // SAFETY: there are as many keys and numbers as it takes, and the addresses are of live columns.
        unsafe {
            self.kernels.key_find(
                stream,
                Grid::Threads(count),
                keys.address(stream),
                count,
                known,
                strings.asked,
                strings.known,
                numbers.address_mut(stream),
                found.address_mut(stream),
            )
        }
    }

    /// Writes the value at each of `count` places.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        values: &Buffer<u32>,
        places: &Buffer<u32>,
        count: u32,
        out: &mut Buffer<u32>,
    ) -> Launched {
        let (values, places) = (values.address(stream), places.address(stream));
        // SAFETY: places are of values, and as many as there is room for.
        unsafe { self.kernels.key_gather(stream, Grid::Threads(count), values, places, count, out.address_mut(stream)) }
    }
}

fn tiles(count: u32) -> u32 {
    count.div_ceil(TILE).max(1)
}
