//! Memory of a device, counted against a budget.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr, HostSlice, ValidAsZeroBits};

use super::buffer::Buffer;
use super::device::Device;
use super::fault::Fault;
use super::metrics::DeviceMetrics;
use super::sent_columns::SentColumns;
use super::transfers::{copying_threads, download, upload};
use super::wait::wait;

/// Rows of a probe side that are made ready at once.
const FEWEST_ROWS: usize = 1 << 13;
const MOST_ROWS: usize = 1 << 20;
/// Bytes of the rows that are made ready at once, so that rows of long values are soon ready, too.
const MOST_BYTES: usize = 1 << 29;
/// Probe batches that are there at the same time, and how often one is there while it is put into order.
const BATCHES: usize = 16;
const COPIES: usize = 3;

/// A device, and how much of its memory a join may use beside all others.
#[derive(Debug, Clone)]
pub struct Budget {
    pub(super) device: Arc<Device>,
    /// Bytes that all buffers of the device may hold together.
    limit: usize,
    /// Metrics of the join.
    pub(super) metrics: DeviceMetrics,
    /// What the device has been sent of a build side before the join asks for it.
    pub(super) sent: Option<Arc<SentColumns>>,
}

impl Budget {
    /// The given share of the device's memory.
    pub fn new(device: &Arc<Device>, fraction: f64) -> Self {
        Self {
            device: Arc::clone(device),
            limit: (device.memory() as f64 * fraction) as usize,
            metrics: DeviceMetrics::new(device.context()),
            sent: None,
        }
    }

    /// This budget for one join, with metrics of its own.
    pub(crate) fn of_join(&self) -> Self {
        Self { metrics: DeviceMetrics::new(self.device.context()), ..self.clone() }
    }

    /// Whether it is of the same device as another one.
    pub(super) fn is_of_device_of(&self, other: &Budget) -> bool {
        Arc::ptr_eq(self.device.context(), other.device.context())
    }

    /// This budget for a join that has begun with another one.
    pub(super) fn going_on(&self, begun: &Self) -> Self {
        Self { metrics: self.metrics.clone().begun_by(&begun.metrics), ..self.clone() }
    }

    /// Gives back what was sent ahead and nobody has asked for.
    pub(crate) fn forget_sent(&self) {
        self.sent.iter().for_each(|sent| sent.forget());
    }

    /// Bytes that nobody holds.
    pub(super) fn available(&self) -> usize {
        self.limit.saturating_sub(self.device.reserved())
    }

    /// How many rows of a probe side are made ready at once, after the `rows` of a build side were brought here: so
    /// many that the batches of all partitions fit, if they are of the same kind.
    pub(super) fn rows_at_once(&self, rows: usize) -> usize {
        let bytes_of_row = self.metrics.uploaded() / rows.max(1);
        let bytes = (self.available() / (BATCHES * COPIES)).min(MOST_BYTES);
        (bytes / bytes_of_row.max(1)).clamp(FEWEST_ROWS, MOST_ROWS)
    }

    /// Room for `length` values, which are not set.
    pub(super) fn buffer<T: DeviceRepr>(&self, stream: &Arc<CudaStream>, length: usize) -> Result<Buffer<T>, Fault> {
        match self.allocate(stream, length) {
            Err(Fault::Memory) if self.device.context().make_room() => self.allocate(stream, length),
            allocated => allocated,
        }
    }

    fn allocate<T: DeviceRepr>(&self, stream: &Arc<CudaStream>, length: usize) -> Result<Buffer<T>, Fault> {
        Buffer::try_new(self.device.context(), stream, length, self.limit)
    }

