//! The driver's compiler, which takes itself apart when the process exits: whoever still compiles then would bring it
//! down.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::driver::sys::{CUlinkState, CUresult, cuLinkCreate_v2, cuLinkDestroy};
use cudarc::driver::{CudaContext, DriverError};

/// How long an exit waits at most: all files take some seconds.
const LONGEST_EXIT: Duration = Duration::from_secs(30);

static STATE: Mutex<State> = Mutex::new(State { compiling: 0, exits: false });
static DONE: Condvar = Condvar::new();

/// The process whose exit waits, 0 for none.
static WAITS: AtomicU32 = AtomicU32::new(0);

struct State {
    /// How often the driver is asked to compile at the moment.
    compiling: usize,
    /// Whether the process is about to exit.
    exits: bool,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while the driver compiles, or finds what it has compiled before.
pub(super) struct JitGuard(());

impl JitGuard {
    /// # Errors
    /// Where the process exits.
    pub(super) fn begin() -> Result<Self, DriverError> {
        let mut state = state();
        if state.exits {
            return Err(DriverError(CUresult::CUDA_ERROR_DEINITIALIZED));
        }
        state.compiling += 1;
        Ok(Self(()))
    }
}

impl Drop for JitGuard {
    fn drop(&mut self) {
        state().compiling -= 1;
        DONE.notify_all();
    }
}

/// Has an exit of the process wait for who compiles, from the first call on.
///
/// What is registered last runs first at an exit. The driver loads its compiler, which registers its own end, when it
/// first needs it: that is now.
///
/// # Errors
/// Where the driver has no compiler, or fails.
pub(super) fn outlive_at_exit(context: &CudaContext) -> Result<(), DriverError> {
    // one at a time
    let _state = state();
    if WAITS.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    context.bind_to_thread()?;
    let mut link: CUlinkState = std::ptr::null_mut();
    // SAFETY: a context is current, no options are given, and `link` receives what is given back at once.
    unsafe {
        cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut link).result()?;
        cuLinkDestroy(link).result()?;
    }
    // SAFETY: the function takes nothing, returns, and does not unwind.
    if unsafe { libc::atexit(wait_at_exit) } == 0 {
        WAITS.store(process::id(), Ordering::Relaxed);
    }
    Ok(())
}

extern "C" fn wait_at_exit() {
    // a process that was forked has none of the threads
    if WAITS.load(Ordering::Relaxed) == process::id() {
        state().exits = true;
        wait();
    }
}

/// Returns when nobody compiles, or after a long while.
fn wait() {
    let _ = DONE.wait_timeout_while(state(), LONGEST_EXIT, |state| state.compiling > 0);
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_exit_waits_for_who_compiles() {
        let compiling = JitGuard::begin().unwrap();
        let start = Instant::now();
        let thread = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(compiling);
        });
        wait();
        assert!(start.elapsed() >= Duration::from_millis(50));
        thread.join().unwrap();
    }
}
