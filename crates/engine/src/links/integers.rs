//! Ids that are whole numbers, as a device takes them.

use arrow::array::{Array, ArrayRef, Int64Array, UInt64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::sink::LinkChunk;
use super::unsigned::bits;
use crate::error::{Result, internal_err};

/// A type of ids that are numbers of up to 64 bits, or are stored as such: dates, times and durations.
#[derive(Debug, Clone)]
pub struct IntegerIds {
    data_type: DataType,
    /// The numbers that they are stored as.
    stored: DataType,
}

/// Both ends of links, none of which is NULL.
#[derive(Debug)]
pub struct Ends {
    pub left: ScalarBuffer<u64>,
    pub right: ScalarBuffer<u64>,
}

impl IntegerIds {
    /// Ids of this type, if they are such numbers.
    pub fn of(data_type: &DataType) -> Option<Self> {
        let stored = match data_type {
            integer if integer.is_integer() => integer.clone(),
            DataType::Date32 | DataType::Time32(_) => DataType::Int32,
            DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => DataType::Int64,
            _ => return None,
        };
        Some(Self { data_type: data_type.clone(), stored })
    }

    /// Whether the numbers have a sign.
    pub fn are_signed(&self) -> bool {
        self.stored.is_signed_integer()
    }

    /// The ends of the links of each batch. Of a link that is NULL at one end, or whose score is NULL, each end that is
    /// there is linked with itself.
    ///
    /// # Errors
    /// Ids of another type.
    pub fn ends(&self, chunk: &LinkChunk) -> Result<Vec<Ends>> {
        let batches = chunk.left.iter().zip(&chunk.right).enumerate();
        batches.map(|(at, (left, right))| self.ends_of(left, right, chunk.scores.get(at))).collect()
    }

    fn ends_of(&self, left: &ArrayRef, right: &ArrayRef, scores: Option<&ArrayRef>) -> Result<Ends> {
        let [(left, left_nulls), (right, right_nulls)] = [self.numbers(left)?, self.numbers(right)?];
        let score_nulls = scores.and_then(|scores| scores.logical_nulls());
        let nulls = [left_nulls, right_nulls, score_nulls];
        if nulls.iter().flatten().all(|nulls| nulls.null_count() == 0) {
            return Ok(Ends { left, right });
        }
        let mut ends = (Vec::with_capacity(left.len()), Vec::with_capacity(left.len()));
        for (row, (&left, &right)) in left.iter().zip(&right).enumerate() {
            match nulls.each_ref().map(|nulls| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))) {
                [true, true, true] => ends.extend([(left, right)]),
                [true, true, false] => ends.extend([(left, left), (right, right)]),
                [true, false, _] => ends.extend([(left, left)]),
                [false, true, _] => ends.extend([(right, right)]),
                [false, false, _] => {}
            }
        }
        Ok(Ends { left: ends.0.into(), right: ends.1.into() })
    }

    /// The bits of ids, and where they are NULL.
    fn numbers(&self, ids: &ArrayRef) -> Result<(ScalarBuffer<u64>, Option<NullBuffer>)> {
        if ids.data_type() != &self.data_type {
            return internal_err!("ids of type {} come with ids of type {}", ids.data_type(), self.data_type);
        }
        let stored = cast(ids, &self.stored)?;
        Ok((bits(&stored)?, stored.nulls().cloned()))
    }

    /// The ids with these bits.
    ///
    /// # Errors
    /// What a kernel of Arrow returns.
    pub fn array(&self, bits: ScalarBuffer<u64>) -> Result<ArrayRef> {
        let stored = match self.are_signed() {
            true => cast(&Int64Array::new(bits.into_inner().into(), None), &self.stored)?,
            false => cast(&UInt64Array::new(bits, None), &self.stored)?,
        };
        Ok(cast(&stored, &self.data_type)?)
    }
}
