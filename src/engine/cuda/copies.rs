//! Copies to a device and from it. Large ones to it and all from it go through pinned memory: to and from other memory the driver
//! copies at a fifth of the bus's rate, and other threads wait for it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DeviceRepr, PinnedHostSlice, sys};

use super::device::Device;
use super::fault::Fault;
use super::staging::pinned;
use crate::engine::parallel::each_in_parallel;

/// Bytes of a slot.
const SLOT: usize = 2 << 20;

/// Slots of a device: what it takes to keep the bus busy.
pub(super) const SLOTS: usize = 16;

/// Pinned memory, and a queue of copies from it and to it.
#[derive(Debug)]
pub(super) struct Slot {
    memory: PinnedHostSlice<u8>,
    stream: Arc<CudaStream>,
}

impl Slot {
    pub(super) fn try_new(device: &Device) -> Result<Self, Fault> {
        Ok(Self { memory: pinned(device, SLOT)?, stream: device.stream()? })
    }

    /// Copies values that fit.
    ///
    /// # Safety
    /// `address` is that of device memory for so many values, which nobody else uses meanwhile.
    unsafe fn copy<T: DeviceRepr>(&mut self, values: &[T], address: u64) -> Result<(), Fault> {
        let slot = self.memory.as_mut_slice()?;
        assert!(size_of_val(values) <= slot.len());
        self.stream.context().bind_to_thread()?;
        // SAFETY: the values fit, and pinned memory is aligned to pages; the queue is waited for before the slot is used again.
        unsafe {
            slot.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(values.as_ptr(), values.len());
            let source = slot.as_ptr().cast();
            sys::cuMemcpyHtoDAsync_v2(address, source, size_of_val(values), self.stream.cu_stream()).result()?;
        }
        Ok(self.stream.synchronize()?)
    }

    /// Appends values that fit.
    ///
    /// # Safety
    /// `address` is that of so many values in device memory, which nobody writes meanwhile.
    unsafe fn fetch<T: DeviceRepr + Copy>(
        &mut self,
        address: u64,
        count: usize,
        values: &mut Vec<T>,
    ) -> Result<(), Fault> {
        let slot = self.memory.as_mut_slice()?;
        let bytes = count * size_of::<T>();
        assert!(bytes <= slot.len());
        self.stream.context().bind_to_thread()?;
        // SAFETY: the values fit, and pinned memory is aligned to pages; the copy is done before the slot is read.
        unsafe {
            sys::cuMemcpyDtoHAsync_v2(slot.as_mut_ptr().cast(), address, bytes, self.stream.cu_stream()).result()?;
            self.stream.synchronize()?;
            values.extend_from_slice(std::slice::from_raw_parts(slot.as_ptr().cast(), count));
        }
        Ok(())
    }
}

/// Copies `count` values to the host.
///
/// # Safety
/// `address` is that of so many values in device memory, which nobody writes meanwhile.
pub(super) unsafe fn download<T: DeviceRepr + Copy>(
    device: &Device,
    address: u64,
    count: usize,
) -> Result<Vec<T>, Fault> {
    const { assert!(size_of::<T>() > 0 && size_of::<T>() <= SLOT) };
    let mut values = Vec::with_capacity(count);
    if count == 0 {
        return Ok(values);
    }
    device.slots().with(
        || Slot::try_new(device),
        |slot| {
            while values.len() < count {
                let (from, piece) = (values.len(), (count - values.len()).min(SLOT / size_of::<T>()));
                // SAFETY: a piece of what the caller says.
                unsafe { slot.fetch(address + (from * size_of::<T>()) as u64, piece, &mut values) }?;
            }
            Ok(())
        },
    )?;
    Ok(values)
}

/// Copies `parts`, one after the other, to where `stream` has made room for them.
pub(super) fn upload<T: DeviceRepr + Sync>(
    device: &Device,
    stream: &Arc<CudaStream>,
    parts: &[&[T]],
    room: &mut CudaSlice<T>,
) -> Result<(), Fault> {
    const { assert!(size_of::<T>() > 0 && size_of::<T>() <= SLOT) };
    let length: usize = parts.iter().map(|part| part.len()).sum();
    assert!(length <= room.len());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(length * size_of::<T>() / SLOT).min(SLOTS);
    if threads < 2 {
        let mut next = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            stream.memcpy_htod(*part, &mut room.slice_mut(next..next + part.len()))?;
            next += part.len();
        }
        return Ok(());
    }
    let mut address = room.device_ptr(stream).0;
    let mut pieces: Vec<(&[T], u64)> = Vec::new();
    for piece in parts.iter().flat_map(|part| part.chunks(SLOT / size_of::<T>())) {
        pieces.push((piece, address));
        address += size_of_val(piece) as u64;
    }
    // from now on the room is there for other queues
    stream.synchronize()?;
    let next = AtomicUsize::new(0);
    let copy = || {
        device.slots().with(
            || Slot::try_new(device),
            |slot| {
                while let Some(&(piece, address)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // SAFETY: pieces lie side by side in the room, which is large enough and borrowed for us alone.
                    unsafe { slot.copy(piece, address) }?;
                }
                Ok(())
            },
        )
    };
    each_in_parallel(0..threads, |_| copy()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::engine::cuda::memory::Budget;
    use crate::engine::cuda::test_device::device;

    #[test]
    fn parts_arrive_one_after_the_other_and_come_back() {
        let budget = Budget::new(&device(), 0.5);
        let stream = budget.device.stream().unwrap();
        for lengths in [&[0, 3, 0, 5][..], &[1 << 20, 7, 0, (3 << 20) + 1, 12345], &[]] {
            let mut next = 0u32;
            let part = |&length: &usize| {
                let first = next;
                next += length as u32;
                (first..next).collect::<Vec<_>>()
            };
            let parts: Vec<Vec<u32>> = lengths.iter().map(part).collect();
            let expected = parts.concat();
            let room = budget.upload_parts(&stream, expected.len(), parts.iter().map(Vec::as_slice)).unwrap();
            assert_eq!(budget.fetch(&room, 0..expected.len()).unwrap(), expected);
            let some = expected.len() / 3..expected.len() - expected.len() / 5;
            assert_eq!(budget.fetch(&room, some.clone()).unwrap(), expected[some]);
        }
    }
}
