//! Rows numbered by sorting records of them.

use std::sync::Arc;

use arrow::array::{Array, Int64Array};
use cudarc::driver::CudaStream;

use super::numbers::NumbersOnDevice;
use super::origin::Origin;
use super::sort_keys::{Joint, Span, Which};
use crate::arrow_strings::Validity;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{
    ArrowStringsOnDevice, Counted, EqualityKernels, IntegersOnDevice, JointNumbers, KeyedRows, NULL_STRING,
    NumberedRows, RecordCounts, RecordsOnDevice,
};
use crate::memory::Budget;
use crate::sort::sort;
use crate::wait::wait;

/// The numbers that rows have in one or two keys.
#[derive(Clone, Copy)]
pub(super) struct OneOrTwo<'a> {
    pub(super) left: &'a NumbersOnDevice,
    pub(super) right: Option<&'a NumbersOnDevice>,
}

impl OneOrTwo<'_> {
    /// How they become one; `None` where they have too many bits together.
    pub(super) fn joint(self) -> Option<Joint> {
        Joint::of(self.left.bits(), self.right.map_or(0, NumbersOnDevice::bits))
    }

    /// What the host gives the rows their common numbers by; nothing where it cannot.
    pub(super) fn origin(self, joint: Joint, which: Which) -> Option<Origin> {
        let right = match self.right {
            Some(right) => Some(right.origin.clone()?),
            None => None,
        };
        Some(Origin::Numbers { left: self.left.origin.clone()?, right, joint, which })
    }
}

/// Records of rows, to be sorted or looked up.
pub(super) struct Records {
    pub(super) keyed: KeyedRows,
    pub(super) count: u32,
    /// The key of rows without a value, greater than all others of a build side.
    none: u64,
}

impl Records {
    /// Room for records.
    fn room(budget: &Budget, stream: &Arc<CudaStream>, count: u32, none: u64) -> Result<Self, Fault> {
        let (keys, rows) = (budget.buffer(stream, count as usize)?, budget.buffer(stream, count as usize)?);
        Ok(Self { keyed: KeyedRows { keys, rows }, count, none })
    }

    pub(super) fn of_strings(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        strings: ArrowStringsOnDevice,
    ) -> Result<Self, Fault> {
        let mut records = Self::room(budget, stream, strings.count, NULL_STRING)?;
        budget.device.kernels().equality()?.strings(stream, strings, &mut records.keyed)?;
        Ok(records)
    }

    pub(super) fn of_integers(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        numbers: &Int64Array,
        Span { least, none }: Span,
    ) -> Result<Self, Fault> {
        let mut records = Self::room(budget, stream, numbers.len() as u32, none)?;
        let valid = Validity::upload(budget, stream, numbers.nulls())?;
        let values = IntegersOnDevice {
            values: &budget.upload(stream, numbers.values())?,
            valid: valid.bits.as_ref(),
            first_bit: valid.first_bit,
            least,
            none,
        };
        budget.device.kernels().equality()?.numbers(stream, values, records.count, &mut records.keyed)?;
        // what was uploaded for this is given back
        wait(stream)?;
        Ok(records)
    }

    /// Records of the numbers that rows have in one or two keys.
    pub(super) fn of_numbers(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        OneOrTwo { left, right }: OneOrTwo<'_>,
        Joint { bits, none }: Joint,
    ) -> Result<Self, Fault> {
        let mut records = Self::room(budget, stream, left.rows, none)?;
        let numbers = JointNumbers { left: &left.by_row, right: right.map(|right| &right.by_row), bits, none };
        budget.device.kernels().equality()?.pairs(stream, numbers, records.count, &mut records.keyed)?;
        Ok(records)
    }

    /// The keys in order, and their rows.
    pub(super) fn sorted(self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<KeyedRows, Fault> {
        sort(budget, stream, self.keyed, self.count, u64::BITS - self.none.leading_zeros())
    }
}

/// What is numbered, and what for.
#[derive(Clone, Copy)]
pub(super) struct Numbering {
    pub(super) which: Which,
    /// Whether other rows will be looked up.
    pub(super) is_known: bool,
}

/// Rows by their number.
pub(super) struct RowsByNumber {
    pub(super) numbers: NumbersOnDevice,
    /// The key of each number, if it was asked for.
    pub(super) keys: Option<Buffer<u64>>,
    /// Where the rows of each number start.
    pub(super) starts: Buffer<u32>,
    /// The rows that have a number.
    pub(super) rows: Buffer<u32>,
    /// Rows that have a value and no number.
    pub(super) alone: usize,
}

impl RowsByNumber {
    /// Sorts records and numbers their keys; `None` where two of `strings`, of which there are none where keys are not
    /// hashes, have the same one.
    pub(super) fn of(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        records: Records,
        Numbering { which, is_known }: Numbering,
        strings: ArrowStringsOnDevice,
        origin: Option<Origin>,
    ) -> Result<Option<Self>, Fault> {
        let (count, none) = (records.count, records.none);
        let KeyedRows { keys, rows } = records.sorted(budget, stream)?;
        let records = RecordsOnDevice {
            keys: keys.address(stream),
            rows: rows.address(stream),
            none,
            count,
            none_is_one: u32::from(matches!(which, Which::All)),
            only_pairs: u32::from(matches!(which, Which::Paired)),
            unused: 0,
        };
        let (kernels, length) = (budget.device.kernels().equality()?, count as usize);
        let mut counts = RecordCounts {
            tiles: budget.buffer(stream, EqualityKernels::counters(count))?,
            counted: budget.zeros(stream, 1)?,
        };
        kernels.heads(stream, records, strings, &mut counts)?;
        let mut numbered = NumberedRows {
            numbers: budget.buffer(stream, length)?,
            starts: budget.buffer(stream, length + 1)?,
            grouped: budget.buffer(stream, length)?,
            known: is_known.then(|| budget.buffer(stream, length)).transpose()?,
        };
        kernels.groups(stream, records, &counts, &mut numbered)?;
        let mut counted = [Counted::default()];
        budget.download(stream, &counts.counted, &mut counted)?;
        // also so that nothing is given back that is still in use
        wait(stream)?;
        let [Counted { numbers: given, records: having_one, valued, different }] = counted;
        let NumberedRows { numbers, starts, grouped, known } = numbered;
        let numbers = NumbersOnDevice {
            budget: budget.clone(),
            by_row: numbers,
            rows: count,
            count: given,
            origin: origin.map(Arc::new),
        };
        let alone = (valued - having_one) as usize;
        Ok((different == 0).then_some(Self { numbers, keys: known, starts, rows: grouped, alone }))
    }
}
