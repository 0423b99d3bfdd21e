//! Ids that are whole numbers, as unsigned ones in the same order.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};

use crate::error::Result;

/// The bit in which a signed number differs from the unsigned one at the same place in the order.
pub(super) const SIGN: u64 = 1 << 63;

/// The bits of ids of an integer type, as if they had 64 of them.
///
/// # Errors
/// What a kernel of Arrow returns.
pub(super) fn bits(ids: &ArrayRef) -> Result<ScalarBuffer<u64>> {
    let bits = match ids.data_type().is_signed_integer() {
        true => cast(ids, &DataType::Int64)?.as_primitive::<Int64Type>().values().inner().clone(),
        false => cast(ids, &DataType::UInt64)?.as_primitive::<UInt64Type>().values().inner().clone(),
    };
    Ok(bits.into())
}

/// A column of ids.
#[derive(Debug)]
pub(super) struct UnsignedIds {
    bits: ScalarBuffer<u64>,
    /// What turns the bits into unsigned numbers.
    flipped: u64,
    nulls: Option<NullBuffer>,
}

impl UnsignedIds {
    /// Ids of an integer type.
    ///
    /// # Errors
    /// What a kernel of Arrow returns.
    pub fn of(ids: &ArrayRef) -> Result<Self> {
        let flipped = if ids.data_type().is_signed_integer() { SIGN } else { 0 };
        Ok(Self { bits: bits(ids)?, flipped, nulls: ids.logical_nulls() })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.bits.len()
    }

    /// Takes the ids in turn, `None` for NULL.
    #[inline]
    pub fn each(&self, mut take: impl FnMut(Option<u64>)) {
        match &self.nulls {
            None => self.bits.iter().for_each(|bits| take(Some(bits ^ self.flipped))),
            Some(nulls) => {
                let ids = self.bits.iter().zip(nulls.iter());
                ids.for_each(|(bits, is_valid)| take(is_valid.then_some(bits ^ self.flipped)));
            }
        }
    }
}
