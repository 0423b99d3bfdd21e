//! Indexes on a device whose memory may run out while they are probed: what no longer fits runs on the CPU.

mod join;
mod nearest;

use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};

pub(super) use join::WithFallback;
pub(super) use nearest::NearestWithFallback;

/// What is made when it is first needed.
type Made<T> = OnceLock<Result<T, Arc<DataFusionError>>>;

fn made<T>(cell: &Made<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get_or_init(|| make().map_err(Arc::new)) {
        Ok(made) => Ok(made),
        Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
    }
}
