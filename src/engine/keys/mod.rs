//! Equality keys as dense group ids.

mod joined;
mod key;
mod rows;
mod values;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::metrics::MetricValue;

use super::BuildContext;
use super::choice::Engine;
use super::cuda::keys;
use joined::JoinedGroups;
use rows::RowGroups;

pub use values::Values;

/// The groups of the build side, by the values of its equality keys.
#[derive(Debug)]
pub enum Groups {
    /// Keys of common types.
    Keys(JoinedGroups),
    /// Any keys.
    Rows(RowGroups),
    /// Keys of common types in a self-join, where nobody looks up others: numbered by a device that has counted this.
    Own(Vec<MetricValue>),
}

impl Groups {
    /// The groups of `columns`, and the group of each row; those of keys of common types by up to so many threads as `context`
    /// says, or in a self-join by a device.
    ///
    /// # Errors
    /// A refused reservation, a device that fails.
    pub fn build(
        columns: &[ArrayRef],
        null_equals_null: Vec<bool>,
        engine: &Engine,
        context: &BuildContext<'_>,
    ) -> Result<(Self, Vec<u32>)> {
        if columns.is_empty() || !columns.iter().all(|column| Values::supports(column.data_type())) {
            let (groups, ids) = RowGroups::build(columns, null_equals_null)?;
            return Ok((Self::Rows(groups), ids));
        }
        if let Some(budget) = engine.budget_of_keys(columns[0].len(), context)
            && let Some(numbers) = keys::numbers(&budget, columns, &null_equals_null)?
        {
            return Ok((Self::Own(budget.metrics()), numbers));
        }
        let (groups, ids) = JoinedGroups::build(columns, &null_equals_null, context.threads)?;
        Ok((Self::Keys(groups), ids))
    }

    /// The build side's group of each row, [`NO_GROUP`](super::NO_GROUP) where it has none.
    ///
    /// # Errors
    /// Columns that are not of the same types as those of the build side, or of a self-join.
    pub fn look_up(&self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        match self {
            Self::Keys(groups) => groups.look_up(columns),
            Self::Rows(groups) => groups.look_up(columns),
            Self::Own(_) => internal_err!("groups of a self-join were asked for those of another side"),
        }
    }

    /// What a device has counted.
    pub fn metrics(&self) -> &[MetricValue] {
        match self {
            Self::Own(metrics) => metrics,
            Self::Keys(_) | Self::Rows(_) => &[],
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        match self {
            Self::Keys(groups) => groups.memory(),
            Self::Rows(groups) => groups.memory(),
            Self::Own(_) => 0,
        }
    }
}
