//! A CUDA device: found without a panic whatever is missing, opened once a process, with what its joins share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError, PinnedHostSlice, sys};

use super::context::{DeviceContext, Spare};
use super::exit_guard::outlive_driver;
use super::fault::Fault;
use super::modules::Modules;
use super::object_pool::ObjectPool;
use super::staging::StagingPool;
use super::transfers::{SLOTS, Slot};

/// What the kernels are compiled for at least, the base of `kernels/build.py`.
const LEAST_CAPABILITY: (i32, i32) = (7, 5);

/// A device that this process has opened.
pub struct Device {
    context: Arc<DeviceContext>,
    /// The kernels that the driver has read.
    kernels: Arc<Modules>,
    staging: Arc<StagingPool>,
    /// Pinned memory that views were put together in.
    views: Mutex<Vec<PinnedHostSlice<u128>>>,
    /// What copies to the device and from it go through.
    slots: ObjectPool<Slot>,
}

impl Device {
    /// The device of this ordinal, opened when it is first asked for.
    ///
    /// # Errors
    /// Why there is none: no driver, no such device, a device that cannot be used, or that has failed in this process.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, String> {
        let place = place(ordinal);
        let opening = place.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match place.device.get() {
            Some(device) => device,
            None => {
                let device = Self::detect(ordinal);
                place.is_refused.store(device.is_err(), Ordering::Relaxed);
                let device = Arc::new(device?);
                place.device.get_or_init(|| device)
            }
        };
        drop(opening);
        match device.context.works() {
            Ok(()) => Ok(Arc::clone(device)),
            // no driver makes a new context after this, whatever is released
            Err(error) => Err(format!(
                "the NVIDIA driver reports {:?} since a query on {device} has failed; start a new process to use it again",
                error.0
            )),
        }
    }

    /// Whether the device of this ordinal is open, and has not failed.
    pub fn is_open(ordinal: usize) -> bool {
        place(ordinal).device.get().is_some_and(|device| device.context.works().is_ok())
    }

    /// Whether this machine has a driver, which is looked for once a process.
    pub fn has_driver() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        // SAFETY: it opens the driver's library by its usual names and calls nothing in it.
        *FOUND.get_or_init(|| unsafe { sys::is_culib_present() })
    }

    /// Whether the device of this ordinal was opened, and has failed since.
    pub fn has_failed(ordinal: usize) -> bool {
        place(ordinal).device.get().is_some_and(|device| device.context.works().is_err())
    }

    /// Whether the device of this ordinal could not be opened when it was last tried.
    pub fn was_refused(ordinal: usize) -> bool {
        place(ordinal).is_refused.load(Ordering::Relaxed)
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// No driver, or one that fails.
    pub fn count() -> Result<usize, String> {
        if !Self::has_driver() {
            return Err("no NVIDIA driver is installed".into());
        }
        Ok(CudaContext::device_count().map_err(unusable)? as usize)
    }

    pub(super) fn detect(ordinal: usize) -> Result<Self, String> {
        match Self::count()? {
            0 => return Err("the NVIDIA driver finds no device".into()),
            count if ordinal >= count => {
                return Err(format!("there is no device {ordinal}, the last one is {}", count - 1));
            }
            _ => {}
        }
        let context = Arc::new(DeviceContext::new(ordinal).map_err(unusable)?);
        let (major, minor) = context.capability();
        if (major, minor) < LEAST_CAPABILITY {
            let (most, least) = LEAST_CAPABILITY;
            return Err(format!("{context} has compute capability {major}.{minor}, and {most}.{least} is the least"));
        }
        outlive_driver();
        let device = Self {
            kernels: Arc::new(Modules::new(&context)),
            context,
            staging: Arc::default(),
            views: Mutex::default(),
            slots: ObjectPool::new(SLOTS),
        };
        // with one slot there will always be one, however little memory is left; a driver that is too old for the
        // kernels says so here
        let slot = device.slots.with(|| Slot::try_new(&device.context), |_| Ok(()));
        match slot.and_then(|()| device.kernels.sort().map(|_| ())) {
            Ok(()) => Ok(device),
            Err(Fault::Device(error)) => Err(unusable(error)),
            Err(_) => Err("there is too little memory for a kernel, or for copies".into()),
        }
    }

    /// What the device is, and its memory.
    pub(super) fn context(&self) -> &Arc<DeviceContext> {
        &self.context
    }

    /// The kernels that the driver has read, and those that it reads when they are asked for.
    pub(super) fn kernels(&self) -> &Arc<Modules> {
        &self.kernels
    }

    /// Staging memory that no worker has.
    pub(super) fn staging(&self) -> &Arc<StagingPool> {
        &self.staging
    }

    /// Pinned memory that no column has.
    pub(super) fn views(&self) -> MutexGuard<'_, Vec<PinnedHostSlice<u128>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What copies to it and from it go through.
    pub(super) fn slots(&self) -> &ObjectPool<Slot> {
        &self.slots
    }

    /// CUDA stream that no other thread has.
    pub(super) fn stream(&self) -> Result<Arc<CudaStream>, Fault> {
        self.context.stream()
    }

    /// Whether kernels for tensor cores run.
    pub(super) fn has_tensor_cores(&self) -> bool {
        self.context.has_tensor_cores()
    }

    /// Has what `spare` keeps give way where memory lacks, as long as there is one.
    pub(super) fn may_take_back(&self, spare: &Arc<impl Spare + 'static>) {
        self.context.may_take_back(spare);
    }

    /// Bytes of memory that it has.
    pub fn memory(&self) -> usize {
        self.context.memory()
    }

    /// Bytes that buffers hold at the moment.
    pub fn reserved(&self) -> usize {
        self.context.reserved()
    }
}

fn unusable(error: DriverError) -> String {
    format!("the NVIDIA driver reports {:?}", error.0)
}

/// Place of a device in this process.
#[derive(Default)]
struct Place {
    /// Held by who opens the device.
    opening: Mutex<()>,
    device: OnceLock<Arc<Device>>,
    is_refused: AtomicBool,
}

/// Place of the device of an ordinal. Devices of different ordinals are opened side by side.
fn place(ordinal: usize) -> Arc<Place> {
    static PLACES: OnceLock<Mutex<HashMap<usize, Arc<Place>>>> = OnceLock::new();
    let mut places = PLACES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(places.entry(ordinal).or_default())
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.fmt(f)
    }
}
