//! Indexes on a device whose memory may run out while they are probed, or that does not take all strings: what does not
//! fit there runs on the CPU.

mod join;
mod long_strings;
mod nearest;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{Error, Result};

use super::{Cancel, parallel};

pub(super) use join::WithCpuFallback;
pub use long_strings::LongStrings;
pub(super) use long_strings::WithLongStrings;
pub(super) use nearest::NearestWithCpuFallback;

/// What is made when it is first needed.
#[derive(Debug)]
struct LazyOnce<T> {
    made: OnceLock<Result<T, Arc<Error>>>,
    making: Mutex<()>,
}

impl<T> Default for LazyOnce<T> {
    fn default() -> Self {
        Self { made: OnceLock::new(), making: Mutex::default() }
    }
}

impl<T> LazyOnce<T> {
    /// What is there, or else what `make` makes; an error is kept, too, unless it comes of `cancel`. Others wait for
    /// that meanwhile, but not a thread of the pool, on which its parts run: that makes one of its own.
    fn get(&self, make: impl FnOnce() -> Result<T>, cancel: &Cancel) -> Result<&T> {
        let may_wait = !parallel::is_in_a_part();
        let _making = may_wait.then(|| self.making.lock().unwrap_or_else(PoisonError::into_inner));
        if self.made.get().is_none() {
            // not within the cell, so that nobody waits for it
            match make() {
                Err(error) if cancel.is_cancelled() => return Err(error),
                made => drop(self.made.set(made.map_err(Arc::new))),
            }
        }
        match self.made.get_or_init(|| unreachable!("it was set above")) {
            Ok(made) => Ok(made),
            Err(error) => Err(Error::Shared(Arc::clone(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::error::keys_err;

    use super::*;
    use crate::parallel::each_in_turn;

    #[test]
    fn what_is_cancelled_is_made_by_the_next_one() {
        let (made, cancel) = (LazyOnce::default(), Cancel::default());
        cancel.cancel();
        assert!(made.get(|| keys_err!("cancelled"), &cancel).is_err());
        assert_eq!(made.get(|| Ok(7), &Cancel::default()).unwrap(), &7);
        let failed = LazyOnce::<u8>::default();
        assert!(failed.get(|| keys_err!("a key that cannot be read"), &Cancel::default()).is_err());
        assert!(failed.get(|| Ok(7), &Cancel::default()).is_err());
    }

    /// A thread of the pool that waited for the cell would wait for itself.
    #[test]
    fn parts_may_ask_for_what_is_made_by_parts() {
        let made = LazyOnce::default();
        let make = || Ok(each_in_turn(64, 8, |n| n));
        let cancel = Cancel::default();
        let sums = each_in_turn(200, 16, |_| made.get(make, &cancel).unwrap().iter().sum::<usize>());
        assert!(sums.iter().all(|&sum| sum == 64 * 63 / 2));
    }
}
