//! A CUDA device: found without a panic whatever is missing, opened once a process, with a memory budget of its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, PinnedHostSlice, sys};

use super::fault::Fault;
use super::jit_guard::outlive_at_exit;
use super::modules::Modules;
use super::object_pool::ObjectPool;
use super::staging::Staging;
use super::transfers::{SLOTS, Slot};

/// What the kernels are compiled for at least, the base of `kernels/build.py`.
const LEAST_CAPABILITY: (i32, i32) = (7, 5);

/// Queues that are kept for the next one who needs one.
const MOST_STREAMS: usize = 256;

/// A device that this process has opened.
pub struct Device {
    ordinal: usize,
    name: String,
    context: Arc<CudaContext>,
    /// Compute capability 8.0 or better.
    tensor_cores: bool,
    memory: usize,
    reserved: AtomicUsize,
    /// What no worker has at the moment.
    staging: Mutex<Vec<Staging>>,
    /// Pinned memory that views were put together in.
    views: Mutex<Vec<PinnedHostSlice<u128>>>,
    /// What copies to the device and from it go through.
    slots: ObjectPool<Slot>,
    /// Queues that were made: making one takes a millisecond and more where many threads do.
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// What keeps memory that nobody uses.
    spare: Mutex<Vec<Weak<dyn Spare>>>,
    /// The kernels that the driver has read.
    modules: Modules,
}

impl Device {
    /// The device of this ordinal, opened when it is first asked for.
    ///
    /// # Errors
    /// Why there is none: no driver, no such device, a device that cannot be used, or that has failed in this process.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, String> {
        let mut open = open_devices();
        if let Some(device) = open.get(&ordinal) {
            return match device.works() {
                Ok(()) => Ok(Arc::clone(device)),
                // no driver makes a new context after this, whatever is released
                Err(error) => Err(format!(
                    "the NVIDIA driver reports {:?} since a query on {device} has failed; start a new process to use it again",
                    error.0
                )),
            };
        }
        let device = Arc::new(Self::detect(ordinal)?);
        open.insert(ordinal, Arc::clone(&device));
        Ok(device)
    }

    /// Whether the device of this ordinal is open, and has not failed.
    pub fn is_open(ordinal: usize) -> bool {
        open_devices().get(&ordinal).is_some_and(|device| device.works().is_ok())
    }

    /// Whether nothing has failed on it that all later work would fail with.
    fn works(&self) -> Result<(), DriverError> {
        // the first call may return what something that was dropped has failed with
        self.context.bind_to_thread().or_else(|_| self.context.bind_to_thread())?;
        // SAFETY: a context is current, whose default stream is asked about and not changed.
        match unsafe { sys::cuStreamQuery(std::ptr::null_mut()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            state => state.result(),
        }
    }

    /// Whether this machine has a driver, which is looked for once a process.
    pub fn has_driver() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        // SAFETY: it opens the driver's library by its usual names and calls nothing in it.
        *FOUND.get_or_init(|| unsafe { sys::is_culib_present() })
    }

    pub(super) fn detect(ordinal: usize) -> Result<Self, String> {
        if !Self::has_driver() {
            return Err("no NVIDIA driver is installed".into());
        }
        let unusable = |error: DriverError| format!("the NVIDIA driver reports {:?}", error.0);
        match CudaContext::device_count().map_err(unusable)? {
            0 => return Err("the NVIDIA driver finds no device".into()),
            count if ordinal >= count as usize => {
                return Err(format!("there is no device {ordinal}, the last one is {}", count - 1));
            }
            _ => {}
        }
        let device = Self::new(ordinal).map_err(unusable)?;
        let (major, minor) = device.context.compute_capability().map_err(unusable)?;
        if (major, minor) < LEAST_CAPABILITY {
            let (most, least) = LEAST_CAPABILITY;
            return Err(format!("{device} has compute capability {major}.{minor}, and {most}.{least} is the least"));
        }
        outlive_at_exit(&device.context).map_err(unusable)?;
        // with one slot there will always be one, however little memory is left; a driver that is too old for the
        // kernels says so here
        let slot = device.slots.with(|| Slot::try_new(&device), |_| Ok(()));
        match slot.and_then(|()| device.sort().map(|_| ())) {
            Ok(()) => Ok(device),
            Err(Fault::Device(error)) => Err(unusable(error)),
            Err(_) => Err("there is too little memory for a kernel, or for copies".into()),
        }
    }

    fn new(ordinal: usize) -> Result<Self, DriverError> {
        let context = CudaContext::new(ordinal)?;
        // SAFETY: buffers are written on one stream, which is waited for before others read them; what is dropped was
        // used on its own stream last, or that stream was waited for.
        unsafe { context.disable_event_tracking() };
        keep_freed_memory(&context)?;
        let (major, _) = context.compute_capability()?;
        let device = Self {
            ordinal,
            name: context.name()?,
            tensor_cores: major >= 8,
            memory: context.total_mem()?,
            context,
            reserved: AtomicUsize::new(0),
            staging: Mutex::default(),
            views: Mutex::default(),
            slots: ObjectPool::new(SLOTS),
            streams: Mutex::default(),
            spare: Mutex::default(),
            modules: Modules::default(),
        };
        device.context.synchronize().map(|()| device)
    }

    /// Whether kernels for tensor cores run.
    pub(super) fn has_tensor_cores(&self) -> bool {
        self.tensor_cores
    }

    /// CUDA stream that no other thread has.
    pub(super) fn stream(&self) -> Result<Arc<CudaStream>, Fault> {
        let streams = || self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // buffers hold the stream that they were made on
        if let Some(idle) = streams().iter().find(|stream| Arc::strong_count(stream) == 1) {
            return Ok(Arc::clone(idle));
        }
        let stream = self.context.new_stream()?;
        let mut streams = streams();
        if streams.len() < MOST_STREAMS {
            streams.push(Arc::clone(&stream));
        }
        Ok(stream)
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Staging memory that no worker has.
    pub(super) fn staging(&self) -> MutexGuard<'_, Vec<Staging>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pinned memory that no column has.
    pub(super) fn views(&self) -> MutexGuard<'_, Vec<PinnedHostSlice<u128>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What copies to it and from it go through.
    pub(super) fn slots(&self) -> &ObjectPool<Slot> {
        &self.slots
    }

    /// Has what `spare` keeps give way where memory lacks, as long as there is one.
    pub(super) fn may_take_back(&self, spare: &Arc<impl Spare + 'static>) {
        let mut known = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|spare| spare.strong_count() > 0);
        known.push(Arc::downgrade(spare) as Weak<dyn Spare>);
    }

    /// Takes back memory that nobody uses; whether there was any.
    pub(super) fn make_room(&self) -> bool {
        let known: Vec<_> = {
            let known = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().filter_map(Weak::upgrade).collect()
        };
        known.into_iter().fold(false, |gave_way, spare| spare.give_way() | gave_way)
    }

    /// Bytes of memory that it has.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Bytes that buffers hold at the moment.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Takes `bytes` of the budget of `limit` bytes.
    pub(super) fn reserve(&self, bytes: usize, limit: usize) -> Result<(), Fault> {
        let fits = |held: usize| held.checked_add(bytes).filter(|&total| total <= limit);
        match self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(_) => Err(Fault::Memory),
        }
    }

    /// Gives `bytes` of the budget back.
    pub(super) fn release(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The kernels that the driver has read.
    pub(super) fn modules(&self) -> &Modules {
        &self.modules
    }
}

