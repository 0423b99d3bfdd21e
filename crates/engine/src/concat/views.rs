//! Columns of strings or of bytes as views, put together piece by piece.

use std::mem::{self, MaybeUninit};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, MAX_INLINE_VIEW_LEN, StringViewArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::DataType;

use super::nulls::nulls_of;
use crate::accelerator::prefetch::ViewBuffer;

/// The views of a column that is put together: they are most of what is copied.
pub(super) struct Views {
    is_binary: bool,
    room: ViewBuffer,
    buffers: Vec<Buffer>,
    /// How many buffers stand before those of each part.
    before: Vec<usize>,
}

/// Some views, of one part or of several.
pub(super) struct ViewsPiece<'a> {
    pub(super) column: usize,
    /// The first one's row.
    pub(super) first: usize,
    is_large: bool,
    copies: Vec<Copying<'a>>,
}

/// Views of one part, where they go, and what is added to those of long strings.
struct Copying<'a> {
    from: &'a [u128],
    to: &'a mut [MaybeUninit<u128>],
    before: u128,
}

/// The buffer that a long string's view names, as a part of the view.
const BUFFER_BITS: u32 = u64::BITS;

/// Number of views that exceed what caches hold until the views are read.
const LARGE: usize = 1 << 18;

/// Views that a thread takes up at a time.
const COPIED_AT_ONCE: usize = 1 << 15;

/// Views of an array of strings or of bytes.
fn views_of(part: &dyn Array, is_binary: bool) -> (&ScalarBuffer<u128>, &[Buffer]) {
    if is_binary {
        let part = part.as_binary_view();
        (part.views(), part.data_buffers())
    } else {
        let part = part.as_string_view();
        (part.views(), part.data_buffers())
    }
}

impl Views {
    /// Room for those of `parts`, the given one if there is one, if all are arrays of this type, which has views.
    pub(super) fn of(
        data_type: &DataType,
        parts: &[&dyn Array],
        room: impl FnOnce() -> Option<ViewBuffer>,
    ) -> Option<Self> {
        let is_binary = match data_type {
            DataType::Utf8View => false,
            DataType::BinaryView => true,
            _ => return None,
        };
        if parts.is_empty() || parts.iter().any(|part| part.data_type() != data_type) {
            return None;
        }
        let (mut buffers, mut before) = (Vec::new(), Vec::with_capacity(parts.len()));
        for part in parts {
            before.push(buffers.len());
            buffers.extend_from_slice(views_of(*part, is_binary).1);
        }
        let rows = parts.iter().map(|part| part.len()).sum();
        Some(Self {
            is_binary,
            room: room().unwrap_or_else(|| ViewBuffer::Host(Vec::with_capacity(rows))),
            buffers,
            before,
        })
    }

    /// All of them in pieces, of the column of that number.
    pub(super) fn pieces<'a>(&'a mut self, column: usize, parts: &[&'a dyn Array]) -> Vec<ViewsPiece<'a>> {
        let (length, most) = (parts.iter().map(|part| part.len()).sum(), COPIED_AT_ONCE);
        let (mut to, mut first) = (self.room.places(length), 0);
        let mut pieces: Vec<ViewsPiece<'a>> = Vec::with_capacity(length.div_ceil(most));
        for (part, before) in parts.iter().zip(&self.before) {
            let mut from: &[u128] = views_of(*part, self.is_binary).0;
            while !from.is_empty() {
                if first % most == 0 {
                    pieces.push(ViewsPiece { column, first, is_large: length >= LARGE, copies: Vec::new() });
                }
                let count = from.len().min(most - first % most);
                let (self_join, behind) = mem::take(&mut to).split_at_mut(count);
                let (some, rest) = from.split_at(count);
                let copy = Copying { from: some, to: self_join, before: (*before as u128) << BUFFER_BITS };
                pieces.last_mut().unwrap_or_else(|| unreachable!("one was made for the first")).copies.push(copy);
                (to, from, first) = (behind, rest, first + count);
            }
        }
        pieces
    }

    /// The array of `parts`.
    ///
    /// # Safety
    /// All of its [`pieces`](Self::pieces) were copied.
    pub(super) unsafe fn into_array(self, parts: &[&dyn Array]) -> ArrayRef {
        let rows = parts.iter().map(|part| part.len()).sum();
        let nulls = nulls_of(parts, rows);
        // SAFETY: pieces are all places. Each view is one of a part and names the same bytes, which stand as many
        // buffers later as those before have.
        unsafe {
            let views = self.room.into_views(rows);
            match self.is_binary {
                true => Arc::new(BinaryViewArray::new_unchecked(views, self.buffers, nulls)),
                false => Arc::new(StringViewArray::new_unchecked(views, self.buffers, nulls)),
            }
        }
    }
}

impl ViewsPiece<'_> {
    pub(super) fn len(&self) -> usize {
        self.copies.iter().map(|copy| copy.from.len()).sum()
    }

    pub(super) fn copy(self) {
        for Copying { from, to, before } in self.copies {
            let moved = from.iter().map(|&view| if view as u32 > MAX_INLINE_VIEW_LEN { view + before } else { view });
            if self.is_large {
                write_past_caches(to, moved);
            } else {
                to.iter_mut().zip(moved).for_each(|(place, view)| _ = place.write(view));
            }
        }
    }
}

/// Writes as many values as there is room for to memory itself: what a cache would have to read from there first is not
/// read.
fn write_past_caches(room: &mut [MaybeUninit<u128>], values: impl Iterator<Item = u128>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_sfence, _mm_stream_si128};

        for (place, value) in room.iter_mut().zip(values) {
            // SAFETY: every CPU of this kind has the instruction; the place is one of 16 bytes, and aligned to as many.
            unsafe { _mm_stream_si128(place.as_mut_ptr().cast::<__m128i>(), mem::transmute::<u128, __m128i>(value)) };
        }
        // SAFETY: as above; other threads see what was written before they are told that it is.
        unsafe { _mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    room.iter_mut().zip(values).for_each(|(place, value)| _ = place.write(value));
}
