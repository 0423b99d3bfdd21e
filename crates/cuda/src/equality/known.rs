//! Keys of a build side that have numbers, to look up those of another side: a search among them, in their order.

use std::any::Any;
use std::sync::Arc;

use arrow::array::ArrayRef;
use cudarc::driver::CudaStream;
use similarity_engine::error::{Result, internal_err};

use super::numbers::{NumbersOnDevice, are_too_many, on_stream};
use super::origin::Origin;
use super::records::{Numbering, OneOrTwo, Records, RowsByNumber};
use super::sort_keys::{Joint, Span, Which};
use crate::arrow_strings::ArrowStrings;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{ArrowStringsOnDevice, AskedKeys, HashedStrings, KeyedRows, KnownOnDevice};
use crate::memory::Budget;
use crate::wait::wait;
use similarity_engine::accelerator::equality::{DeviceKeys, FoundRows};
use similarity_engine::accelerator::numbers::DeviceNumbers;
use similarity_engine::equality::{Codes, Values};

/// The keys of a build side.
#[derive(Debug)]
pub struct KnownKeys {
    budget: Budget,
    columns: Vec<KnownColumn>,
    /// The numbers of those before each but the first, with its own.
    joined: Vec<KnownNumbers>,
}

/// The values of one key.
#[derive(Debug)]
enum KnownColumn {
    Strings(Box<KnownStrings>),
    Integers { known: Known, span: Span },
}

/// Strings by their hashes.
#[derive(Debug)]
struct KnownStrings {
    known: Known,
    strings: ArrowStrings,
    /// A row of each number stands where those of the number start.
    starts: Buffer<u32>,
    rows: Buffer<u32>,
}

/// The numbers that rows have in one or two keys.
#[derive(Debug)]
pub(super) struct KnownNumbers {
    known: Known,
    joint: Joint,
}

/// Keys, ascending, each with the number of its place.
#[derive(Debug)]
struct Known {
    keys: Buffer<u64>,
    count: u32,
}

/// The numbers of rows of another side.
#[derive(Debug)]
pub struct FoundNumbers {
    numbers: NumbersOnDevice,
    found: u32,
}

impl FoundNumbers {
    pub(super) fn numbers(&self) -> &NumbersOnDevice {
        &self.numbers
    }

    /// How many rows have one.
    pub(crate) fn found(&self) -> u32 {
        self.found
    }

