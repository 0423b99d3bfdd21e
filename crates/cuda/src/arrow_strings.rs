//! Strings on a device, as Arrow has them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use arrow::buffer::NullBuffer;
use cudarc::driver::CudaStream;

use super::buffer::Buffer;
use super::fault::Fault;
use super::kernels::ArrowStringsOnDevice;
use super::memory::Budget;

/// Bytes of buffers, in all and a row, up to which a copy to the device takes no longer than to find out which are
/// needed.
const FEW_BYTES: usize = 1 << 20;
const FEW_BYTES_OF_ROW: usize = 64;

/// A copy of a column's views and of the buffers that they refer to.
#[derive(Debug)]
pub(super) struct ArrowStrings {
    views: Buffer<u128>,
    /// The stream that reads the views, where they were sent on another one.
    reader: Option<Arc<CudaStream>>,
    bytes: Buffer<u8>,
    buffers: Buffer<u64>,
    valid: Validity,
    count: u32,
}

/// Which rows are not NULL, a bit each.
#[derive(Debug)]
pub(super) struct Validity {
    /// Bits of the rows; `None` where no row is NULL.
    pub(super) bits: Option<Buffer<u8>>,
    /// Bit of the first row.
    pub(super) first_bit: u64,
}

impl Validity {
    pub(super) fn upload(budget: &Budget, stream: &Arc<CudaStream>, nulls: Option<&NullBuffer>) -> Result<Self, Fault> {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(Self {
            bits: nulls.map(|nulls| budget.upload(stream, nulls.validity())).transpose()?,
            first_bit: nulls.map_or(0, |nulls| nulls.offset() as u64),
        })
    }
}

impl ArrowStrings {
    /// Uploads a column of fewer than 2^32 rows.
    pub(super) fn upload(budget: &Budget, stream: &Arc<CudaStream>, values: &StringViewArray) -> Result<Self, Fault> {
        let held = held(values);
        if are_many(held, values) && held > 2 * values.total_buffer_bytes_used() {
            return Self::upload_all(budget, stream, &values.gc());
        }
        Self::upload_all(budget, stream, values)
    }

    fn upload_all(budget: &Budget, stream: &Arc<CudaStream>, values: &StringViewArray) -> Result<Self, Fault> {
        let (parts, buffers) = distinct_buffers(values);
        let length = parts.iter().map(|part| part.len()).sum();
        let sent = budget.sent.as_ref().and_then(|sent| sent.take(values.views()));
        let strings = Self {
            reader: sent.is_some().then(|| Arc::clone(stream)),
            views: match sent {
                Some(views) => views,
                None => budget.upload(stream, values.views())?,
            },
            bytes: budget.upload_parts(stream, length, parts)?,
            buffers: budget.upload(stream, &buffers)?,
            valid: Validity::upload(budget, stream, values.nulls())?,
            count: values.len() as u32,
        };
        Ok(strings)
    }

    pub(super) fn on_device(&self, stream: &CudaStream) -> ArrowStringsOnDevice {
        ArrowStringsOnDevice {
            // 16 bytes each
            views: Some(self.views.address(stream).cast()),
            bytes: Some(self.bytes.address(stream)),
            buffers: Some(self.buffers.address(stream)),
            valid: self.valid.bits.as_ref().map(|bits| bits.address(stream)),
            first_bit: self.valid.first_bit,
            count: self.count,
            unused: 0,
        }
    }
}

impl Drop for ArrowStrings {
    fn drop(&mut self) {
        // memory is given back on its own stream
        if let Some(reader) = &self.reader {
            let _ = self.views.slice.stream().join(reader);
        }
    }
}

/// Bytes of all buffers of a column.
fn held(values: &StringViewArray) -> usize {
    distinct_buffers(values).0.iter().map(|bytes| bytes.len()).sum()
}

/// Whether buffers have so many bytes that it pays to look at the strings before any are brought to the device.
pub(super) fn has_many_bytes(values: &StringViewArray) -> bool {
    are_many(held(values), values)
}

fn are_many(bytes: usize, values: &StringViewArray) -> bool {
    bytes > FEW_BYTES.max(values.len() * FEW_BYTES_OF_ROW)
}

/// Each buffer of a column once, and where each of its buffers, by number, starts among these.
fn distinct_buffers(values: &StringViewArray) -> (Vec<&[u8]>, Vec<u64>) {
    let (mut parts, mut starts, mut next) = (Vec::new(), HashMap::new(), 0);
    let start = |buffer| {
        let bytes: &[u8] = buffer;
        *starts.entry((bytes.as_ptr(), bytes.len())).or_insert_with(|| {
            parts.push(bytes);
            next += bytes.len() as u64;
            next - bytes.len() as u64
        })
    };
    let starts = values.data_buffers().iter().map(|buffer| buffer.as_slice()).map(start).collect();
    (parts, starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_device::device;

    #[test]
    fn buffers_are_brought_once_and_only_where_they_are_used() {
        let budget = Budget::new(&device(), 0.5);
        let stream = budget.device.stream().unwrap();
        let long: StringViewArray = (0..40_000).map(|row| Some(format!("a string of many bytes, {row}"))).collect();
        let parts: Vec<_> = [0, 100, 39_000].map(|from| long.slice(from, 20)).into();
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
        let few = arrow::compute::concat(&parts).unwrap();
        let few = arrow::array::AsArray::as_string_view(&few);
        let bytes: usize = long.data_buffers().iter().map(|buffer| buffer.len()).sum();
        assert_eq!(distinct_buffers(few).0.iter().map(|part| part.len()).sum::<usize>(), bytes);
        assert!(bytes > FEW_BYTES);
        let before = budget.metrics.uploaded();
        ArrowStrings::upload(&budget, &stream, few).unwrap();
        assert!(budget.metrics.uploaded() - before < 10_000);
    }
}
