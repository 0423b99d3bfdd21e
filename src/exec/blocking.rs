//! Work that keeps a thread busy, away from the threads of the runtime.

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};

/// Long loops run where they hold up no task of the runtime; a stream that is dropped meanwhile cancels them.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    SpawnedTask::spawn_blocking(work).join().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?
}
