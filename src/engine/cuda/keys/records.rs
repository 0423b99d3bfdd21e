//! Rows numbered by sorting records of them.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use datafusion::arrow::array::{Array, Int64Array};
use datafusion::arrow::compute::{max, min};

use super::NumbersOnDevice;
use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::{
    COUNTED, IntegersOnDevice, KeyKernels, NULL_STRING, RecordsOnDevice, StringsOnDevice,
};
use crate::engine::cuda::memory::{Budget, Buffer};
use crate::engine::cuda::sort::sort;
use crate::engine::cuda::strings::{Strings, Validity};
use crate::engine::keys::Values;

/// Records of rows, to be sorted.
struct Records {
    keys: Buffer<u64>,
    rows: Buffer<u32>,
    count: u32,
    /// The key of rows without a value, greater than all others.
    none: u64,
}

impl Records {
    /// Room for records whose keys are at most `none`.
    fn room(budget: &Budget, stream: &Arc<CudaStream>, count: u32, none: u64) -> Result<Self, Fault> {
        let (keys, rows) = (budget.buffer(stream, count as usize)?, budget.buffer(stream, count as usize)?);
        Ok(Self { keys, rows, count, none })
    }

    fn of_strings(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        count: usize,
        strings: &StringsOnDevice,
    ) -> Result<Self, Fault> {
        let mut records = Self::room(budget, stream, count as u32, NULL_STRING)?;
        budget.device.keys()?.strings(stream, strings, (&mut records.keys, &mut records.rows))?;
        Ok(records)
    }

    /// `None` where the numbers are too far from each other.
    fn of_integers(budget: &Budget, stream: &Arc<CudaStream>, numbers: &Int64Array) -> Result<Option<Self>, Fault> {
        let (least, most) = (min(numbers).unwrap_or(0), max(numbers).unwrap_or(0));
        let Some(none) = most.abs_diff(least).checked_add(1) else { return Ok(None) };
        let mut records = Self::room(budget, stream, numbers.len() as u32, none)?;
        let valid = Validity::upload(budget, stream, numbers.nulls())?;
        let values = IntegersOnDevice {
            values: &budget.upload(stream, numbers.values())?,
            valid: valid.bits.as_ref(),
            first_bit: valid.first_bit,
            least,
        };
        let to = (&mut records.keys, &mut records.rows);
        budget.device.keys()?.numbers(stream, values, (records.count, none), to)?;
        // what was uploaded for this is given back
        stream.synchronize()?;
        Ok(Some(records))
    }

    /// Of the numbers that rows have in one or two keys; `None` where these have too many bits together.
    fn of_numbers(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        left: &NumbersOnDevice,
        right: Option<&NumbersOnDevice>,
    ) -> Result<Option<Self>, Fault> {
        let bits = right.map_or(0, NumbersOnDevice::bits);
        let Some(none) = 1u64.checked_shl(left.bits() + bits) else { return Ok(None) };
        let mut records = Self::room(budget, stream, left.rows, none)?;
        let (right, to) = (right.map(|right| &right.by_row), (&mut records.keys, &mut records.rows));
        budget.device.keys()?.pairs(stream, (&left.by_row, right), (records.count, bits, none), to)?;
        Ok(Some(records))
    }
}

/// Which rows have a number.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// Those that have a value.
    Valued,
    /// All: having no value is one.
    All,
    /// Those that have a value that another one has, too.
    Paired,
}

impl Which {
    fn with_values(null_equals_null: bool) -> Self {
        if null_equals_null { Self::All } else { Self::Valued }
    }
}

/// Rows by their number.
pub(super) struct RowsByNumber {
    pub(super) numbers: NumbersOnDevice,
    /// Where the rows of each number start.
    pub(super) starts: Buffer<u32>,
    /// The rows that have a number.
    pub(super) rows: Buffer<u32>,
    /// Rows that have a value and no number.
    pub(super) alone: usize,
}

impl RowsByNumber {
    /// Sorts records and numbers their keys; `None` where two of `strings`, of which there are none where keys are not hashes, have
    /// the same one.
    fn of(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        records: Records,
        which: Which,
        strings: &StringsOnDevice,
    ) -> Result<Option<Self>, Fault> {
        let Records { keys, rows, count, none } = records;
        let (keys, rows) = sort(budget, stream, keys, rows, count, u64::BITS - none.leading_zeros())?;
        let records = RecordsOnDevice {
            keys: keys.address(stream),
            rows: rows.address(stream),
            none,
            count,
            none_is_one: u32::from(matches!(which, Which::All)),
            only_pairs: u32::from(matches!(which, Which::Paired)),
            unused: 0,
        };
        let (kernels, length) = (budget.device.keys()?, count as usize);
        let mut counters = budget.buffer(stream, KeyKernels::counters(count))?;
        let mut on_device = budget.zeros(stream, COUNTED)?;
        kernels.heads(stream, (&records, strings), &mut counters, &mut on_device)?;
        let (mut numbers, mut starts) = (budget.buffer(stream, length)?, budget.buffer(stream, length + 1)?);
        let mut grouped = budget.buffer(stream, length)?;
        let to = (&mut numbers, &mut starts, &mut grouped);
        kernels.groups(stream, &records, (&counters, &on_device), to)?;
        let mut counted = [0; COUNTED];
        budget.download(stream, &on_device, &mut counted)?;
        // also so that nothing is given back that is still in use
        stream.synchronize()?;
        let [numbers_given, having_one, valued, different] = counted;
        let numbers = NumbersOnDevice { by_row: numbers, rows: count, count: numbers_given };
        let alone = (valued - having_one) as usize;
        Ok((different == 0).then_some(Self { numbers, starts, rows: grouped, alone }))
    }

    pub(super) fn of_strings(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (strings, rows): (&Strings, usize),
        null_equals_null: bool,
    ) -> Result<Option<Self>, Fault> {
        let on_device = strings.on_device(stream);
        let records = Records::of_strings(budget, stream, rows, &on_device)?;
        Self::of(budget, stream, records, Which::with_values(null_equals_null), &on_device)
    }

    pub(super) fn of_values(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        values: &Values,
        null_equals_null: bool,
    ) -> Result<Option<Self>, Fault> {
        match values {
            Values::Strings(strings) => {
                let uploaded = Strings::upload(budget, stream, strings)?;
                Self::of_strings(budget, stream, (&uploaded, strings.len()), null_equals_null)
            }
            Values::Numbers(numbers) => match Records::of_integers(budget, stream, numbers)? {
                Some(records) => {
                    let which = Which::with_values(null_equals_null);
                    Self::of(budget, stream, records, which, &StringsOnDevice::default())
                }
                None => Ok(None),
            },
        }
    }

    pub(super) fn of_numbers(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (left, right): (&NumbersOnDevice, Option<&NumbersOnDevice>),
        which: Which,
    ) -> Result<Option<Self>, Fault> {
        match Records::of_numbers(budget, stream, left, right)? {
            Some(records) => Self::of(budget, stream, records, which, &StringsOnDevice::default()),
            None => Ok(None),
        }
    }
}
