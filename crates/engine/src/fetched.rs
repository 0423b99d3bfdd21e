//! Numbers of a device that the host fetches when it first needs them.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::Result;

/// Numbers that one thread fetches for all, once somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    numbers: OnceLock<Vec<u32>>,
    /// Held by the thread that fetches them.
    fetching: Mutex<()>,
}

impl Fetched {
    /// The numbers, as far as they were fetched.
    pub(crate) fn get(&self) -> Option<&[u32]> {
        self.numbers.get().map(Vec::as_slice)
    }

    /// The numbers, which `fetch` fetches if nobody has; an error is not kept, so that the next thread tries again.
    ///
    /// # Errors
    /// Errors of `fetch`, which must not wait for parts of other threads.
    pub(crate) fn get_or_fetch(&self, fetch: impl FnOnce() -> Result<Vec<u32>>) -> Result<&[u32]> {
        if let Some(numbers) = self.get() {
            return Ok(numbers);
        }
        let _fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        match self.get() {
            Some(numbers) => Ok(numbers),
            None => {
                let fetched = fetch()?;
                Ok(self.numbers.get_or_init(|| fetched))
            }
        }
    }

    /// The numbers alone.
    pub(crate) fn into_vec(self) -> Vec<u32> {
        self.numbers.into_inner().unwrap_or_default()
    }
}

impl From<Vec<u32>> for Fetched {
    fn from(numbers: Vec<u32>) -> Self {
        Self { numbers: numbers.into(), fetching: Mutex::default() }
    }
}
