//! The driver's compiler, which takes itself apart when the process exits: whoever still compiles then would bring it down.

use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::time::Duration;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUlinkState, cuLinkCreate_v2, cuLinkDestroy};

/// How long an exit waits at most: all files take some seconds.
const LONGEST_EXIT: Duration = Duration::from_secs(60);

/// How many threads have the driver compile at the moment.
static COMPILING: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();

/// A thread that has the driver compile, or find what it has compiled before.
pub(super) struct Compiling(());

impl Compiling {
    pub(super) fn begin() -> Self {
        *COMPILING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        *COMPILING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        DONE.notify_all();
    }
}

/// Has the process wait for who compiles before it exits, from the first call on.
///
/// What is registered last runs first at an exit. The driver loads its compiler, which registers its own end, when it first needs it: that
/// is now.
pub(super) fn outlive_at_exit(context: &CudaContext) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let mut state: CUlinkState = std::ptr::null_mut();
        // SAFETY: no options are given; `state` receives what is given back at once. A driver without a compiler says so, and then there is
        // nothing to wait for.
        unsafe {
            if context.bind_to_thread().is_ok()
                && cuLinkCreate_v2(0, std::ptr::null_mut(), std::ptr::null_mut(), &mut state).result().is_ok()
            {
                let _ = cuLinkDestroy(state);
            }
        }
        // SAFETY: the function takes nothing, returns, and does not unwind.
        unsafe { libc::atexit(wait) };
    });
}

extern "C" fn wait() {
    let compiling = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = DONE.wait_timeout_while(compiling, LONGEST_EXIT, |compiling| *compiling > 0);
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_exit_waits_for_who_compiles() {
        let compiling = Compiling::begin();
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
