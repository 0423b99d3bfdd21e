//! What an exit of the process waits for: the driver and its compiler take themselves apart then, and whoever still has
//! them read kernels would bring the process down.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::sys::{CUlinkState, CUresult, cuLinkCreate_v2, cuLinkDestroy};
use cudarc::driver::{CudaContext, DriverError};

/// How long an exit waits at most: all files take some seconds where they are compiled.
const LONGEST_EXIT: Duration = Duration::from_secs(30);

static STATE: Mutex<State> = Mutex::new(State { reading: 0, compiles: false, exits: false });
static DONE: Condvar = Condvar::new();

/// The process whose exit waits, 0 for none.
static WAITS: AtomicU32 = AtomicU32::new(0);

struct State {
    /// How many files the driver reads at the moment.
    reading: usize,
    /// Whether the driver has loaded its compiler.
    compiles: bool,
    /// Whether the process is about to exit.
    exits: bool,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while the driver reads a file of kernels, which may take it to compile.
pub(super) struct ExitGuard(());

impl ExitGuard {
    /// # Errors
    /// Where the process exits.
    pub(super) fn begin() -> Result<Self, DriverError> {
        let mut state = state();
        if state.exits {
            return Err(DriverError(CUresult::CUDA_ERROR_DEINITIALIZED));
        }
        state.reading += 1;
        Ok(Self(()))
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        state().reading -= 1;
        DONE.notify_all();
    }
}

/// Has an exit of the process wait for who reads kernels, from the first call on. That comes once the driver is loaded,
/// because what is registered last runs first at an exit.
pub(super) fn outlive_driver() {
    // one at a time
    let _state = state();
    if WAITS.load(Ordering::Relaxed) == 0 {
        register();
    }
}

/// Loads the driver's compiler, and has an exit wait before that takes itself apart, too.
///
/// The driver loads its compiler, which registers its own end, when it first needs it: that is now.
///
/// # Errors
/// Where the driver has no compiler, or fails.
pub(super) fn outlive_compiler(context: &CudaContext) -> Result<(), DriverError> {
    let mut state = state();
    if state.compiles {
        return Ok(());
    }
    context.bind_to_thread()?;
    let mut link: CUlinkState = std::ptr::null_mut();
    // SAFETY: a context is current, no options are given, and `link` receives what is given back at once.
    unsafe {
        cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut link).result()?;
        cuLinkDestroy(link).result()?;
    }
    register();
    state.compiles = true;
    Ok(())
}

fn register() {
    // SAFETY: the function takes nothing, returns, and does not unwind.
    if unsafe { libc::atexit(wait_at_exit) } == 0 {
        WAITS.store(process::id(), Ordering::Relaxed);
    }
}

extern "C" fn wait_at_exit() {
    // a process that was forked has none of the threads
    if WAITS.load(Ordering::Relaxed) == process::id() {
        state().exits = true;
        wait();
    }
}

/// Returns when nobody reads kernels, or after a long while.
fn wait() {
    let _ = DONE.wait_timeout_while(state(), LONGEST_EXIT, |state| state.reading > 0);
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_exit_waits_for_who_reads_kernels() {
        let reading = ExitGuard::begin().unwrap();
        let start = Instant::now();
        let thread = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(reading);
        });
        wait();
        assert!(start.elapsed() >= Duration::from_millis(50));
        thread.join().unwrap();
    }
}
