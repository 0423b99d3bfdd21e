//! Connected components on a device.

use std::fmt::Debug;

use crate::cancel::Cancel;
use crate::error::Result;
use crate::offered::Offered;

/// Rows of a piece of [`LinkedIds`], but for the last one.
pub const PIECE: usize = 1 << 20;

/// Ids, each with another one of its component.
#[derive(Debug, Default)]
pub struct LinkedIds {
    /// The ids.
    pub ids: Vec<u64>,
    /// One for each, which may be the id itself.
    pub others: Vec<u64>,
}

/// Connected components of links that were sent to a device, between ids of 64 bits. Threads may send at once.
pub trait DeviceComponents: Debug + Send + Sync {
    /// Adds links. The parts of `left`, one after the other, have as many ids as those of `right`. Declined where
    /// memory lacks: then some of these links may have been added.
    ///
    /// # Errors
    /// A device that fails.
    fn link(&self, left: &[&[u64]], right: &[&[u64]]) -> Result<Offered<()>>;

    /// How many ids there are.
    fn ids(&self) -> usize;

    /// Each id once, with the least one of its component, in pieces of [`PIECE`] rows. Declined where memory lacks.
    ///
    /// # Errors
    /// A device that fails, and once it is cancelled.
    fn clusters(&self, threads: usize, cancel: &Cancel) -> Result<Offered<Vec<LinkedIds>>>;

    /// Links that have the same components as all that were added. This takes no memory of the device.
    ///
    /// # Errors
    /// A device that fails.
    fn forest(&self) -> Result<Vec<LinkedIds>>;
}
