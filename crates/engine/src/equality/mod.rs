//! Equality keys as dense group ids.

mod codes;
mod joined;
mod key;
mod on_device;
mod rows;
mod values;

use crate::error::{Result, internal_err, unless_failed};
use arrow::array::{Array, ArrayRef};

use super::accelerator::Accelerator;
use joined::JoinedGroups;
use rows::RowGroups;

pub use codes::{Codes, IdMap};
pub use on_device::DeviceGroups;
pub use values::Values;

/// The groups of the build side, by the values of its equality keys.
#[derive(Debug)]
pub enum Groups {
    /// Keys of common types.
    Keys(JoinedGroups),
    /// Keys of any type.
    Rows(RowGroups),
    /// Keys that a device has numbered.
    Device(Box<DeviceGroups>),
    /// Groups of a self-join, in which no other rows are looked up.
    SelfJoin,
}

/// What gives numbers to rows.
#[derive(Debug, Clone, Copy)]
pub struct Numberer<'a> {
    /// Threads that may number rows.
    pub threads: usize,
    /// Whether the build side is its own probe side, so that nobody looks up others.
    pub self_join: bool,
    /// A device, where it can and has the memory.
    pub device: Option<&'a dyn Accelerator>,
}

impl Groups {
    /// The groups of `columns`, and the group of each row; those of keys of common types as `by` says, or by the host
    /// where the device fails.
    ///
    /// # Errors
    /// Columns of a type without an order in Arrow's row format.
    pub fn build(columns: &[ArrayRef], null_equals_null: Vec<bool>, by: Numberer<'_>) -> Result<(Self, Codes)> {
        if columns.is_empty() || !columns.iter().all(|column| Values::supports(column.data_type())) {
            let (groups, ids) = RowGroups::build(columns, null_equals_null)?;
            return Ok((Self::Rows(groups), ids.into()));
        }
        if let Some(budget) = by.device
            && let Some((codes, known)) = unless_failed(budget.number_keys(columns, &null_equals_null, !by.self_join))?
        {
            let device = |known| DeviceGroups::new(known, columns, null_equals_null, &codes, by.threads);
            let groups = known.map_or(Self::SelfJoin, |known| Self::Device(Box::new(device(known))));
            return Ok((groups, codes));
        }
        let (groups, ids) = JoinedGroups::build(columns, &null_equals_null, by.threads)?;
        Ok((Self::Keys(groups), ids.into()))
    }

    /// The build side's group of each row, [`NO_GROUP`](super::NO_GROUP) where it has none.
    ///
    /// # Errors
    /// Columns that are not of the same types as those of the build side, or of a self-join; a device that fails.
    pub fn look_up(&self, columns: &[ArrayRef]) -> Result<Codes> {
        Ok(match self {
            Self::Keys(groups) => groups.look_up(columns)?.into(),
            Self::Rows(groups) => groups.look_up(columns)?.into(),
            Self::Device(groups) => groups.look_up(columns)?,
            Self::SelfJoin => return internal_err!("groups of a self-join were asked for those of another side"),
        })
    }

    /// Whether a device has numbered them: other numbers than the host gives.
    pub fn is_on_device(&self) -> bool {
        match self {
            Self::Keys(_) | Self::Rows(_) => false,
            Self::Device(_) | Self::SelfJoin => true,
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        match self {
            Self::Keys(groups) => groups.memory(),
            Self::Rows(groups) => groups.memory(),
            Self::Device(groups) => groups.memory(),
            Self::SelfJoin => 0,
        }
    }
}
