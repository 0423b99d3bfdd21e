//! Waiting for what was launched on a device, and giving up a device that does not answer.
//!
//! The driver's own waits have no end. Ours ask the driver whether a stream is done, more and more seldom, and end
//! after a while. From then on the process does not use the device any more, and waits for it end at once. Results
//! of joins come through pinned memory, which lies in pools that last as long as the process.
//!
//! A copy to other memory of the host is a call of the driver that waits by itself, without an end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError};

/// How long a thread asks again and again: a thread that sleeps wakes some 60 microseconds late.
const BUSY: Duration = Duration::from_millis(2);
/// Turns of a loop between two questions, some microseconds: the driver answers one thread at a time.
const TURNS: u32 = 64;
/// A later pause is this part of the time that has passed.
const PART: u32 = 32;
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Seconds until a device is given up; 0 is never.
static SECONDS: AtomicU64 = AtomicU64::new(0);
/// Devices that were given up, a bit each by ordinal.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// Sets after how many seconds a device that does not answer is given up, for all devices of the process; 0 is never.
pub(super) fn give_up_after(seconds: u64) {
    SECONDS.store(seconds, Ordering::Relaxed);
}

/// The bit of a device among those that were given up; none beyond those that a session can list.
fn bit(ordinal: usize) -> u64 {
    1u64.checked_shl(ordinal as u32).unwrap_or(0)
}

/// The error of a device that was given up.
pub(super) fn given_up(ordinal: usize) -> Result<(), DriverError> {
    match GIVEN_UP.load(Ordering::Relaxed) & bit(ordinal) {
        0 => Ok(()),
        _ => Err(DriverError(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT)),
    }
}

/// Waits until all is done that was begun on a stream.
///
/// # Errors
/// What the device has failed with, a device that is given up.
pub(super) fn wait(stream: &CudaStream) -> Result<(), DriverError> {
    // SAFETY: the context of the stream is current, and the stream lives as long as the borrow.
    until(stream.context(), || unsafe { sys::cuStreamQuery(stream.cu_stream()) })
}

/// Waits until all is done that was begun before an event was recorded.
///
/// # Errors
/// What the device has failed with, a device that is given up.
pub(super) fn wait_for(event: &CudaEvent, context: &CudaContext) -> Result<(), DriverError> {
    // SAFETY: the context of the event is current, and the event lives as long as the borrow.
    until(context, || unsafe { sys::cuEventQuery(event.cu_event()) })
}

fn until(context: &CudaContext, state: impl Fn() -> CUresult) -> Result<(), DriverError> {
    context.bind_to_thread()?;
    let started = Instant::now();
    loop {
        match state() {
            CUresult::CUDA_ERROR_NOT_READY => given_up(context.ordinal())?,
            done => return done.result(),
        }
        let passed = started.elapsed();
        let limit = SECONDS.load(Ordering::Relaxed);
        if limit > 0 && passed >= Duration::from_secs(limit) {
            GIVEN_UP.fetch_or(bit(context.ordinal()), Ordering::Relaxed);
            return Err(DriverError(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT));
        }
        match passed < BUSY {
            true => (0..TURNS).for_each(|_| std::hint::spin_loop()),
            false => thread::sleep((passed / PART).min(LONGEST_PAUSE)),
        }
    }
}
