//! Columns of numbers, or of lists of numbers that are all as long, put together piece by piece.

use std::mem::{self, MaybeUninit};
use std::slice;

use crate::error::Result;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use super::nulls::nulls_of;

/// A column of numbers that is put together, or of lists of numbers that are all as long.
pub(super) struct Numbers {
    data_type: DataType,
    /// The numbers of each part.
    parts: Vec<ArrayData>,
    /// Bytes of a number.
    width: usize,
    /// Room for the bytes of all numbers, aligned for numbers of any width.
    room: Vec<u128>,
}

/// Some numbers, as bytes, and where they go.
pub(super) struct NumbersPiece<'a> {
    from: &'a [u8],
    to: &'a mut [MaybeUninit<u8>],
}

/// Bytes of numbers that a thread takes up at a time.
const BYTES_AT_ONCE: usize = 1 << 20;

impl Numbers {
    /// Room for those of `parts`, if all are arrays of this type, which is one of numbers.
    pub(super) fn of(data_type: &DataType, parts: &[&dyn Array]) -> Option<Self> {
        let width = match data_type {
            DataType::FixedSizeList(number, _) => number.data_type().primitive_width()?,
            number => number.primitive_width()?,
        };
        if parts.is_empty() || parts.iter().any(|part| part.data_type() != data_type) {
            return None;
        }
        let numbers = |part: &&dyn Array| match part.as_fixed_size_list_opt() {
            Some(lists) => lists.values().to_data(),
            None => part.to_data(),
        };
        let numbers: Vec<ArrayData> = parts.iter().map(numbers).collect();
        // one thread does it where numbers are NULL, as those of a list that is NULL often are
        let is_list = data_type.is_nested();
        if is_list && numbers.iter().any(|numbers| numbers.null_count() > 0) {
            return None;
        }
        let bytes = numbers.iter().map(|numbers| numbers.len() * width).sum::<usize>();
        let room = Vec::with_capacity(bytes.div_ceil(size_of::<u128>()));
        Some(Self { data_type: data_type.clone(), parts: numbers, width, room })
    }

    /// All of them in pieces.
    pub(super) fn pieces(&mut self) -> Vec<NumbersPiece<'_>> {
        let Self { parts, width, room, .. } = self;
        let room = room.spare_capacity_mut();
        // SAFETY: any bytes are memory that is not initialised, and there are as many.
        let mut to: &mut [MaybeUninit<u8>] =
            unsafe { slice::from_raw_parts_mut(room.as_mut_ptr().cast(), size_of_val(room)) };
        let mut pieces = Vec::new();
        for numbers in parts {
            let bytes = numbers.offset() * *width..(numbers.offset() + numbers.len()) * *width;
            for from in numbers.buffers()[0].as_slice()[bytes].chunks(BYTES_AT_ONCE) {
                let (place, behind) = mem::take(&mut to).split_at_mut(from.len());
                pieces.push(NumbersPiece { from, to: place });
                to = behind;
            }
        }
        pieces
    }

    /// The array of `parts`.
    ///
    /// # Errors
    /// Lists that arrow refuses.
    ///
    /// # Safety
    /// All of its [`pieces`](Self::pieces) were copied.
    pub(super) unsafe fn into_array(self, parts: &[&dyn Array]) -> Result<ArrayRef> {
        let Self { data_type, parts: numbers, width, mut room } = self;
        let rows = parts.iter().map(|part| part.len()).sum();
        let count: usize = numbers.iter().map(ArrayData::len).sum();
        let bytes = count * width;
        let words = bytes.div_ceil(size_of::<u128>());
        let unused = words * size_of::<u128>() - bytes;
        // SAFETY: the pieces are all bytes of the numbers, and there is room for whole words. What is behind the last
        // number becomes 0.
        unsafe {
            room.spare_capacity_mut().as_mut_ptr().cast::<u8>().add(bytes).write_bytes(0, unused);
            room.set_len(words);
        }
        let values = Buffer::from_vec(room).slice_with_length(0, bytes);
        let nulls = nulls_of(parts, rows);
        let array = |data_type: DataType, len| ArrayData::builder(data_type).len(len);
        let data = match &data_type {
            DataType::FixedSizeList(number, _) => {
                let numbers = array(number.data_type().clone(), count).add_buffer(values).build()?;
                array(data_type, rows).add_child_data(numbers).nulls(nulls).build()?
            }
            _ => array(data_type, rows).add_buffer(values).nulls(nulls).build()?,
        };
        Ok(make_array(data))
    }
}

impl NumbersPiece<'_> {
    pub(super) fn copy(self) {
        self.to.write_copy_of_slice(self.from);
    }
}
