//! Batches put together as one.

use std::mem::{self, MaybeUninit};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, MAX_INLINE_VIEW_LEN, NullBufferBuilder, RecordBatch,
    RecordBatchOptions, new_empty_array,
};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType};
use datafusion::common::Result;

use crate::engine::parallel::{each_in_parallel, in_turn, threads_within};

/// Below this many rows threads cost more than they save.
const WORTH_THREADS: usize = 1 << 15;

/// The rows of `batches`, one after the other, column by column by up to `threads` threads.
pub(super) fn concat_in_parallel(schema: &SchemaRef, batches: &[RecordBatch], threads: usize) -> Result<RecordBatch> {
    if let [only] = batches {
        return Ok(only.clone());
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let threads = if rows < WORTH_THREADS { 1 } else { threads };
    let of_column = threads_within(schema.fields().len(), threads);
    let columns = in_turn(schema.fields().len(), threads, |at| {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        let are_all = |data_type: &DataType| parts.iter().all(|part| part.data_type() == data_type);
        Ok(match schema.field(at).data_type() {
            data_type if parts.is_empty() => new_empty_array(data_type),
            DataType::Utf8View if are_all(&DataType::Utf8View) => concat_views::<StringViewType>(&parts, of_column),
            DataType::BinaryView if are_all(&DataType::BinaryView) => concat_views::<BinaryViewType>(&parts, of_column),
            _ => concat(&parts)?,
        })
    })?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options)?)
}

/// The buffer that a long string's view names, as a part of the view.
const BUFFER_BITS: u32 = u64::BITS;

/// So many views are more than caches hold until somebody reads them.
const LARGE: usize = 1 << 18;

/// Writes as many values as there is room for to memory itself: what a cache would have to read from there first is not read.
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

/// The same as [`concat`] of views, by several threads: they are most of what is copied.
fn concat_views<T: ByteViewType>(parts: &[&dyn Array], threads: usize) -> ArrayRef {
    let parts: Vec<&GenericByteViewArray<T>> = parts.iter().map(|part| part.as_byte_view()).collect();
    let length = parts.iter().map(|part| part.len()).sum();
    let mut views: Vec<u128> = Vec::with_capacity(length);
    let (mut rest, mut buffers, mut copies) = (&mut views.spare_capacity_mut()[..length], Vec::new(), Vec::new());
    for part in &parts {
        let (own, behind) = mem::take(&mut rest).split_at_mut(part.len());
        copies.push((own, part.views(), (buffers.len() as u128) << BUFFER_BITS));
        buffers.extend(part.data_buffers().iter().cloned());
        rest = behind;
    }
    let (share, is_large) = (copies.len().div_ceil(threads), length >= LARGE);
    each_in_parallel(copies.chunks_mut(share.max(1)), |copies| {
        for (to, from, before) in &mut *copies {
            let moved = from.iter().map(|&view| if view as u32 > MAX_INLINE_VIEW_LEN { view + *before } else { view });
            if is_large {
                write_past_caches(to, moved);
            } else {
                to.iter_mut().zip(moved).for_each(|(to, view)| _ = to.write(view));
            }
        }
    });
    // SAFETY: the copies are all of the room, and each has as many views as its part.
    unsafe { views.set_len(length) };
    let mut nulls = NullBufferBuilder::new(views.len());
    for part in &parts {
        match part.nulls() {
            Some(own) => nulls.append_buffer(own),
            None => nulls.append_n_non_nulls(part.len()),
        }
    }
    // SAFETY: each view is one of a part and names the same bytes, which stand as many buffers later as those before have.
    Arc::new(unsafe { GenericByteViewArray::<T>::new_unchecked(views.into(), buffers, nulls.finish()) })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BinaryViewArray, Int64Array, StringViewArray};
    use datafusion::arrow::compute::concat_batches;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn batches_are_one_after_the_other() {
        let field = |(name, data_type): (&str, DataType)| Field::new(name, data_type, true);
        let fields = [("n", DataType::Int64), ("s", DataType::Utf8View), ("b", DataType::BinaryView)].map(field);
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let batch = |first: i64, rows: i64| {
            let numbers = (first..first + rows).map(|n| (n % 7 > 0).then_some(n));
            let texts = (first..first + rows).map(|n| (n % 5 > 0).then(|| format!("a string of many bytes, {n}")));
            let bytes =
                (first..first + rows).map(|n| Some(format!("{n:0>width$}", width = (n % 30) as usize).into_bytes()));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(numbers.collect::<Int64Array>()),
                Arc::new(texts.collect::<StringViewArray>()),
                Arc::new(bytes.collect::<BinaryViewArray>()),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        };
        // one without long strings, and parts of others
        let batches = [
            batch(0, 30_000),
            batch(30_000, 0),
            batch(30_000, 5000),
            batch(5, 1),
            batch(0, 9000).slice(77, 5000),
            batch(7000, 3000).slice(2999, 1),
        ];
        // and more rows than caches hold
        let many: Vec<RecordBatch> = batches.iter().chain(vec![&batches[0]; 8]).cloned().collect();
        assert!(many.iter().map(RecordBatch::num_rows).sum::<usize>() > LARGE);
        for batches in [&batches[..0], &batches[..1], &batches[..3], &batches, &many] {
            let expected = concat_batches(&schema, batches).unwrap();
            for threads in [1, 2] {
                assert_eq!(concat_in_parallel(&schema, batches, threads).unwrap(), expected);
            }
        }
        let none = Arc::new(Schema::empty());
        let rows = RecordBatchOptions::new().with_row_count(Some(3));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&none), vec![], &rows).unwrap();
        assert_eq!(concat_in_parallel(&none, &[batch.clone(), batch], 2).unwrap().num_rows(), 6);
    }
}
