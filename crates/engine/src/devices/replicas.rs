//! Replicas: one thing on each of several devices, and which device the next work goes to.

use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::metrics::Count;

/// One thing on each of some devices.
pub(crate) struct Replicas<T> {
    all: Vec<T>,
    loads: Mutex<Vec<Load>>,
    /// Calls that a device answers at the same time. Others wait for the device that is free first.
    calls: usize,
    /// Whoever waits for a device that is free.
    freed: Condvar,
    /// Devices that have failed.
    failures: Count,
}

/// Load of a device.
#[derive(Debug, Clone, Default)]
struct Load {
    /// Work that is handed out and not done.
    outstanding: usize,
    /// Work that was handed out so far.
    all: usize,
    /// Calls that it answers.
    calls: usize,
    /// Error that it has failed with.
    failure: Option<Arc<Error>>,
}

/// A device's share of the work, until it is dropped.
struct Share<T> {
    replicas: Arc<Replicas<T>>,
    at: usize,
    work: usize,
    calls: usize,
}

impl<T> Replicas<T> {
    /// Things on one device each, which answers so many calls at the same time: enough for copies and kernels to
    /// overlap.
    pub(super) fn new(all: Vec<T>, calls: usize) -> Arc<Self> {
        let loads = Mutex::new(vec![Load::default(); all.len()]);
        Arc::new(Self { all, loads, calls, freed: Condvar::new(), failures: Count::new() })
    }

    /// All of them, in the order of their devices.
    pub(super) fn all(&self) -> &[T] {
        &self.all
    }

    /// How many devices have failed.
    pub(super) fn failures(&self) -> &Count {
        &self.failures
    }

    fn loads(&self) -> MutexGuard<'_, Vec<Load>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, which is so much, on the device with the least outstanding work, once one can take a call; on
    /// another one where that fails or has no memory. What a device has begun `work` begins anew.
    ///
    /// # Errors
    /// Errors of `work` that no device is to blame for, and the error of the last device.
    pub(super) fn run<R>(self: &Arc<Self>, amount: usize, mut work: impl FnMut(&T) -> Result<R>) -> Result<R> {
        let mut tried = Tried::default();
        while let Some(share) = self.next_free(amount, &tried) {
            if let Some(done) = tried.note(&share, work(&share)) {
                return done;
            }
        }
        Err(self.last_error(tried))
    }

    /// Brings something to the device with the least outstanding work that was not `tried`, which keeps it as so much
    /// work.
    fn bring<B>(
        self: &Arc<Self>,
        amount: usize,
        tried: &mut Tried,
        bring: impl Fn(&T) -> Result<B>,
    ) -> Result<(Share<T>, B)> {
        while let Some(share) = self.least_busy(amount, tried) {
            if let Some(brought) = tried.note(&share, bring(&share)) {
                return Ok((share, brought?));
            }
        }
        Err(self.last_error(std::mem::take(tried)))
    }

    /// Error of the last device, in this call or an earlier one.
    fn last_error(&self, tried: Tried) -> Error {
        let earlier = || self.loads().iter().find_map(|load| load.failure.clone());
        tried.error.or_else(|| earlier().map(Error::Shared)).unwrap_or(Error::DeviceFull)
    }

    fn least_busy(self: &Arc<Self>, work: usize, tried: &Tried) -> Option<Share<T>> {
        let mut loads = self.loads();
        let at = least(&loads, tried, |_| true)?;
        Some(self.share(&mut loads, at, work, 0))
    }

