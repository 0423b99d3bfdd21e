//! Memory of a device that somebody holds.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr};

use super::address::{Address, AddressMut};
use super::context::DeviceContext;
use super::fault::Fault;

/// Part of a budget.
#[derive(Debug)]
struct Held {
    device: Arc<DeviceContext>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.release(self.bytes);
    }
}

/// Values on a device.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    pub(super) slice: CudaSlice<T>,
    _held: Held,
}

impl<T: DeviceRepr> Buffer<T> {
    /// Room for `length` values, which are not set, where all buffers of the device hold `limit` bytes at most.
    pub(super) fn try_new(
        device: &Arc<DeviceContext>,
        stream: &Arc<CudaStream>,
        length: usize,
        limit: usize,
    ) -> Result<Self, Fault> {
        // no allocation is empty
        let length = length.max(1);
        let bytes = length * size_of::<T>();
        device.reserve(bytes, limit)?;
        let held = Held { device: Arc::clone(device), bytes };
        // SAFETY: every buffer is written by a copy or a kernel before it is read.
        let slice = unsafe { stream.alloc(length) }?;
        Ok(Self { slice, _held: held })
    }
}

impl<T> Buffer<T> {
    /// Where it is, for a kernel that reads it. It must outlive every launch that is given the address.
    pub(super) fn address(&self, stream: &CudaStream) -> Address<T> {
        Address::new(self.slice.device_ptr(stream).0)
    }

    /// Where it is, for a kernel that writes it. It must outlive every launch that is given the address.
    pub(super) fn address_mut(&mut self, stream: &CudaStream) -> AddressMut<T> {
        AddressMut::new(self.slice.device_ptr_mut(stream).0)
    }
}
