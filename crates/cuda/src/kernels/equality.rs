//! The kernels of `equality.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{ArrowStringsOnDevice, Launched, grid};
use crate::memory::Buffer;

/// The kernels of `equality.cu`.
pub(crate) struct EqualityKernels {
    strings: CudaFunction,
    numbers: CudaFunction,
    pairs: CudaFunction,
    heads: CudaFunction,
    offsets: CudaFunction,
    groups: CudaFunction,
    find: CudaFunction,
    gather: CudaFunction,
}

/// Threads of a block of `equality.cu`.
const THREADS: u32 = 256;

/// Records of a tile of `equality.cu`.
const TILE: u32 = 2048;

/// Numbers of `Counted` of `equality.cu`: numbers, records that have one, those that have a value, neighbours of one
/// key whose strings differ.
pub(crate) const COUNTED: usize = 4;

/// The key of a string that is NULL, which `equality.cu` gives it; those of others are smaller.
pub(crate) const NULL_STRING: u64 = 1 << 63;

/// `Records` of `equality.cu`, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RecordsOnDevice {
    pub(crate) keys: u64,
    pub(crate) rows: u64,
    pub(crate) none: u64,
    pub(crate) count: u32,
    pub(crate) none_is_one: u32,
    pub(crate) only_pairs: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in equality.cu.
unsafe impl DeviceRepr for RecordsOnDevice {}

/// `Known` of `equality.cu`, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KnownOnDevice {
    pub(crate) keys: u64,
    /// First rows of each key; 0 for keys that are no hashes.
    pub(crate) starts: u64,
    pub(crate) rows: u64,
    pub(crate) count: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in equality.cu.
unsafe impl DeviceRepr for KnownOnDevice {}

/// Keys that are whole numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntegersOnDevice<'a> {
    pub(crate) values: &'a Buffer<i64>,
    /// A bit a row, from a first bit on; none where no row is NULL.
    pub(crate) valid: Option<&'a Buffer<u8>>,
    pub(crate) first_bit: u64,
    pub(crate) least: i64,
}

