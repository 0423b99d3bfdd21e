//! Indexes on a device whose memory may run out while they are probed: what no longer fits runs on the CPU.

mod join;
mod nearest;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::common::{DataFusionError, Result};

use super::parallel;

pub(super) use join::WithFallback;
pub(super) use nearest::NearestWithFallback;

/// What is made when it is first needed.
#[derive(Debug)]
struct Made<T> {
    made: OnceLock<Result<T, Arc<DataFusionError>>>,
    making: Mutex<()>,
}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self { made: OnceLock::new(), making: Mutex::default() }
    }
}

impl<T> Made<T> {
    /// What is there, or else what `make` makes. Others wait for that meanwhile, but not a thread of the pool, on which its parts run: that
    /// makes one of its own.
    fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        let may_wait = !parallel::is_in_a_part();
        let _making = may_wait.then(|| self.making.lock().unwrap_or_else(PoisonError::into_inner));
        if self.made.get().is_none() {
            // not within the cell, so that nobody waits for it
            let made = make().map_err(Arc::new);
            let _ = self.made.set(made);
        }
        match self.made.get_or_init(|| unreachable!("it was set above")) {
            Ok(made) => Ok(made),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }
}
