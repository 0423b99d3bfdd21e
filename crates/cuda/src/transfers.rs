//! Copies to a device and from it. Large ones to it and all from it go through pinned memory: to and from other memory
//! the driver copies at a fifth of the bus's rate, and other threads wait for it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr, DeviceRepr, PinnedHostSlice, sys};

use super::address::Address;
use super::context::DeviceContext;
use super::fault::Fault;
use super::object_pool::ObjectPool;
use super::staging::pinned;
use super::wait::{wait, wait_for};
use similarity_engine::parallel::each_in_parallel;

/// Bytes of a half of a slot.
const HALF: usize = 2 << 20;

/// Bytes from which on a copy goes through a slot: the driver's own takes longer, the more so of many parts.
const WORTH_A_SLOT: usize = 1 << 16;

/// Slots of a device: what it takes to keep the bus busy.
pub(super) const SLOTS: usize = 8;

/// Pinned memory, and a stream of copies from it and to it.
#[derive(Debug)]
pub(super) struct Slot {
    /// One is filled while the other one is copied.
    halves: [Half; 2],
    /// Which is filled next.
    next: usize,
    stream: Arc<CudaStream>,
}

#[derive(Debug)]
struct Half {
    memory: PinnedHostSlice<u8>,
    /// Event after which the last copy from it has ended.
    copied: CudaEvent,
}

impl Slot {
    pub(super) fn try_new(device: &DeviceContext) -> Result<Self, Fault> {
        let half = || Ok::<_, Fault>(Half { memory: pinned(device, HALF)?, copied: device.cuda().new_event(None)? });
        Ok(Self { halves: [half()?, half()?], next: 0, stream: device.stream()? })
    }

    /// Starts to copy parts that fit into a half together, one after the other.
    ///
    /// # Safety
    /// `address` is that of device memory for so many values, which nobody else uses until the slot's stream was waited
    /// for.
    unsafe fn send<T: DeviceRepr>(&mut self, parts: &[&[T]], address: Address<T>) -> Result<(), Fault> {
        let Half { memory, copied } = &mut self.halves[self.next];
        self.next = 1 - self.next;
        wait_for(copied, self.stream.context())?;
        let half = memory.as_mut_slice()?;
        let bytes: usize = parts.iter().copied().map(size_of_val).sum();
        assert!(bytes <= half.len());
        self.stream.context().bind_to_thread()?;
        // SAFETY: the parts fit, pinned memory is aligned to pages, and nothing is copied from it any more.
        unsafe {
            let mut next = half.as_mut_ptr().cast::<T>();
            for part in parts {
                next.copy_from_nonoverlapping(part.as_ptr(), part.len());
                next = next.add(part.len());
            }
            sys::cuMemcpyHtoDAsync_v2(address.bits(), half.as_ptr().cast(), bytes, self.stream.cu_stream()).result()?;
        }
        Ok(copied.record(&self.stream)?)
    }

    /// Appends values that fit.
    ///
    /// # Safety
    /// `address` is that of so many values in device memory, which nobody writes meanwhile.
    unsafe fn fetch<T: DeviceRepr + Copy>(
        &mut self,
        address: Address<T>,
        count: usize,
        values: &mut Vec<T>,
    ) -> Result<(), Fault> {
        // nothing is sent before the stream was waited for
        let half = self.halves[0].memory.as_mut_slice()?;
        let bytes = count * size_of::<T>();
        assert!(bytes <= half.len());
        self.stream.context().bind_to_thread()?;
        // SAFETY: the values fit, and pinned memory is aligned to pages; the copy is done before they are read.
        unsafe {
            let (to, stream) = (half.as_mut_ptr().cast(), self.stream.cu_stream());
            sys::cuMemcpyDtoHAsync_v2(to, address.bits(), bytes, stream).result()?;
            wait(&self.stream)?;
            values.extend_from_slice(std::slice::from_raw_parts(half.as_ptr().cast(), count));
        }
        Ok(())
    }
}