    /// These numbers, ascending, and their rows, ascending among those of one number; behind them whatever.
    pub(crate) fn in_order(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<KeyedRows, Fault> {
        let numbers = OneOrTwo { left: &self.numbers, right: None };
        Records::of_numbers(budget, stream, numbers, Joint::of_one(self.numbers.bits()))?.sorted(budget, stream)
    }
}

impl FoundRows for FoundNumbers {
    fn by_row(&self) -> Result<Vec<u32>> {
        self.numbers.by_row()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Known {
    fn on_device(&self, stream: &CudaStream, first_rows: Option<(&Buffer<u32>, &Buffer<u32>)>) -> KnownOnDevice {
        KnownOnDevice {
            keys: self.keys.address(stream),
            starts: first_rows.map(|(starts, _)| starts.address(stream)),
            rows: first_rows.map(|(_, rows)| rows.address(stream)),
            count: self.count,
            unused: 0,
        }
    }
}

/// Looks up `records`.
fn find(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    records: &Records,
    known: KnownOnDevice,
    strings: HashedStrings,
) -> Result<FoundNumbers, Fault> {
    let mut by_row = budget.buffer(stream, records.count as usize)?;
    let mut on_device = budget.zeros(stream, 1)?;
    let kernels = budget.device.kernels().equality()?;
    let keys = AskedKeys { keys: &records.keyed.keys, count: records.count };
    kernels.find(stream, keys, known, strings, &mut by_row, &mut on_device)?;
    let mut found = [0u64];
    budget.download(stream, &on_device, &mut found)?;
    // also so that nothing is given back that is still in use
    wait(stream)?;
    let numbers = NumbersOnDevice {
        budget: budget.clone(),
        by_row,
        rows: records.count,
        count: known.count.into(),
        origin: None,
    };
    Ok(FoundNumbers { numbers, found: found[0] as u32 })
}

impl KnownColumn {
    /// Numbers the values of a build side; `None` where the device cannot tell two apart. Keeps what it takes to look
    /// up others where that `is_known`.
    fn build(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (column, values): (&ArrayRef, &Values),
        numbering: Numbering,
    ) -> Result<Option<(NumbersOnDevice, Option<Self>)>, Fault> {
        match values {
            Values::Strings(strings) => {
                let strings = ArrowStrings::upload(budget, stream, strings)?;
                let by_number = number_strings(budget, stream, (&strings, Arc::clone(column)), numbering)?;
                let Some(by_number) = by_number else { return Ok(None) };
                let RowsByNumber { numbers, keys, starts, rows, .. } = by_number;
                let known = keys.map(|keys| Known { keys, count: numbers.count as u32 });
                let column = known.map(|known| KnownStrings { known, strings, starts, rows });
                Ok(Some((numbers, column.map(|column| Self::Strings(Box::new(column))))))
            }
            Values::Numbers(integers) => {
                let Some(span) = Span::of(integers) else { return Ok(None) };
                let records = Records::of_integers(budget, stream, integers, span)?;
                let origin = Some(Origin::Values(Arc::clone(column), numbering.which));
                let none = ArrowStringsOnDevice::default();
                let by_number = RowsByNumber::of(budget, stream, records, numbering, none, origin)?;
                let Some(RowsByNumber { numbers, keys, .. }) = by_number else { return Ok(None) };
                let known = keys.map(|keys| Known { keys, count: numbers.count as u32 });
                Ok(Some((numbers, known.map(|known| Self::Integers { known, span }))))
            }
        }
    }

    /// The numbers of the values of another side; `None` where they are of another kind.
    fn look_up(
        &self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        values: &Values,
    ) -> Result<Option<FoundNumbers>, Fault> {
        match (self, values) {
            (Self::Strings(column), Values::Strings(others)) => {
                let KnownStrings { known, strings, starts, rows } = column.as_ref();
                let others = ArrowStrings::upload(budget, stream, others)?;
                let (strings, others) = (strings.on_device(stream), others.on_device(stream));
                let records = Records::of_strings(budget, stream, others)?;
                let known = known.on_device(stream, Some((starts, rows)));
                find(budget, stream, &records, known, HashedStrings { asked: others, known: strings }).map(Some)
            }
            (Self::Integers { known, span }, Values::Numbers(others)) => {
                let records = Records::of_integers(budget, stream, others, *span)?;
                find(budget, stream, &records, known.on_device(stream, None), HashedStrings::default()).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Numbers strings of a column that are on the device; `None` where two of one hash differ.
pub(super) fn number_strings(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    (strings, column): (&ArrowStrings, ArrayRef),
    numbering: Numbering,
) -> Result<Option<RowsByNumber>, Fault> {
    let on_device = strings.on_device(stream);
    let records = Records::of_strings(budget, stream, on_device)?;
    let origin = Some(Origin::Values(column, numbering.which));
    RowsByNumber::of(budget, stream, records, numbering, on_device, origin)
}

impl KnownNumbers {
    /// Numbers the pairs of numbers that rows of a build side have; `None` where these have too many bits together.
    /// Keeps what it takes to look up others where that `is_known`.
    pub(super) fn build(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        numbers: OneOrTwo<'_>,
        numbering: Numbering,
    ) -> Result<Option<(RowsByNumber, Option<Self>)>, Fault> {
        let Some(joint) = numbers.joint() else { return Ok(None) };
        let records = Records::of_numbers(budget, stream, numbers, joint)?;
        let origin = numbers.origin(joint, numbering.which);
        let none = ArrowStringsOnDevice::default();
        let by_number = RowsByNumber::of(budget, stream, records, numbering, none, origin)?;
        let Some(mut by_number) = by_number else { return Ok(None) };
        let known = by_number.keys.take().map(|keys| Known { keys, count: by_number.numbers.count as u32 });
        Ok(Some((by_number, known.map(|known| Self { known, joint }))))
    }

    pub(super) fn look_up(
        &self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        numbers: OneOrTwo<'_>,
    ) -> Result<FoundNumbers, Fault> {
        let records = Records::of_numbers(budget, stream, numbers, self.joint)?;
        find(budget, stream, &records, self.known.on_device(stream, None), HashedStrings::default())
    }
}

impl KnownKeys {
    /// Numbers the rows of a build side by what they have in all of `columns`; `None` where the device cannot tell two
    /// values apart. Keeps what it takes to look up others where that `is_known`.
    pub(super) fn build(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        columns: &[(&ArrayRef, Values, bool)],
        is_known: bool,
    ) -> Result<Option<(NumbersOnDevice, Option<Self>)>, Fault> {
        let mut so_far: Option<NumbersOnDevice> = None;
        let mut keys = Self { budget: budget.clone(), columns: Vec::new(), joined: Vec::new() };
        for (column, values, null_equals_null) in columns {
            let numbering = Numbering { which: Which::with_values(*null_equals_null), is_known };
            let Some((self_join, known)) = KnownColumn::build(budget, stream, (column, values), numbering)? else {
                return Ok(None);
            };
            keys.columns.extend(known);
            so_far = Some(match so_far {
                None => self_join,
                Some(before) => {
                    let numbering = Numbering { which: Which::Valued, is_known };
                    let joined = KnownNumbers::build(
                        budget,
                        stream,
                        OneOrTwo { left: &before, right: Some(&self_join) },
                        numbering,
                    )?;
                    let Some((joined, known)) = joined else { return Ok(None) };
                    keys.joined.extend(known);
                    joined.numbers
                }
            });
        }
        Ok(so_far.map(|numbers| (numbers, is_known.then_some(keys))))
    }
}

impl DeviceKeys for KnownKeys {
    fn look_up(&self, columns: &[ArrayRef]) -> Result<Option<Codes>> {
        if columns.len() != self.columns.len() {
            return internal_err!("{} keys of a device were asked for {}", self.columns.len(), columns.len());
        }
        if are_too_many(columns.iter().map(|column| column.len())) {
            return Ok(None);
        }
        let values: Vec<Values> = columns.iter().map(Values::of).collect::<Result<_>>()?;
        let found = on_stream(&self.budget, |stream| {
            let mut so_far: Option<FoundNumbers> = None;
            let joined = std::iter::once(None).chain(self.joined.iter().map(Some));
            for ((known, joined), values) in self.columns.iter().zip(joined).zip(&values) {
                let Some(self_join) = known.look_up(&self.budget, stream, values)? else { return Ok(Some(None)) };
                so_far = Some(match (so_far, joined) {
                    (Some(before), Some(joined)) => {
                        let numbers = OneOrTwo { left: &before.numbers, right: Some(&self_join.numbers) };
                        joined.look_up(&self.budget, stream, numbers)?
                    }
                    _ => self_join,
                });
            }
            let Some(FoundNumbers { numbers, .. }) = so_far else { return Ok(None) };
            Ok(Some(Some(Codes::from_device(Arc::new(numbers), None))))
        })?;
        match found {
            Some(None) => internal_err!("the sides of an equality have keys of different kinds"),
            found => Ok(found.flatten()),
        }
    }
}
