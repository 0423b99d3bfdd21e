//! Room for one of several things: some use at the same time what is there, and once nobody does it makes way for
//! another one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fault::Fault;
use similarity_engine::Cancel;

/// How long someone waits between two looks at the cancel flag.
const LOOK: Duration = Duration::from_millis(20);

/// One of several things, by their numbers, none of which is there at first.
#[derive(Debug)]
pub(super) struct SharedSlot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// Visitors at the same time.
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    /// Number and value of the thing that is there; `None` also while another one is brought.
    seated: Option<(usize, Arc<T>)>,
    /// Who uses it or brings another one.
    users: usize,
    visitors: usize,
}

impl<T> SharedSlot<T> {
    /// Seat for so many visitors at the same time.
    pub(super) fn new(most: usize) -> Self {
        let state = State { seated: None, users: 0, visitors: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new(), most }
    }

    /// Waits until there are few enough others; none once `cancel` says so.
    pub(super) fn visit(&self, cancel: &Cancel) -> Option<Visit<'_, T>> {
        let mut state = self.wait(cancel, |state| state.visitors < self.most)?;
        state.visitors += 1;
        Some(Visit { slot: self, counted: |state| &mut state.visitors })
    }

    /// Runs `work` on one of the `pending` ones, which is then no longer pending: on the one that is there, or once
    /// nobody uses that, on one that `bring` brings. None once `cancel` says so.
    pub(super) fn with<R>(
        &self,
        pending: &mut Vec<usize>,
        bring: impl FnOnce(usize) -> Result<T, Fault>,
        work: impl FnOnce(&T) -> Result<R, Fault>,
        cancel: &Cancel,
    ) -> Result<Option<R>, Fault> {
        let place = |state: &State<T>| {
            let seated = state.seated.as_ref().map(|(number, _)| *number);
            pending.iter().position(|&number| Some(number) == seated)
        };
        let Some(mut state) = self.wait(cancel, |state| state.users == 0 || place(state).is_some()) else {
            return Ok(None);
        };
        let (place, seated) = (place(&state), state.seated.take());
        state.users += 1;
        // what is used goes before
        let _user = Visit { slot: self, counted: |state: &mut State<T>| &mut state.users };
        let number = pending.remove(place.unwrap_or(0));
        let one = match seated.filter(|_| place.is_some()) {
            Some((_, one)) => one,
            None => {
                // not within the lock, so that others may look at their flags; the other one is gone
                drop(state);
                let one = Arc::new(bring(number)?);
                state = self.lock();
                one
            }
        };
        state.seated = Some((number, Arc::clone(&one)));
        drop(state);
        self.changed.notify_all();
        work(&one).map(Some)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, cancel: &Cancel, is_ready: impl Fn(&State<T>) -> bool) -> Option<MutexGuard<'_, State<T>>> {
        let mut state = self.lock();
        while !is_ready(&state) {
            if cancel.is_cancelled() {
                return None;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(state)
    }
}

/// Someone who counts until it is dropped.
pub(super) struct Visit<'a, T> {
    slot: &'a SharedSlot<T>,
    counted: fn(&mut State<T>) -> &mut usize,
}

impl<T> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        *(self.counted)(&mut self.slot.lock()) -= 1;
        self.slot.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// What is brought counts how many there are.
    struct Counted<'a>(&'a AtomicUsize, usize);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn one_is_there_at_a_time_and_shared() {
        let (there, brought, visits) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (slot, never) = (SharedSlot::new(3), Cancel::default());
        let bring = |number| {
            assert_eq!(there.fetch_add(1, Ordering::SeqCst), 0, "another one has gone before");
            brought.fetch_add(1, Ordering::SeqCst);
            Ok(Counted(&there, number))
        };
        let visit = || {
            let _visit = slot.visit(&never).unwrap();
            assert!(visits.fetch_add(1, Ordering::SeqCst) < 3);
            let (mut pending, mut seen) = (vec![0, 1, 2, 3], Vec::new());
            while !pending.is_empty() {
                let work = |one: &Counted<'_>| {
                    thread::sleep(Duration::from_millis(2));
                    Ok(one.1)
                };
                seen.extend(slot.with(&mut pending, bring, work, &never).unwrap());
            }
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3]);
            visits.fetch_sub(1, Ordering::SeqCst);
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..10).for_each(|_| visit()));
            }
        });
        // without sharing, and all but the first of a visit brought
        assert!(brought.load(Ordering::SeqCst) < 8 * 10 * 3, "{brought:?}");
        drop(slot);
        assert_eq!(there.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn what_is_there_comes_first() {
        let (slot, never, mut pending) = (SharedSlot::new(1), Cancel::default(), vec![0, 1, 2]);
        let mut brought = Vec::new();
        let mut next = |pending: &mut Vec<usize>| {
            let bring = |number| {
                brought.push(number);
                Ok(number)
            };
            slot.with(pending, bring, |one| Ok(*one), &never).unwrap().unwrap()
        };
        let first: Vec<usize> = (0..3).map(|_| next(&mut pending)).collect();
        pending = vec![0, 1, 2];
        let then: Vec<usize> = (0..3).map(|_| next(&mut pending)).collect();
        assert_eq!((first, then, pending), (vec![0, 1, 2], vec![2, 0, 1], vec![]));
        assert_eq!(brought, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn who_fails_or_is_cancelled_holds_up_nobody() {
        let (slot, never, cancelled) = (SharedSlot::new(1), Cancel::default(), Cancel::default());
        cancelled.cancel();
        let full = |_| Err(Fault::Memory);
        assert!(matches!(slot.with(&mut vec![0], full, |_: &usize| Ok(()), &never), Err(Fault::Memory)));
        let fails = |_: &usize| Err::<(), _>(Fault::Memory);
        assert!(matches!(slot.with(&mut vec![0], Ok, fails, &never), Err(Fault::Memory)));
        let visit = slot.visit(&never).unwrap();
        assert!(slot.visit(&cancelled).is_none());
        let within = |_: &usize| {
            // another one cannot be brought now, but this one can be shared
            assert_eq!(slot.with(&mut vec![0], Ok, |one| Ok(*one), &never)?, Some(0));
            slot.with(&mut vec![1], Ok, |one| Ok(*one), &cancelled)
        };
        assert!(matches!(slot.with(&mut vec![0], full, within, &never), Ok(Some(None))));
        assert!(matches!(slot.with(&mut vec![1], Ok, |one| Ok(*one), &never), Ok(Some(1))));
        drop(visit);
        assert!(slot.visit(&never).is_some());
    }
}
