//! A GPU that this process has opened: what it is, its streams, and how much of its memory is ours.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream, DriverError, sys};

use super::fault::Fault;
use super::wait::given_up;
use similarity_engine::metrics::Count;

/// CUDA streams that are kept for the next one who needs one.
const MOST_STREAMS: usize = 256;

/// A GPU, without what is built above it.
pub(super) struct DeviceContext {
    ordinal: usize,
    name: String,
    context: Arc<CudaContext>,
    /// Compute capability, major and minor.
    capability: (i32, i32),
    memory: usize,
    reserved: AtomicUsize,
    /// Kernel files that the driver was given as PTX.
    files_from_ptx: Count,
    /// Streams that were made: making one takes a millisecond and more where many threads do.
    streams: Mutex<Vec<Arc<CudaStream>>>,
    /// What keeps memory that nobody uses.
    spare: Mutex<Vec<Weak<dyn Spare>>>,
}

impl DeviceContext {
    /// Opens a GPU that the driver has.
    pub(super) fn new(ordinal: usize) -> Result<Self, DriverError> {
        let context = CudaContext::new(ordinal)?;
        // SAFETY: buffers are written on one stream, which is waited for before others read them; what is dropped was
        // used on its own stream last, or that stream was waited for.
        unsafe { context.disable_event_tracking() };
        make_pool(&context)?;
        let device = Self {
            ordinal,
            name: context.name()?,
            capability: context.compute_capability()?,
            memory: context.total_mem()?,
            context,
            reserved: AtomicUsize::new(0),
            files_from_ptx: Count::new(),
            streams: Mutex::default(),
            spare: Mutex::default(),
        };
        device.context.synchronize().map(|()| device)
    }

    /// Whether nothing has failed on it that all later work would fail with.
    pub(super) fn works(&self) -> Result<(), DriverError> {
        given_up(self.ordinal)?;
        // the first call may return what something that was dropped has failed with
        self.context.bind_to_thread().or_else(|_| self.context.bind_to_thread())?;
        // SAFETY: a context is current, whose default stream is asked about and not changed.
        match unsafe { sys::cuStreamQuery(std::ptr::null_mut()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            state => state.result(),
        }
    }

    /// The context of the driver.
    pub(super) fn cuda(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Number among the devices of the driver.
    pub(super) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Compute capability, major and minor.
    pub(super) fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// Whether kernels for tensor cores run.
    pub(super) fn has_tensor_cores(&self) -> bool {
        self.capability >= (8, 0)
    }

    /// Kernel files that the driver was given as PTX so far, to compile them or to find what it has compiled before.
    pub(super) fn files_from_ptx(&self) -> &Count {
        &self.files_from_ptx
    }

    /// CUDA stream that no other thread has.
    pub(super) fn stream(&self) -> Result<Arc<CudaStream>, Fault> {
        given_up(self.ordinal)?;
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
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Bytes that buffers hold at the moment.
    pub(super) fn reserved(&self) -> usize {
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
}

/// What keeps memory of a device for later.
pub(super) trait Spare: Send + Sync {
    /// Gives back what nobody uses at the moment; whether there was any.
    fn give_way(&self) -> bool;
}

/// Has the driver make its pool of memory, which takes longer than a small join, and keep in it what is freed for the
/// next allocation: giving it back to the system takes as long.
fn make_pool(context: &Arc<CudaContext>) -> Result<(), DriverError> {
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
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()).result()?;
    }
    // the first allocation makes the pool
    context.default_stream().alloc_zeros::<u8>(1).map(drop)
}

impl fmt::Debug for DeviceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceContext({self})")
    }
}

impl fmt::Display for DeviceContext {
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
        let device = device.context();
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
