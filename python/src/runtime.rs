//! The threads of all sessions, and waiting for them.

use std::future::Future;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::error::SimilarityError;

/// How often Ctrl-C is looked for while a query runs.
const TICK: Duration = Duration::from_millis(50);

/// The threads, and the process that they belong to.
static THREADS: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// The threads of this process: a fork has none of those of its parent.
pub fn threads() -> PyResult<Arc<Runtime>> {
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, runtime)) = threads.as_ref()
        && *process == process::id()
    {
        return Ok(Arc::clone(runtime));
    }
    let built = Builder::new_multi_thread().thread_name("similarity").enable_all().build();
    let built = built.map_err(|error| SimilarityError::new_err(format!("no threads can be started: {error}")))?;
    let runtime = Arc::new(built);
    if let Some((_, parents)) = threads.replace((process::id(), Arc::clone(&runtime))) {
        // to end threads that this process does not have would wait for ever
        std::mem::forget(parents);
    }
    Ok(runtime)
}

/// Runs `future` on the threads until it is done, and gives up where Python has been interrupted.
///
/// # Errors
/// `KeyboardInterrupt`, and whatever else a signal handler raises.
pub fn wait<T: Send + 'static>(py: Python<'_>, future: impl Future<Output = T> + Send + 'static) -> PyResult<T> {
    let threads = threads()?;
    py.detach(|| {
        threads.block_on(async {
            let mut running = threads.spawn(future);
            loop {
                tokio::select! {
                    done = &mut running => {
                        return done.map_err(|error| SimilarityError::new_err(format!("a thread has failed: {error}")));
                    }
                    () = tokio::time::sleep(TICK) => {
                        if let Err(interrupted) = Python::attach(|py| py.check_signals()) {
                            running.abort();
                            return Err(interrupted);
                        }
                    }
                }
            }
        })
    })
}