impl EqualityKernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module = context.load_module(Ptx::from_src(include_str!("../../../../kernels/ptx/equality.sm75.ptx")))?;
        Ok(Self {
            strings: module.load_function("key_strings")?,
            numbers: module.load_function("key_numbers")?,
            pairs: module.load_function("key_pairs")?,
            heads: module.load_function("key_heads")?,
            offsets: module.load_function("key_offsets")?,
            groups: module.load_function("key_groups")?,
            find: module.load_function("key_find")?,
            gather: module.load_function("key_gather")?,
        })
    }

    /// Writes a record for each string.
    pub(crate) fn strings(
        &self,
        stream: &CudaStream,
        strings: &ArrowStringsOnDevice,
        (keys, rows): (&mut Buffer<u64>, &mut Buffer<u32>),
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.strings);
        launch.arg(strings).arg(&mut keys.slice).arg(&mut rows.slice);
        // SAFETY: the arguments are those of key_strings, which writes a record a row; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(strings.count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }

    /// Writes a record for each of `count` numbers; `none` is above how far any is from the least one.
    pub(crate) fn numbers(
        &self,
        stream: &CudaStream,
        numbers: IntegersOnDevice<'_>,
        (count, none): (u32, u64),
        (keys, rows): (&mut Buffer<u64>, &mut Buffer<u32>),
    ) -> Launched {
        let IntegersOnDevice { values, valid, first_bit, least } = numbers;
        let valid = valid.map_or(0, |valid| valid.address(stream));
        let mut launch = stream.launch_builder(&self.numbers);
        launch.arg(&values.slice).arg(&valid).arg(&first_bit).arg(&count).arg(&least).arg(&none);
        launch.arg(&mut keys.slice).arg(&mut rows.slice);
        // SAFETY: the arguments are those of key_numbers; there are as many values, bits and records as it takes.
        unsafe { launch.launch(grid(count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }

    /// Writes a record for each of `count` rows, of the numbers that one or two keys have; those of the second have
    /// at most `bits` bits.
    pub(crate) fn pairs(
        &self,
        stream: &CudaStream,
        (left, right): (&Buffer<u32>, Option<&Buffer<u32>>),
        (count, bits, none): (u32, u32, u64),
        (keys, rows): (&mut Buffer<u64>, &mut Buffer<u32>),
    ) -> Launched {
        let right = right.map_or(0, |right| right.address(stream));
        let mut launch = stream.launch_builder(&self.pairs);
        launch.arg(&left.slice).arg(&right).arg(&count).arg(&bits).arg(&none);
        launch.arg(&mut keys.slice).arg(&mut rows.slice);
        // SAFETY: the arguments are those of key_pairs; there are as many numbers and records as it takes.
        unsafe { launch.launch(grid(count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
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
        (records, strings): (&RecordsOnDevice, &ArrowStringsOnDevice),
        counters: &mut Buffer<u32>,
        counted: &mut Buffer<u64>,
    ) -> Launched {
        let count = tiles(records.count);
        let mut launch = stream.launch_builder(&self.heads);
        launch.arg(records).arg(strings).arg(&mut counters.slice).arg(&mut counted.slice);
        // SAFETY: the arguments are those of key_heads, a block of threads a tile; the addresses are of live columns.
        unsafe { launch.launch(grid(count, THREADS)) }?;
        let mut launch = stream.launch_builder(&self.offsets);
        launch.arg(&mut counters.slice).arg(&count).arg(&mut counted.slice);
        // SAFETY: the arguments are those of key_offsets, a block of threads for each half of the counters.
        unsafe { launch.launch(grid(2, THREADS)) }?;
        Ok(())
    }

    /// Writes the number of each row, where the rows of each number start, and these rows; also the key of each
    /// number, if asked.
    pub(crate) fn groups(
        &self,
        stream: &CudaStream,
        records: &RecordsOnDevice,
        (counters, counted): (&Buffer<u32>, &Buffer<u64>),
        (numbers, starts, grouped): (&mut Buffer<u32>, &mut Buffer<u32>, &mut Buffer<u32>),
        known: Option<&Buffer<u64>>,
    ) -> Launched {
        let known = known.map_or(0, |known| known.address(stream));
        let mut launch = stream.launch_builder(&self.groups);
        launch.arg(records).arg(&counters.slice).arg(&counted.slice);
        launch.arg(&mut numbers.slice).arg(&mut starts.slice).arg(&mut grouped.slice).arg(&known);
        // SAFETY: the arguments are those of key_groups, a block of threads a tile; no number or place is as great as
        // the count of records.
        unsafe { launch.launch(grid(tiles(records.count), THREADS)) }?;
        Ok(())
    }

    /// Writes the number of each of `count` keys among those that are known, and adds those that have one to `found`.
    /// Of hashes, with the strings that they stand for, of this side and of the known ones.
    pub(crate) fn find(
        &self,
        stream: &CudaStream,
        (keys, count): (&Buffer<u64>, u32),
        known: &KnownOnDevice,
        (strings, others): (&ArrowStringsOnDevice, &ArrowStringsOnDevice),
        (numbers, found): (&mut Buffer<u32>, &mut Buffer<u64>),
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.find);
        launch.arg(&keys.slice).arg(&count).arg(known).arg(strings).arg(others);
        launch.arg(&mut numbers.slice).arg(&mut found.slice);
        // SAFETY: the arguments are those of key_find; there are as many keys and numbers as it takes, and the
        // addresses are of live columns.
        unsafe { launch.launch(grid(count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }

    /// Writes the value at each place.
    pub(crate) fn gather(
        &self,
        stream: &CudaStream,
        (values, places): (&Buffer<u32>, &Buffer<u32>),
        count: u32,
        out: &mut Buffer<u32>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.gather);
        launch.arg(&values.slice).arg(&places.slice).arg(&count).arg(&mut out.slice);
        // SAFETY: the arguments are those of key_gather; places are of values, and as many as there is room for.
        unsafe { launch.launch(grid(count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }
}

fn tiles(count: u32) -> u32 {
    count.div_ceil(TILE).max(1)
}
