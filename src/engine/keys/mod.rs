//! Equality keys as dense group ids.

mod codes;
mod joined;
mod key;
mod rows;
mod values;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, internal_err};

use super::cuda::{Budget, keys};
use joined::JoinedGroups;
use rows::RowGroups;

pub use codes::Codes;
pub use values::Values;

/// The groups of the build side, by the values of its equality keys.
#[derive(Debug)]
pub enum Groups {
    /// Keys of common types.
    Keys(JoinedGroups),
    /// Any keys.
    Rows(RowGroups),
    /// Keys that a device has numbered, for a self-join, where nobody looks up others.
    Own,
}

impl Groups {
    /// The groups of `columns`, and the group of each row; those of keys of common types by up to `threads` threads, or by a device,
    /// which is given for self-joins alone.
    ///
    /// # Errors
    /// A device that fails.
    pub fn build(
        columns: &[ArrayRef],
        null_equals_null: Vec<bool>,
        threads: usize,
        device: Option<&Budget>,
    ) -> Result<(Self, Codes)> {
        if columns.is_empty() || !columns.iter().all(|column| Values::supports(column.data_type())) {
            let (groups, ids) = RowGroups::build(columns, null_equals_null)?;
            return Ok((Self::Rows(groups), ids.into()));
        }
        if let Some(budget) = device
            && let Some(codes) = keys::codes(budget, columns, &null_equals_null)?
        {
            return Ok((Self::Own, codes));
        }
        let (groups, ids) = JoinedGroups::build(columns, &null_equals_null, threads)?;
        Ok((Self::Keys(groups), ids.into()))
    }

    /// The build side's group of each row, [`NO_GROUP`](super::NO_GROUP) where it has none.
    ///
    /// # Errors
    /// Columns that are not of the same types as those of the build side, or of a self-join.
    pub fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        match self {
            Self::Keys(groups) => groups.look_up(columns),
            Self::Rows(groups) => groups.look_up(columns),
            Self::Own => internal_err!("groups of a self-join were asked for those of another side"),
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        match self {
            Self::Keys(groups) => groups.memory(),
            Self::Rows(groups) => groups.memory(),
            Self::Own => 0,
        }
    }
}