/// What keeps memory of a device for later.
pub(super) trait Spare: Send + Sync {
    /// Gives back what nobody uses at the moment; whether there was any.
    fn give_way(&self) -> bool;
}

/// The devices that this process has opened, by ordinal.
fn open_devices() -> MutexGuard<'static, HashMap<usize, Arc<Device>>> {
    static OPEN: OnceLock<Mutex<HashMap<usize, Arc<Device>>>> = OnceLock::new();
    OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the driver keep what is freed for the next allocation: giving it back to the system takes longer than a small
/// join.
fn keep_freed_memory(context: &Arc<CudaContext>) -> Result<(), DriverError> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut pool = std::ptr::null_mut();
    let mut threshold = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    context.bind_to_thread()?;
    // SAFETY: the device is open, `pool` receives the handle of its default pool, which the driver owns, and the
    // attribute's value is a u64 that outlives the call.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()).result()?;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_device::device;

    #[test]
    fn a_queue_is_of_one_holder_at_a_time() {
        let device = device();
        // other tests have some meanwhile
        let held: Vec<Arc<CudaStream>> = (0..2 * MOST_STREAMS).map(|_| device.stream().unwrap()).collect();
        let mut known: Vec<_> = held.iter().map(Arc::as_ptr).collect();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), 2 * MOST_STREAMS);
        drop(held);
        assert!(device.streams.lock().unwrap().len() <= MOST_STREAMS);
    }
}
