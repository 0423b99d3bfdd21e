//! Batches put together as one.

use std::mem::{self, MaybeUninit};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, MAX_INLINE_VIEW_LEN, NullBufferBuilder, RecordBatch, RecordBatchOptions,
    StringViewArray, new_empty_array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};

use crate::accelerator::ColumnPrefetch;
use crate::accelerator::prefetch::ViewBuffer;
use crate::parallel::each_in_parallel;

/// Below this many rows threads cost more than they save.
const WORTH_THREADS: usize = 1 << 15;

/// The rows of `batches`, one after the other, by up to `threads` threads; some columns are sent to a device at the
/// same time.
pub fn concat_in_parallel(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    threads: usize,
    ahead: Option<&dyn ColumnPrefetch>,
) -> Result<RecordBatch> {
    if let [only] = batches {
        return Ok(only.clone());
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let threads = if rows < WORTH_THREADS { 1 } else { threads.max(1) };
    let parts: Vec<Vec<&dyn Array>> =
        (0..schema.fields().len()).map(|at| batches.iter().map(|batch| batch.column(at).as_ref()).collect()).collect();
    let mut views: Vec<Option<Views>> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| Views::of(field.data_type(), &parts[at], || ahead?.room(at).map(ViewBuffer::Lent)))
        .collect();
    let mut work = Vec::new();
    for (at, views) in views.iter_mut().enumerate() {
        match views {
            Some(views) => work.extend(views.pieces(at, &parts[at]).into_iter().map(Work::Copy)),
            None => work.push(Work::Concat(at)),
        }
    }
    let work = &Mutex::new(work.into_iter());
    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    let concatenated = each_in_parallel(0..threads, |_| {
        let mut columns = Vec::new();
        while let Some(work) = next() {
            match work {
                Work::Copy(piece) => {
                    let (column, rows) = (piece.column, (piece.first, piece.len()));
                    piece.copy();
                    ahead.iter().for_each(|ahead| ahead.send(column, rows));
                }
                Work::Concat(at) if parts[at].is_empty() => {
                    columns.push((at, Ok(new_empty_array(schema.field(at).data_type()))));
                }
                Work::Concat(at) => columns.push((at, concat(&parts[at]))),
            }
        }
        columns
    });
    let mut columns: Vec<Option<ArrayRef>> = Vec::with_capacity(views.len());
    for (views, parts) in views.into_iter().zip(&parts) {
        // SAFETY: all pieces of it were copied.
        columns.push(views.map(|views| unsafe { views.into_array(parts) }));
    }
    for (at, column) in concatenated.into_iter().flatten() {
        columns[at] = Some(column?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns.into_iter().flatten().collect(), &options)?)
}

/// What a thread takes up.
enum Work<'a> {
    /// Some views.
    Copy(Piece<'a>),
    /// A whole column of another type.
    Concat(usize),
}

/// The views of a column that is put together: they are most of what is copied.
struct Views {
    is_binary: bool,
    room: ViewBuffer,
    buffers: Vec<Buffer>,
    /// How many buffers stand before those of each part.
    before: Vec<usize>,
}

/// Some views, of one part or of several.
struct Piece<'a> {
    column: usize,
    /// The first one's row.
    first: usize,
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
    fn of(data_type: &DataType, parts: &[&dyn Array], room: impl FnOnce() -> Option<ViewBuffer>) -> Option<Self> {
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
    fn pieces<'a>(&'a mut self, column: usize, parts: &[&'a dyn Array]) -> Vec<Piece<'a>> {
        let (length, most) = (parts.iter().map(|part| part.len()).sum(), COPIED_AT_ONCE);
        let (mut to, mut first) = (self.room.places(length), 0);
        let mut pieces: Vec<Piece<'a>> = Vec::with_capacity(length.div_ceil(most));
        for (part, before) in parts.iter().zip(&self.before) {
            let mut from: &[u128] = views_of(*part, self.is_binary).0;
            while !from.is_empty() {
                if first % most == 0 {
                    pieces.push(Piece { column, first, is_large: length >= LARGE, copies: Vec::new() });
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
    unsafe fn into_array(self, parts: &[&dyn Array]) -> ArrayRef {
        let rows = parts.iter().map(|part| part.len()).sum();
        let mut nulls = NullBufferBuilder::new(rows);
        for part in parts {
            match part.nulls() {
                Some(self_join) => nulls.append_buffer(self_join),
                None => nulls.append_n_non_nulls(part.len()),
            }
        }
        let nulls = nulls.finish();
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

impl Piece<'_> {
    fn len(&self) -> usize {
        self.copies.iter().map(|copy| copy.from.len()).sum()
    }

    fn copy(self) {
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
