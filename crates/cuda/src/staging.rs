//! Pinned memory of the host that results come through: kept for the next join, not allocated and freed by each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{DeviceRepr, PinnedHostSlice, ValidAsZeroBits};

use super::context::DeviceContext;
use super::fault::Fault;
use super::kernels::Pair;

/// Pairs that are fetched at a time.
pub(super) const FETCHED: usize = 1 << 18;

/// What one worker fetches with.
#[derive(Debug)]
pub(super) struct Staging {
    /// How many candidates and how many pairs, as the device said last.
    pub(super) counted: [PinnedHostSlice<u64>; 2],
    pub(super) fetched: PinnedHostSlice<Pair>,
    /// What a comparison counts besides.
    counters: PinnedHostSlice<u64>,
}

/// Numbers that a set of counters has room for at first.
const TALLIED: usize = 1 << 10;

impl Staging {
    fn try_new(device: &DeviceContext) -> Result<Self, Fault> {
        let counted = [pinned(device, 1)?, pinned(device, 1)?];
        Ok(Self { counted, fetched: pinned(device, FETCHED)?, counters: pinned(device, TALLIED)? })
    }
}

/// Pinned memory for so many values, which are not set.
pub(super) fn pinned<T: DeviceRepr + ValidAsZeroBits>(
    device: &DeviceContext,
    length: usize,
) -> Result<PinnedHostSlice<T>, Fault> {
    // not write-combined: the host reads it
    // SAFETY: every bit pattern is a value.
    Ok(unsafe { device.cuda().alloc_pinned_with_flags(length, 0) }?)
}

/// Staging memory of a device that no worker has.
#[derive(Debug, Default)]
pub(super) struct StagingPool(Mutex<Vec<Staging>>);

impl StagingPool {
    fn idle(&self) -> MutexGuard<'_, Vec<Staging>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Staging memory that goes back to its pool. Whoever has it waits for all copies before it is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    device: Arc<DeviceContext>,
    pool: Arc<StagingPool>,
    staging: Option<Staging>,
}

impl Lent {
    /// What another join has given back, or new memory.
    pub(super) fn from(device: &Arc<DeviceContext>, pool: &Arc<StagingPool>) -> Result<Self, Fault> {
        let idle = pool.idle().pop();
        let staging = match idle {
            Some(staging) => staging,
            None => Staging::try_new(device)?,
        };
        Ok(Self { device: Arc::clone(device), pool: Arc::clone(pool), staging: Some(staging) })
    }

    /// The memory.
    pub(super) fn get(&mut self) -> &mut Staging {
        self.staging.as_mut().unwrap_or_else(|| unreachable!("it is given back by drop only"))
    }

    /// Room for so many counters: those that it had, if it had as many.
    pub(super) fn counters(&mut self, length: usize) -> Result<&mut [u64], Fault> {
        if self.get().counters.len() < length {
            self.get().counters = pinned(&self.device, length)?;
        }
        Ok(&mut self.get().counters.as_mut_slice()?[..length])
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.idle().extend(self.staging.take());
    }
}
