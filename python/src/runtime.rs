//! The threads of all sessions, and waiting for them.

use std::future::Future;
use std::process;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::error::SimilarityError;

/// How often Ctrl-C is looked for while a query runs.
const TICK: Duration = Duration::from_millis(50);

/// The threads, and the process that has them.
static THREADS: OnceLock<(u32, Runtime)> = OnceLock::new();

/// The threads of this process.
///
/// # Errors
/// `SimilarityError` in a process that was forked from one with threads: it has none of them, nor what they held.
pub fn threads() -> PyResult<&'static Runtime> {
    if THREADS.get().is_none() {
        let built = Builder::new_multi_thread().thread_name("similarity").enable_all().build();
        let built = built.map_err(|error| SimilarityError::new_err(format!("no threads can be started: {error}")))?;
        // another thread may have been as fast, and its threads are as good
        if let Err((_, superfluous)) = THREADS.set((process::id(), built)) {
            superfluous.shutdown_background();
        }
    }
    match THREADS.get() {
        Some((process, runtime)) if *process == process::id() => Ok(runtime),
        _ => Err(SimilarityError::new_err(
            "this process was forked from one that has run a query, whose threads it does not have; start it by the \
             method 'spawn' of multiprocessing, or fork before the first query",
        )),
    }
}

/// Runs `future` on the threads until it is done, and gives up where Python has been interrupted.
///
/// # Errors
/// `KeyboardInterrupt`, and whatever else a signal handler raises.
pub fn wait<T: Send + 'static>(py: Python<'_>, future: impl Future<Output = T> + Send + 'static) -> PyResult<T> {
    let (sender, done) = mpsc::sync_channel(1);
    let running = threads()?.spawn(async move {
        // whoever has given up does not listen
        let _ = sender.send(future.await);
    });
    // the threads may all be busy, so that none of them can look at a clock
    py.detach(move || {
        loop {
            match done.recv_timeout(TICK) {
                Ok(value) => return Ok(value),
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(|py| py.check_signals()).inspect_err(|_| running.abort())?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(SimilarityError::new_err("a thread of the query has failed; report it as a bug"));
                }
            }
        }
    })
}