/// Copies `count` values to the host.
///
/// # Safety
/// `address` is that of so many values in device memory, which nobody writes meanwhile.
pub(super) unsafe fn download<T: DeviceRepr + Copy>(
    device: &Arc<DeviceContext>,
    slots: &ObjectPool<Slot>,
    address: Address<T>,
    count: usize,
) -> Result<Vec<T>, Fault> {
    const { assert!(size_of::<T>() > 0 && size_of::<T>() <= HALF) };
    let mut values = Vec::with_capacity(count);
    if count == 0 {
        return Ok(values);
    }
    slots.with(
        || Slot::try_new(device),
        |slot| {
            while values.len() < count {
                let (from, piece) = (values.len(), (count - values.len()).min(HALF / size_of::<T>()));
                // SAFETY: a piece of what the caller says.
                unsafe { slot.fetch(address.add(from), piece, &mut values) }?;
            }
            Ok(())
        },
    )?;
    Ok(values)
}

/// Threads that may copy together, where nobody waits for what they hold.
pub(super) fn copying_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Copies `parts`, one after the other, to where `stream` has made room for them, by up to so many `threads`. Whoever
/// holds what other threads wait for may use one only.
pub(super) fn upload<T: DeviceRepr + Sync>(
    device: &Arc<DeviceContext>,
    slots: &ObjectPool<Slot>,
    (stream, threads): (&Arc<CudaStream>, usize),
    parts: &[&[T]],
    room: &mut CudaSlice<T>,
) -> Result<(), Fault> {
    const { assert!(size_of::<T>() > 0 && size_of::<T>() <= HALF) };
    let length: usize = parts.iter().map(|part| part.len()).sum();
    assert!(length <= room.len());
    if length * size_of::<T>() < WORTH_A_SLOT {
        let mut next = 0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            stream.memcpy_htod(*part, &mut room.slice_mut(next..next + part.len()))?;
            next += part.len();
        }
        return Ok(());
    }
    let threads = threads.min(length * size_of::<T>() / HALF).clamp(1, SLOTS);
    let (address, pieces) = (Address::new(room.device_ptr(stream).0), pieces(parts, HALF / size_of::<T>()));
    // from now on the room is there for other streams
    wait(stream)?;
    let next = AtomicUsize::new(0);
    let copy = || {
        slots.with(
            || Slot::try_new(device),
            |slot| {
                let mut sent = Ok(());
                while let (Ok(()), Some((first, piece))) = (&sent, pieces.get(next.fetch_add(1, Ordering::Relaxed))) {
                    // SAFETY: pieces lie side by side in the room, which is large enough and borrowed for us alone.
                    sent = unsafe { slot.send(piece, address.add(*first)) };
                }
                // whatever was sent, the room may be given back behind this
                let waited = wait(&slot.stream);
                sent.and(waited.map_err(Fault::from))
            },
        )
    };
    each_in_parallel(0..threads, |_| copy()).into_iter().collect()
}

/// `parts`, one after the other, in pieces of so many values, of one or more parts: where each piece starts, and it.
pub(super) fn pieces<'a, T>(parts: &[&'a [T]], values: usize) -> Vec<(usize, Vec<&'a [T]>)> {
    let (mut pieces, mut start, mut left): (Vec<(usize, Vec<_>)>, usize, usize) = (Vec::new(), 0, 0);
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            if left == 0 {
                pieces.push((start, Vec::new()));
                left = values;
            }
            let (some, behind) = rest.split_at(left.min(rest.len()));
            (start, left, rest) = (start + some.len(), left - some.len(), behind);
            pieces.last_mut().unwrap_or_else(|| unreachable!("there is one with room")).1.push(some);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Budget;
    use crate::test_device::device;

    #[test]
    fn pieces_are_full_but_the_last() {
        let (one, three, seven) = ([1], [2, 3, 4], [5, 6, 7, 8, 9, 10, 11]);
        let parts: [&[i32]; 5] = [&one, &[], &three, &seven, &[]];
        let found = pieces(&parts, 4);
        let starts: Vec<usize> = found.iter().map(|(start, _)| *start).collect();
        let values: Vec<Vec<i32>> = found.iter().map(|(_, piece)| piece.concat()).collect();
        assert_eq!((starts, values), (vec![0, 4, 8], vec![vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9, 10, 11]]));
        assert!(pieces::<i32>(&[&[], &[]], 4).is_empty());
    }

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