    fn next_free(self: &Arc<Self>, work: usize, tried: &Tried) -> Option<Share<T>> {
        let mut loads = self.loads();
        loop {
            if let Some(at) = least(&loads, tried, |load| load.calls < self.calls) {
                return Some(self.share(&mut loads, at, work, 1));
            }
            least(&loads, tried, |_| true)?;
            loads = self.freed.wait(loads).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn share(self: &Arc<Self>, loads: &mut [Load], at: usize, work: usize, calls: usize) -> Share<T> {
        loads[at].outstanding += work;
        loads[at].all += work;
        loads[at].calls += calls;
        Share { replicas: Arc::clone(self), at, work, calls }
    }
}

/// Place of the load with the least outstanding work, or else with the least so far; of those that have not failed,
/// were not tried, and are `eligible`.
fn least(loads: &[Load], tried: &Tried, eligible: impl Fn(&Load) -> bool) -> Option<usize> {
    let may = |(at, load): &(usize, &Load)| load.failure.is_none() && !tried.devices.contains(at) && eligible(load);
    loads.iter().enumerate().filter(may).min_by_key(|(_, load)| (load.outstanding, load.all)).map(|(at, _)| at)
}

/// Devices that could not do some work.
#[derive(Debug, Default)]
struct Tried {
    devices: Vec<usize>,
    /// Why the last one could not.
    error: Option<Error>,
}

impl Tried {
    /// Takes note of a device that has failed, or has no memory; any other result is returned.
    fn note<T, R>(&mut self, share: &Share<T>, result: Result<R>) -> Option<Result<R>> {
        match result {
            Err(error) if error.is_of_device() => {
                self.devices.push(share.at);
                self.error = Some(share.fail(error));
                None
            }
            done => Some(done),
        }
    }
}

impl<T> Share<T> {
    /// Takes note of what the device has failed with, so that it gets no more work, unless it only has no memory.
    fn fail(&self, error: Error) -> Error {
        if error.is_device_full() {
            return error;
        }
        let error = Arc::new(error);
        let failed = self.replicas.loads()[self.at].failure.replace(Arc::clone(&error));
        self.replicas.failures.add(usize::from(failed.is_none()));
        self.replicas.freed.notify_all();
        Error::Shared(error)
    }
}

/// Something on one of the devices, and on another one after that has failed or has no memory for the work on it.
#[derive(Debug)]
pub(crate) struct OnOneDevice<T, B> {
    replicas: Arc<Replicas<T>>,
    amount: usize,
    on: Mutex<Arc<(Share<T>, B)>>,
}

impl<T, B> OnOneDevice<T, B> {
    /// Brings something, which is so much work, to the least busy device.
    ///
    /// # Errors
    /// Errors of `bring` that no device is to blame for, and the error of the last device.
    pub(super) fn bring(replicas: &Arc<Replicas<T>>, amount: usize, bring: impl Fn(&T) -> Result<B>) -> Result<Self> {
        let brought = replicas.bring(amount, &mut Tried::default(), bring)?;
        Ok(Self { replicas: Arc::clone(replicas), amount, on: Mutex::new(Arc::new(brought)) })
    }

    fn on(&self) -> MutexGuard<'_, Arc<(Share<T>, B)>> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of it, which no device is asked for.
    pub(super) fn there<R>(&self, known: impl FnOnce(&B) -> R) -> R {
        let on = Arc::clone(&self.on());
        known(&on.1)
    }

    /// Runs `work` where it is and nowhere else.
    ///
    /// # Errors
    /// Errors of `work`.
    pub(super) fn run_there<R>(&self, work: impl FnOnce(&T, &B) -> Result<R>) -> Result<R> {
        let (mut tried, on) = (Tried::default(), Arc::clone(&self.on()));
        match tried.note(&on.0, work(&on.0, &on.1)) {
            Some(done) => done,
            None => Err(self.replicas.last_error(tried)),
        }
    }

    /// Runs `work` where it is, or once it was brought elsewhere. What a device has begun `work` begins anew.
    ///
    /// # Errors
    /// Errors of `work` that no device is to blame for, and the error of the last device.
    pub(super) fn run<R>(
        &self,
        bring: impl Fn(&T) -> Result<B>,
        mut work: impl FnMut(&T, &B) -> Result<R>,
    ) -> Result<R> {
        let mut tried = Tried::default();
        loop {
            let on = Arc::clone(&self.on());
            if let Some(done) = tried.note(&on.0, work(&on.0, &on.1)) {
                return done;
            }
            // nobody waits for the lock meanwhile: it may be brought by parts on several threads
            let brought = Arc::new(self.replicas.bring(self.amount, &mut tried, &bring)?);
            let mut now = self.on();
            // another thread may have been faster
            if tried.devices.contains(&now.0.at) {
                *now = brought;
            }
        }
    }
}

impl<T> Deref for Share<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.replicas.all[self.at]
    }
}

