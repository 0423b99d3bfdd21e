//! What can go wrong on a device.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use similarity_engine::error::{Error, Result};
use similarity_engine::offered::{Declined, Offered};

/// Why work on a device came to nothing.
#[derive(Debug)]
pub(super) enum Fault {
    /// The budget or the device has no more memory: less work at a time may do, or another engine.
    Memory,
    /// The device or its driver failed.
    Device(DriverError),
    /// Anything else.
    Other(Error),
}

impl From<DriverError> for Fault {
    fn from(error: DriverError) -> Self {
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY { Self::Memory } else { Self::Device(error) }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Memory => Error::DeviceFull,
            Fault::Device(error) => Error::Device(format!(
                "a CUDA device failed with {:?}; set similarity.engine = 'cpu' to run without it",
                error.0
            )),
            Fault::Other(error) => error,
        }
    }
}

/// What a device has been brought, or why it has not: nothing for keys that it has no kernels for.
pub(super) fn placed<T>(brought: Result<Option<T>, Fault>) -> Result<Offered<T>> {
    match brought {
        Err(Fault::Memory) => Ok(Offered::Declined(Declined::Memory)),
        brought => Ok(brought?.map_or(Offered::Declined(Declined::Keys), Offered::Taken)),
    }
}