    /// Buffer of `length` zeros.
    pub(super) fn zeros<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        stream: &Arc<CudaStream>,
        length: usize,
    ) -> Result<Buffer<T>, Fault> {
        let mut buffer = self.buffer(stream, length)?;
        stream.memset_zeros(&mut buffer.slice)?;
        Ok(buffer)
    }

    /// A copy of `values`.
    pub(super) fn upload<T: DeviceRepr + Sync>(
        &self,
        stream: &Arc<CudaStream>,
        values: &[T],
    ) -> Result<Buffer<T>, Fault> {
        self.upload_parts(stream, values.len(), [values])
    }

    /// A copy of `values` in a room of that stream, by this thread alone: the room's holder waits for no other one.
    pub(super) fn upload_to<'a, T: DeviceRepr + Sync>(
        &self,
        stream: &Arc<CudaStream>,
        values: &[T],
        room: &'a mut Room<T>,
    ) -> Result<&'a Buffer<T>, Fault> {
        let buffer = room.of(self, stream, values.len())?;
        upload(self.device.context(), self.device.slots(), (stream, 1), &[values], &mut buffer.slice)?;
        self.metrics.upload(values);
        Ok(buffer)
    }

    /// A copy of `parts`, one after the other, that have `length` values together.
    pub(super) fn upload_parts<'a, T: DeviceRepr + Sync + 'a>(
        &self,
        stream: &Arc<CudaStream>,
        length: usize,
        parts: impl IntoIterator<Item = &'a [T]>,
    ) -> Result<Buffer<T>, Fault> {
        let parts: Vec<&[T]> = parts.into_iter().collect();
        let mut buffer = self.buffer(stream, length)?;
        let by = (stream, copying_threads());
        upload(self.device.context(), self.device.slots(), by, &parts, &mut buffer.slice)?;
        parts.iter().for_each(|part| self.metrics.upload(part));
        Ok(buffer)
    }

    /// Copies the first values of a buffer to the host, where they are once `stream` has been waited for.
    pub(super) fn download<T: DeviceRepr>(
        &self,
        stream: &Arc<CudaStream>,
        buffer: &Buffer<T>,
        values: &mut (impl HostSlice<T> + ?Sized),
    ) -> Result<(), Fault> {
        self.download_from(stream, buffer, 0, values)
    }

    /// Copies the values of a buffer from `first` on to the host, where they are once `stream` has been waited for.
    pub(super) fn download_from<T: DeviceRepr>(
        &self,
        stream: &Arc<CudaStream>,
        buffer: &Buffer<T>,
        first: usize,
        values: &mut (impl HostSlice<T> + ?Sized),
    ) -> Result<(), Fault> {
        let count = values.len();
        if count > 0 {
            stream.memcpy_dtoh(&buffer.slice.slice(first..first + count), values)?;
        }
        self.metrics.download::<T>(count);
        Ok(())
    }

    /// Some values of a buffer, once the stream that it was made on has come so far.
    pub(super) fn fetch<T: DeviceRepr + Copy>(&self, buffer: &Buffer<T>, range: Range<usize>) -> Result<Vec<T>, Fault> {
        let stream = buffer.slice.stream();
        wait(stream)?;
        let address = buffer.address(stream).add(range.start);
        assert!(range.end <= buffer.slice.len());
        self.metrics.download::<T>(range.len());
        // SAFETY: the buffer has these values, and what was to write them is done.
        unsafe { download(self.device.context(), self.device.slots(), address, range.len()) }
    }
}

/// A buffer for one thing after the other, made anew only where it is too small: allocating takes longer than a short
/// launch.
#[derive(Debug)]
pub(super) struct Room<T>(Option<Buffer<T>>);

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: DeviceRepr> Room<T> {
    /// The buffer, with room for `length` values at least: those that it had, if it had as many, or else values that
    /// are not set. Of one stream at a time.
    pub(super) fn of(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        length: usize,
    ) -> Result<&mut Buffer<T>, Fault> {
        if self.0.as_ref().is_none_or(|buffer| buffer.slice.len() < length) {
            self.0 = None;
            self.0 = Some(budget.buffer(stream, length)?);
        }
        Ok(self.0.as_mut().unwrap_or_else(|| unreachable!("it was made above")))
    }

    /// Buffer as [`of`](Self::of) gives it, with zeros in the first `length` places.
    pub(super) fn zeros(
        &mut self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        length: usize,
    ) -> Result<&mut Buffer<T>, Fault>
    where
        T: ValidAsZeroBits,
    {
        let buffer = self.of(budget, stream, length)?;
        if length > 0 {
            stream.memset_zeros(&mut buffer.slice.slice_mut(..length))?;
        }
        Ok(buffer)
    }
}