impl<T> Drop for Share<T> {
    fn drop(&mut self) {
        let load = &mut self.replicas.loads()[self.at];
        load.outstanding -= self.work;
        load.calls -= self.calls;
        self.replicas.freed.notify_all();
    }
}

impl<T: Debug> Debug for Replicas<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

impl<T> Debug for Share<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("at", &self.at).field("work", &self.work).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn failed<R>() -> Result<R> {
        Err(Error::Device("broken".into()))
    }

    #[test]
    fn work_goes_to_the_device_with_the_least() {
        let replicas = Replicas::new(vec!['a', 'b', 'c'], 4);
        let bring = |work| OnOneDevice::bring(&replicas, work, |&device| Ok(device)).unwrap();
        let device = |on: &OnOneDevice<char, char>| on.run_there(|_, &device| Ok(device)).unwrap();
        let held: Vec<_> = [10, 3, 5].into_iter().map(bring).collect();
        assert_eq!(held.iter().map(device).collect::<String>(), "abc");
        assert_eq!(device(&bring(9)), 'b', "three are less than five");
        drop(held);
        assert_eq!(device(&bring(1)), 'c', "of idle ones the one that has done least");
    }

    #[test]
    fn a_call_waits_for_a_device_that_is_free() {
        let (replicas, none) = (Replicas::new(vec![0, 1], 4), Tried::default());
        let mut held: Vec<_> = (0..2 * 4).map(|_| replicas.next_free(1, &none).unwrap()).collect();
        let last = held.pop().unwrap();
        let at = *last;
        thread::scope(|scope| {
            let waiting = scope.spawn(|| replicas.run(1, |&device| Ok(device)).unwrap());
            thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(last);
            assert_eq!(waiting.join().unwrap(), at);
        });
    }

    #[test]
    fn what_a_device_cannot_do_another_one_does() {
        let replicas = Replicas::new(vec![0, 1, 2], 4);
        // one without memory is asked again, one that has failed is not
        let mut asked = Vec::new();
        let done = replicas.run(1, |&device| {
            asked.push(device);
            match device {
                0 => Err(Error::DeviceFull),
                1 => failed(),
                _ => Ok(device),
            }
        });
        assert_eq!((done.unwrap(), asked), (2, vec![0, 1, 2]));
        assert_eq!(replicas.failures().value(), 1);
        let batch = OnOneDevice::bring(&replicas, 1, |&device| Ok(10 + device)).unwrap();
        let moved =
            batch.run(|&device| Ok(20 + device), |&device, &batch| if device == 0 { failed() } else { Ok(batch) });
        assert_eq!((moved.unwrap(), batch.run_there(|_, &batch| Ok(batch)).unwrap()), (22, 22));
        let all: Result<i32> = batch.run(|&device| Ok(device), |_, _| failed());
        assert!(all.unwrap_err().to_string().contains("broken"));
        assert!(replicas.run(1, |&device| Ok(device)).unwrap_err().is_of_device(), "all have failed");
        assert_eq!(replicas.failures().value(), 3);
        // what is no fault of a device is not tried again
        let (other, mut calls) = (Replicas::new(vec![0, 1], 4), 0);
        let refused: Result<()> = other.run(1, |_| {
            calls += 1;
            Err(Error::Cancelled)
        });
        assert!(refused.is_err() && calls == 1);
    }
}
