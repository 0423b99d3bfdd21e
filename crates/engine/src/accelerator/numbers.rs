//! Numbers of rows on a device.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;

/// A number for each row.
pub trait DeviceNumbers: Debug + Send + Sync {
    /// How many rows there are.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All numbers, by row.
    ///
    /// # Errors
    /// A device that fails.
    fn by_row(&self) -> Result<Vec<u32>>;

    /// The numbers of some rows.
    ///
    /// # Errors
    /// A device that fails.
    fn at(&self, rows: &[u32]) -> Result<Vec<u32>>;

    /// The numbers themselves, for the device that has made them.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}
