//! Copies of what lies on one device, on another one.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr};

use super::buffer::Buffer;
use super::fault::Fault;
use super::memory::Budget;
use super::wait::wait;
use similarity_engine::accelerator::Accelerator;
use similarity_engine::error::{Result, internal_err};
use similarity_engine::offered::{Declined, Offered};

/// Where copies are made.
pub(super) struct Copying<'a> {
    /// The device, with the metrics of the join there.
    pub(super) budget: &'a Budget,
    pub(super) stream: &'a Arc<CudaStream>,
}

impl Copying<'_> {
    /// A fault where the device has no tensor cores and what is copied `needs` them: it takes no part then.
    pub(super) fn needs_tensor_cores(&self, needs: bool) -> Result<(), Fault> {
        if needs && !self.budget.device.has_tensor_cores() { Err(Fault::Memory) } else { Ok(()) }
    }
}

/// Things that can be copied to another device, once all that writes them is done.
pub(super) trait Replicate: Sized {
    /// The copy, which is there once the stream of `to` has been waited for.
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault>;
}

/// Copies something to a device of this platform, and waits until it is there; declined where memory lacks.
///
/// # Errors
/// A device that fails, a device of another platform.
pub(super) fn replicated<T>(
    to: &dyn Accelerator,
    copy: impl FnOnce(&Copying<'_>) -> Result<T, Fault>,
) -> Result<Offered<T>> {
    let Some(budget) = to.as_any().downcast_ref::<Budget>() else {
        return internal_err!("something on a CUDA device was to be copied to {}", to.name());
    };
    let copied = budget.device.stream().and_then(|stream| {
        let _timer = budget.metrics.copy_time.timer();
        let copied = copy(&Copying { budget, stream: &stream });
        // what was begun reads what the caller may give back
        let done = wait(&stream);
        copied.and_then(|copied| Ok(done.map(|()| copied)?))
    });
    match copied {
        Err(Fault::Memory) => Ok(Offered::Declined(Declined::Memory)),
        copied => Ok(Offered::Taken(copied?)),
    }
}

impl<T: DeviceRepr> Replicate for Buffer<T> {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        let mut copy = to.budget.buffer(to.stream, self.slice.len())?;
        to.stream.memcpy_dtod(&self.slice, &mut copy.slice)?;
        to.budget.metrics.copy::<T>(self.slice.len());
        Ok(copy)
    }
}

impl<T: Replicate> Replicate for Option<T> {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        self.as_ref().map(|value| value.replicate(to)).transpose()
    }
}

impl<T: Replicate> Replicate for Box<T> {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Box::new(T::replicate(self, to)?))
    }
}

impl<T: Replicate> Replicate for Arc<T> {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(Arc::new(T::replicate(self, to)?))
    }
}

impl<T: Replicate> Replicate for Vec<T> {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        self.iter().map(|value| value.replicate(to)).collect()
    }
}

/// Implements [`Replicate`] for a struct: some fields are copied, others are the `same` on every device.
macro_rules! replicate {
    ($type:ty { $($copied:ident),+ $(; same $($same:ident),+)? }) => {
        impl $crate::replicate::Replicate for $type {
            fn replicate(&self, to: &$crate::replicate::Copying<'_>) -> Result<Self, $crate::fault::Fault> {
                Ok(Self {
                    $($copied: $crate::replicate::Replicate::replicate(&self.$copied, to)?,)+
                    $($($same: self.$same.clone(),)+)?
                })
            }
        }
    };
}

pub(super) use replicate;
