//! A few things of one kind that many threads use: made when they are first needed, taken in turn.

use std::sync::{Condvar, Mutex, PoisonError};

use super::fault::Fault;

/// Pool of at most `most` things.
#[derive(Debug)]
pub(super) struct ObjectPool<T> {
    state: Mutex<State<T>>,
    returned: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    idle: Vec<T>,
    count: usize,
}

impl<T> ObjectPool<T> {
    /// Pool that is empty yet and holds at most `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { state: Mutex::new(State { idle: Vec::new(), count: 0 }), returned: Condvar::new(), most }
    }

    /// Pool that begins with one, so that there is always one.
    pub(super) fn with_one(first: T, most: usize) -> Self {
        Self { state: Mutex::new(State { idle: vec![first], count: 1 }), returned: Condvar::new(), most }
    }

    /// Runs `work` with one that nobody else has, once there is one; `make` makes another one while there may be more.
    pub(super) fn with<R>(
        &self,
        make: impl Fn() -> Result<T, Fault>,
        work: impl FnOnce(&mut T) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let mut taken = Taken { one: Some(self.take(make)?), pool: self };
        work(taken.one.as_mut().unwrap_or_else(|| unreachable!("it is given back by drop only")))
    }

    fn take(&self, make: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(one) = state.idle.pop() {
                return Ok(one);
            }
            if state.count < self.most {
                match make() {
                    // others give theirs back
                    Err(Fault::Memory) if state.count > 0 => {}
                    Err(fault) => return Err(fault),
                    Ok(one) => {
                        state.count += 1;
                        return Ok(one);
                    }
                }
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One that is given back, whatever happens.
struct Taken<'a, T> {
    one: Option<T>,
    pool: &'a ObjectPool<T>,
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        self.pool.state.lock().unwrap_or_else(PoisonError::into_inner).idle.extend(self.one.take());
        self.pool.returned.notify_one();
    }
}
