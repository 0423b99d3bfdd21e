//! What can go wrong on a device.

use std::fmt;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use datafusion::common::DataFusionError;

/// Why work on a device came to nothing.
#[derive(Debug)]
pub(super) enum Fault {
    /// The budget or the device has no more memory: less work at a time may do, or another engine.
    Memory,
    /// The device or its driver failed.
    Device(DriverError),
    /// Anything else.
    Other(DataFusionError),
}

impl From<DriverError> for Fault {
    fn from(error: DriverError) -> Self {
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY { Self::Memory } else { Self::Device(error) }
    }
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Self {
        Self::Other(error)
    }
}

impl From<Fault> for DataFusionError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Memory => DataFusionError::External(Box::new(DeviceFull)),
            Fault::Device(error) => DataFusionError::External(
                format!("a CUDA device failed with {:?}; set similarity.engine = 'cpu' to run without it", error.0)
                    .into(),
            ),
            Fault::Other(error) => error,
        }
    }
}

/// A device has no memory for what it is to hold.
#[derive(Debug)]
pub struct DeviceFull;

impl DeviceFull {
    /// Whether that is what an error comes from.
    pub fn is_cause_of(error: &DataFusionError) -> bool {
        matches!(error.find_root(), DataFusionError::External(cause) if cause.is::<Self>())
    }
}

impl fmt::Display for DeviceFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a CUDA device has too little memory for this join; raise similarity.device_memory_fraction or set similarity.engine = 'cpu'",
        )
    }
}

impl std::error::Error for DeviceFull {}
