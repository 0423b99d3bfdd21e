//! List columns and their elements, as tokens.
//!
//! Integers and everything stored as one (dates, times, timestamps, durations, booleans) are their number, floats
//! their bits with -0.0 as 0.0 and one NaN, strings their text. Any other element type is its encoding in Arrow's
//! row format, which is equal exactly where the elements are.

use std::ops::Range;

use crate::error::{Result, keys_err};
use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};

use super::string_column::Strings;

/// A list column: where each row's elements stand in a child array that holds nothing else.
pub struct Lists {
    /// `rows + 1` offsets into `child`.
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    child: ArrayRef,
}

impl Lists {
    pub fn try_new(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::List(_) => Self::with_offsets::<i32>(array),
            DataType::LargeList(_) => Self::with_offsets::<i64>(array),
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                let length = list.value_length() as usize;
                let offsets = (0..=list.len()).map(|row| row * length).collect();
                Self { offsets, nulls: list.nulls().cloned(), child: list.values().clone() }
            }
            other => return keys_err!("a set over lists cannot read a key of type {other}; cast it to a List"),
        })
    }

    /// Lists of an array. If it is a slice of a larger one, only the part of the child that the slice uses is kept.
    fn with_offsets<O: OffsetSizeTrait>(array: &ArrayRef) -> Self {
        let list = array.as_list::<O>();
        let first = list.value_offsets()[0].as_usize();
        let offsets: Vec<_> = list.value_offsets().iter().map(|o| o.as_usize() - first).collect();
        let child = list.values().slice(first, offsets[list.len()]);
        Self { offsets, nulls: list.nulls().cloned(), child }
    }

    /// The elements of `row`, or none for NULL.
    #[inline]
    pub fn get(&self, row: usize) -> Option<Range<usize>> {
        let valid = self.nulls.as_ref().is_none_or(|n| n.is_valid(row));
        valid.then(|| self.offsets[row]..self.offsets[row + 1])
    }

    /// Bytes that reading the elements takes on top of the column.
    pub fn elements_memory(&self) -> usize {
        if Strings::reads(self.child.data_type()) { 0 } else { self.child.len() * size_of::<u64>() }
    }

    /// The elements, ready to be read.
    pub fn elements(&self) -> Result<Elements<'_>> {
        let values = match self.child.data_type() {
            t if Strings::reads(t) => return Ok(Elements::Texts(Strings::try_new(&self.child)?)),
            DataType::Null => Values::Numbers(vec![0; self.child.len()]),
            DataType::Float16 => numbers(self.child.as_primitive::<Float16Type>().values(), |v| float(v.to_f64())),
            DataType::Float32 => numbers(self.child.as_primitive::<Float32Type>().values(), |v| float(v.into())),
            DataType::Float64 => numbers(self.child.as_primitive::<Float64Type>().values(), float),
            DataType::Boolean => Values::Numbers(self.child.as_boolean().values().iter().map(u64::from).collect()),
            t => match t.primitive_width().filter(|_| is_stored_as_integer(t)) {
                Some(width) => integers(&self.child, width),
                None => encoded(&self.child)?,
            },
        };
        Ok(Elements::Values { values, nulls: self.child.logical_nulls() })
    }
}

/// The elements of a list column.
pub enum Elements<'a> {
    Texts(Strings<'a>),
    Values { values: Values, nulls: Option<NullBuffer> },
}

/// Elements of a type other than strings.
pub enum Values {
    Numbers(Vec<u64>),
    Encoded(Rows),
}

/// An element.
pub enum Element<'a> {
    Number(u64),
    Text(&'a [u8]),
}

impl Elements<'_> {
    /// Element `at` of the child, or none for NULL.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Element<'_>> {
        match self {
            Self::Texts(strings) => strings.get(at).map(|s| Element::Text(s.as_bytes())),
            Self::Values { nulls: Some(nulls), .. } if nulls.is_null(at) => None,
            Self::Values { values: Values::Numbers(numbers), .. } => Some(Element::Number(numbers[at])),
            Self::Values { values: Values::Encoded(rows), .. } => Some(Element::Text(rows.row(at).data())),
        }
    }
}

fn numbers<T: Copy>(values: &[T], number: impl Fn(T) -> u64) -> Values {
    Values::Numbers(values.iter().map(|&v| number(v)).collect())
}

/// One number for each float that differs from the others: both zeros are one, and so are all NaNs.
fn float(value: f64) -> u64 {
    match value {
        0.0 => 0,
        v if v.is_nan() => f64::NAN.to_bits(),
        v => v.to_bits(),
    }
}

fn is_stored_as_integer(data_type: &DataType) -> bool {
    data_type.is_integer() || (data_type.is_temporal() && !matches!(data_type, DataType::Interval(_)))
}

/// Values that Arrow stores as integers of `width` bytes.
fn integers(array: &ArrayRef, width: usize) -> Values {
    let data = array.to_data();
    let len = data.len();
    match width {
        1 => numbers(&data.buffer::<i8>(0)[..len], |v| v as u64),
        2 => numbers(&data.buffer::<i16>(0)[..len], |v| v as u64),
        4 => numbers(&data.buffer::<i32>(0)[..len], |v| v as u64),
        _ => numbers(&data.buffer::<i64>(0)[..len], |v| v as u64),
    }
}

fn encoded(array: &ArrayRef) -> Result<Values> {
    let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
    Ok(Values::Encoded(converter.convert_columns(std::slice::from_ref(array))?))
}
