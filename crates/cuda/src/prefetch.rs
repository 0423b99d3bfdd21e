//! Columns of strings that a device is sent while the host puts their batches together: in pinned memory, which is
//! copied from as it is.

use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::buffer::{Buffer as ArrowBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use cudarc::driver::{PinnedHostSlice, sys};

use similarity_engine::accelerator::Accelerator;
use similarity_engine::accelerator::ColumnPrefetch;
use similarity_engine::accelerator::prefetch::LentViews;

use super::buffer::Buffer;
use super::device::Device;
use super::fault::Fault;
use super::memory::Budget;
use super::sent_columns::SentColumns;
use super::staging::pinned;
use super::wait::wait;

/// Fewer views are sent as soon as they are asked for.
const FEWEST_ROWS: usize = 1 << 16;

/// Bytes of pinned memory that the columns of one build side may take, and that are kept for the next one: taking it
/// from the system takes longer than to send what it holds.
const MOST_PINNED: usize = 1 << 28;

/// Some columns on their way to a device.
#[derive(Debug)]
pub struct PinnedPrefetch {
    budget: Budget,
    columns: Vec<Sending>,
}

/// The views of a column, by its place in a schema.
#[derive(Debug)]
struct Sending {
    column: usize,
    views: Arc<PinnedViews>,
    /// Views on the device, on a CUDA stream of their own, as all copies to it.
    room: Buffer<u128>,
    is_given: AtomicBool,
    /// Some are missing there.
    failed: AtomicBool,
}

/// Pinned memory that the views of a column are put together in.
#[derive(Debug)]
struct PinnedBuffer(Arc<PinnedViews>);

impl LentViews for PinnedBuffer {
    fn places(&mut self, rows: usize) -> &mut [MaybeUninit<u128>] {
        let views = &self.0;
        assert!(rows <= views.rows);
        // SAFETY: the memory has as many, and nobody else has this room.
        unsafe { slice::from_raw_parts_mut(views.address.as_ptr().cast(), rows) }
    }

    unsafe fn into_views(self: Box<Self>, rows: usize) -> ScalarBuffer<u128> {
        let views = self.0;
        assert!(rows <= views.rows);
        let (address, bytes) = (views.address.cast(), rows * size_of::<u128>());
        // SAFETY: the memory has so many bytes, which are written, and is kept by what is given with it.
        let buffer = unsafe { ArrowBuffer::from_custom_allocation(address, bytes, views) };
        ScalarBuffer::new(buffer, 0, rows)
    }
}

/// Memory for the views of a column.
#[derive(Debug)]
struct PinnedViews {
    device: Arc<Device>,
    memory: Option<PinnedHostSlice<u128>>,
    address: NonNull<u128>,
    rows: usize,
}

// SAFETY: the memory is of no thread, and only the one room that there is of it writes it.
unsafe impl Send for PinnedViews {}
unsafe impl Sync for PinnedViews {}

impl PinnedViews {
    fn try_new(device: &Arc<Device>, rows: usize) -> Result<Self, Fault> {
        let kept = {
            let mut kept = device.views();
            let fits = |memory: &PinnedHostSlice<u128>| (rows..=2 * rows).contains(&memory.len());
            kept.iter().position(fits).map(|at| kept.swap_remove(at))
        };
        let mut memory = match kept {
            Some(memory) => memory,
            None => pinned(device.context(), rows)?,
        };
        let address = NonNull::new(memory.as_mut_ptr()?).ok_or(Fault::Memory)?;
        Ok(Self { device: Arc::clone(device), memory: Some(memory), address, rows })
    }
}

impl Drop for PinnedViews {
    fn drop(&mut self) {
        let mut kept = self.device.views();
        kept.extend(self.memory.take());
        let mut bytes = 0;
        // the last ones are of the sizes that are asked for
        let mut is_kept = |memory: &PinnedHostSlice<u128>| {
            bytes += memory.num_bytes();
            bytes <= MOST_PINNED
        };
        let behind = kept.iter().rev().take_while(|memory| is_kept(memory)).count();
        let first = kept.len() - behind;
        let given_back: Vec<_> = kept.drain(..first).collect();
        drop(kept);
        drop(given_back);
    }
}

impl PinnedPrefetch {
    /// Room for `rows` views of each of some `columns`; `None` where there is too little to send, or too much, or no
    /// memory.
    pub fn try_new(budget: Budget, columns: &[usize], rows: usize) -> Option<Self> {
        let bytes = columns.len().saturating_mul(rows).saturating_mul(size_of::<u128>());
        if rows < FEWEST_ROWS || columns.is_empty() || bytes > MOST_PINNED {
            return None;
        }
        let sending = |&column: &usize| {
            let stream = budget.device.stream()?;
            let room = budget.buffer(&stream, rows)?;
            let views = Arc::new(PinnedViews::try_new(&budget.device, rows)?);
            Ok::<_, Fault>(Sending {
                column,
                views,
                room,
                is_given: AtomicBool::new(false),
                failed: AtomicBool::new(false),
            })
        };
        // whoever needs the columns there says what fails
        let columns = columns.iter().map(sending).collect::<Result<_, _>>().ok()?;
        Some(Self { budget, columns })
    }

    fn of(&self, column: usize) -> Option<&Sending> {
        self.columns.iter().find(|sending| sending.column == column)
    }
}

impl ColumnPrefetch for PinnedPrefetch {
    fn room(&self, column: usize) -> Option<Box<dyn LentViews>> {
        let sending = self.of(column)?;
        let is_first = !sending.is_given.swap(true, Ordering::Relaxed);
        is_first.then(|| Box::new(PinnedBuffer(Arc::clone(&sending.views))) as Box<dyn LentViews>)
    }

    fn send(&self, column: usize, (first, count): (usize, usize)) {
        let Some(Sending { views, room, failed, .. }) = self.of(column) else { return };
        assert!(first + count <= views.rows && views.rows <= room.slice.len());
        let stream = room.slice.stream();
        let to = room.address(stream).add(first).bits();
        let sent = stream.context().bind_to_thread().and_then(|()| {
            // SAFETY: both have these places, and the memory is kept until the stream was waited for.
            unsafe {
                let from = views.address.add(first).as_ptr().cast();
                sys::cuMemcpyHtoDAsync_v2(to, from, count * size_of::<u128>(), stream.cu_stream()).result()
            }
        });
        if sent.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
    }

    fn arrived(self: Box<Self>, whole: &RecordBatch) -> Arc<dyn Accelerator> {
        Arc::new(self.into_budget(whole))
    }
}

impl PinnedPrefetch {
    /// The device of the join, which has been sent the columns of `whole`.
    fn into_budget(mut self, whole: &RecordBatch) -> Budget {
        let mut budget = self.budget.clone();
        let sent = SentColumns::default();
        for sending in mem::take(&mut self.columns) {
            let column = whole.column(sending.column);
            if let Some(room) = sending.arrived()
                && *column.data_type() == DataType::Utf8View
            {
                let views = column.as_string_view().views();
                budget.metrics.upload(views);
                sent.add(views.clone(), room);
            }
        }
        budget.sent = Some(Arc::new(sent));
        budget
    }
}

impl Sending {
    /// Waits for what was sent; `None` where something has failed.
    fn arrived(self) -> Option<Buffer<u128>> {
        let waited = wait(self.room.slice.stream());
        (waited.is_ok() && !self.failed.into_inner()).then_some(self.room)
    }
}

impl Drop for PinnedPrefetch {
    fn drop(&mut self) {
        mem::take(&mut self.columns).into_iter().for_each(|sending| _ = sending.arrived());
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, StringViewArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::equality::codes;
    use crate::test_device::{budget_of, device, device_alone};
    use similarity_engine::parallel::each_in_parallel;

    /// Two columns of strings, many of them long.
    fn batch(rows: usize) -> RecordBatch {
        let column = |values: usize| -> ArrayRef {
            let text = |row: usize| (!row.is_multiple_of(7)).then(|| format!("{:>1$}", row * row % values, row % 40));
            Arc::new((0..rows).map(text).collect::<StringViewArray>())
        };
        let columns = vec![column(1000), column(17)];
        let fields: Vec<_> = (0..2).map(|n| Field::new(n.to_string(), DataType::Utf8View, true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    /// Writes the views of some columns and sends them, by some threads.
    fn send(sending: &PinnedPrefetch, batch: &RecordBatch, columns: &[usize]) {
        each_in_parallel(columns.iter(), |&column| {
            let (mut room, views) = (sending.room(column).unwrap(), batch.column(column).as_string_view().views());
            assert!(sending.room(column).is_none() && sending.room(7).is_none());
            let places = room.places(views.len()).chunks_mut(1 << 16).zip(views.chunks(1 << 16));
            for (number, (places, views)) in places.enumerate() {
                places.iter_mut().zip(views).for_each(|(place, &view)| _ = place.write(view));
                sending.send(column, (number << 16, views.len()));
            }
            // SAFETY: all are written.
            assert_eq!(unsafe { room.into_views(views.len()) }, *views);
        });
    }

    #[test]
    fn columns_arrive_and_are_not_brought_once_more() {
        let (device, batch) = (device(), batch(FEWEST_ROWS + 5));
        let key = [Arc::clone(batch.column(1))];
        let new = Budget::new(&device, 0.5);
        let (expected, _) = codes(&new, &key, &[false], false).unwrap().unwrap();
        let sending = PinnedPrefetch::try_new(Budget::new(&device, 0.5), &[0, 1], batch.num_rows()).unwrap();
        send(&sending, &batch, &[0, 1]);
        let budget = sending.into_budget(&batch);
        let before = budget.metrics.uploaded();
        let (found, _) = codes(&budget, &key, &[false], false).unwrap().unwrap();
        assert_eq!(found.on_host().unwrap(), expected.on_host().unwrap());
        // its buffers and NULLs, and no views
        let views = batch.num_rows() * size_of::<u128>();
        assert_eq!(before, 2 * views);
        assert_eq!(budget.metrics.uploaded() - before, new.metrics.uploaded() - views);
        let sent = budget.sent.as_ref().unwrap();
        let views = batch.column(0).as_string_view().views();
        assert!(sent.take(batch.column(1).as_string_view().views()).is_none());
        let arrived = sent.take(views).unwrap();
        assert_eq!(budget.fetch(&arrived, 0..views.len()).unwrap(), views.to_vec());
        assert!(sent.take(views).is_none());
    }

    #[test]
    fn nothing_is_held_that_nobody_asks_for() {
        let (device, batch) = (device_alone(), batch(FEWEST_ROWS));
        let bytes = batch.num_rows() * size_of::<u128>();
        let try_new =
            |bytes, columns: &[usize], rows| PinnedPrefetch::try_new(budget_of(&device, bytes), columns, rows);
        assert!(try_new(bytes / 2, &[0], batch.num_rows()).is_none());
        assert!(try_new(4 * bytes, &[0], batch.num_rows() - 1).is_none());
        assert!(try_new(4 * bytes, &[], batch.num_rows()).is_none());
        assert_eq!(device.reserved(), 0);
        let sending = try_new(4 * bytes, &[0, 1], batch.num_rows()).unwrap();
        send(&sending, &batch, &[0, 1]);
        let budget = sending.into_budget(&batch);
        assert_eq!(device.reserved(), 2 * bytes);
        budget.forget_sent();
        assert_eq!(device.reserved(), 0);
    }
}
