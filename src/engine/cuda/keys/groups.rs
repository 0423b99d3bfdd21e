//! Rows by what they have in several equalities.

use std::sync::Arc;

use datafusion::common::Result;

use super::records::{RowsByNumber, Which};
use super::{MOST_ROWS, NumbersOnDevice, on_stream};
use crate::engine::cuda::memory::{Budget, Buffer};
use crate::engine::keys::Codes;

/// Rows by the group that they are in, where a group has two rows at least.
#[derive(Debug)]
pub struct RowsByGroup {
    budget: Budget,
    groups: NumbersOnDevice,
    /// Where the rows of each group start; one entry more than groups.
    starts: Vec<u32>,
    /// Row numbers by group, ascending within one.
    rows: Buffer<u32>,
    /// How many rows would be in a group if another one had the same codes.
    pub alone: usize,
}

impl RowsByGroup {
    /// Groups rows by the codes that they have in one or more columns; a row in which one is [`NO_GROUP`], or whose codes no other
    /// has, is in no group. `None` where the device has too little memory.
    ///
    /// # Errors
    /// A device that fails.
    pub fn of(budget: &Budget, columns: &[&Codes]) -> Result<Option<Self>> {
        if columns.iter().any(|codes| codes.len() > MOST_ROWS) {
            return Ok(None);
        }
        on_stream(budget, |stream| {
            let mut columns = columns.iter().map(|codes| NumbersOnDevice::of(budget, stream, codes));
            let Some(mut first) = columns.next().transpose()? else { return Ok(None) };
            let mut second = columns.next().transpose()?;
            for next in columns {
                let pair = RowsByNumber::of_numbers(budget, stream, (&first, second.as_deref()), Which::Valued)?;
                let Some(pair) = pair else { return Ok(None) };
                (first, second) = (Arc::new(pair.numbers), Some(next?));
            }
            let grouped = RowsByNumber::of_numbers(budget, stream, (&first, second.as_deref()), Which::Paired)?;
            let Some(RowsByNumber { numbers, starts, rows, alone }) = grouped else { return Ok(None) };
            let starts = budget.fetch(&starts, 0..numbers.count as usize + 1)?;
            Ok(Some(Self { budget: budget.clone(), groups: numbers, starts, rows, alone }))
        })
    }

    /// Where the rows of each group start, and where those of the last one end.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// How many rows are in groups.
    pub fn len(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group of each row, [`NO_GROUP`] where it is in none.
    ///
    /// # Errors
    /// A device that fails.
    pub fn groups(&self) -> Result<Vec<u32>> {
        self.download(&self.groups.by_row, self.groups.rows as usize)
    }

    /// The groups of some rows.
    ///
    /// # Errors
    /// A device that fails.
    pub fn groups_of(&self, rows: &[u32]) -> Result<Vec<u32>> {
        self.gather((&self.groups.by_row, self.groups.rows as usize), rows)
    }

    /// Row numbers by group, ascending within one.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows(&self) -> Result<Vec<u32>> {
        self.download(&self.rows, self.len())
    }

    /// The rows at some places.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows_at(&self, places: &[u32]) -> Result<Vec<u32>> {
        self.gather((&self.rows, self.len()), places)
    }

    /// The same as [`rows`](Self::rows), on the device.
    pub(in crate::engine::cuda) fn rows_on_device(&self) -> &Buffer<u32> {
        &self.rows
    }

    fn download(&self, buffer: &Buffer<u32>, count: usize) -> Result<Vec<u32>> {
        Ok(self.budget.fetch(buffer, 0..count)?)
    }

    /// What stands at some places of `count` values.
    fn gather(&self, (values, count): (&Buffer<u32>, usize), places: &[u32]) -> Result<Vec<u32>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let gathered = on_stream(&self.budget, |stream| {
            let asked = self.budget.upload(stream, places)?;
            let mut found = self.budget.buffer(stream, places.len())?;
            self.budget.device.keys()?.gather(stream, (values, &asked), places.len() as u32, &mut found)?;
            Ok(Some(self.budget.fetch(&found, 0..places.len())?))
        })?;
        match gathered {
            Some(gathered) => Ok(gathered),
            // without memory for these the host has to pick them
            None => {
                let all = self.download(values, count)?;
                Ok(places.iter().map(|&place| all[place as usize]).collect())
            }
        }
    }
}
