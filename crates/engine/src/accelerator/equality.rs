//! Equality keys on a device.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::equality::Codes;
use crate::error::Result;

/// The numbered keys of a build side, in which another side is looked up.
pub trait DeviceKeys: Debug + Send + Sync {
    /// The build side's number of each row of another side; `None` where memory lacks.
    ///
    /// # Errors
    /// Columns of other kinds than those of the build side, a device that fails.
    fn look_up(&self, columns: &[ArrayRef]) -> Result<Option<Codes>>;
}

/// The rows of a build side by group; in a self-join a group has two rows at least.
pub trait GroupedRows: Debug + Send + Sync {
    /// How many rows would be in a group if another one had the same codes.
    fn alone(&self) -> usize;

    /// Where the rows of each group start, and where those of the last one end.
    fn starts(&self) -> &[u32];

    /// The groups of the rows of another side, by their codes in as many columns; `None` where memory lacks.
    ///
    /// # Errors
    /// Groups of a self-join, a device that fails.
    fn look_up(&self, columns: &[&Codes]) -> Result<Option<Box<dyn FoundRows>>>;

    /// The group of each row, [`NO_GROUP`](crate::NO_GROUP) where it is in none.
    ///
    /// # Errors
    /// A device that fails.
    fn groups(&self) -> Result<Vec<u32>>;

    /// The groups of some rows.
    ///
    /// # Errors
    /// A device that fails.
    fn groups_of(&self, rows: &[u32]) -> Result<Vec<u32>>;

    /// Row numbers by group, ascending within one.
    ///
    /// # Errors
    /// A device that fails.
    fn rows(&self) -> Result<Vec<u32>>;

    /// The rows at some places.
    ///
    /// # Errors
    /// A device that fails.
    fn rows_at(&self, places: &[u32]) -> Result<Vec<u32>>;

    /// The rows themselves, for the device that has grouped them.
    fn as_any(&self) -> &dyn Any;

    /// The rows themselves, for the device that has grouped them and keeps them longer.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The rows of another side, each with the group that it has found.
pub trait FoundRows: Debug + Send + Sync {
    /// The group of each row, [`NO_GROUP`](crate::NO_GROUP) where there is none.
    ///
    /// # Errors
    /// A device that fails.
    fn by_row(&self) -> Result<Vec<u32>>;

    /// The rows themselves, for the device that has found them.
    fn as_any(&self) -> &dyn Any;
}
