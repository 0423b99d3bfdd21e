//! Rows by what they have in several equalities.

use std::any::Any;
use std::sync::Arc;

use similarity_engine::NO_GROUP;
use similarity_engine::error::{Error, Result, internal_err};

use super::known::{FoundNumbers, KnownNumbers};
use super::numbers::{NumbersOnDevice, are_too_many, gather, on_stream};
use super::records::{Numbering, OneOrTwo, RowsByNumber};
use super::sort_keys::Which;
use crate::buffer::Buffer;
use crate::memory::Budget;
use similarity_engine::accelerator::equality::{FoundRows, GroupedRows};
use similarity_engine::accelerator::numbers::DeviceNumbers;
use similarity_engine::equality::Codes;

/// Rows by the group that they are in; in a self-join a group has two rows at least.
#[derive(Debug)]
pub struct RowsByGroup {
    budget: Budget,
    groups: NumbersOnDevice,
    /// Where the rows of each group start; one entry more than groups.
    starts: Vec<u32>,
    starts_on_device: Buffer<u32>,
    /// Row numbers by group, ascending within one.
    rows: Buffer<u32>,
    /// How many rows would be in a group if another one had the same codes.
    pub alone: usize,
    /// What another side is looked up in, one after the other; nothing in a self-join.
    known: Vec<KnownNumbers>,
}

impl RowsByGroup {
    /// Groups rows by the codes that they have in one or more columns; a row in which one is
    /// [`NO_GROUP`], or in a self-join whose codes no other has, is in no group. `None`
    /// where the device has too little memory.
    ///
    /// # Errors
    /// A device that fails.
    pub fn of(budget: &Budget, columns: &[&Codes], self_join: bool) -> Result<Option<Self>> {
        if are_too_many(columns.iter().map(|codes| codes.len())) {
            return Ok(None);
        }
        on_stream(budget, |stream| {
            let mut columns = columns.iter().map(|codes| NumbersOnDevice::of(budget, stream, codes));
            let Some(mut first) = columns.next().transpose()? else { return Ok(None) };
            let mut second = columns.next().transpose()?;
            let (is_known, mut known) = (!self_join, Vec::new());
            for next in columns {
                let numbering = Numbering { which: Which::Valued, is_known };
                let both = KnownNumbers::build(
                    budget,
                    stream,
                    OneOrTwo { left: &first, right: second.as_deref() },
                    numbering,
                )?;
                let Some((both, self_join)) = both else { return Ok(None) };
                known.extend(self_join);
                (first, second) = (Arc::new(both.numbers), Some(next?));
            }
            let numbering = Numbering { which: if self_join { Which::Paired } else { Which::Valued }, is_known };
            let grouped =
                KnownNumbers::build(budget, stream, OneOrTwo { left: &first, right: second.as_deref() }, numbering)?;
            let Some((RowsByNumber { numbers, starts, rows, alone, .. }, self_join)) = grouped else { return Ok(None) };
            known.extend(self_join);
            let starts_on_device = starts;
            let starts = budget.fetch(&starts_on_device, 0..numbers.count as usize + 1)?;
            Ok(Some(Self { budget: budget.clone(), groups: numbers, starts, starts_on_device, rows, alone, known }))
        })
    }

    /// Budget of the device that has grouped the rows.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// How many rows are in groups.
    pub(crate) fn len(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// Whether the host would group the rows as the device has done.
    #[cfg(test)]
    pub(super) fn is_same_on_host(&self) -> bool {
        let groups = self.groups.origin.as_ref().unwrap().numbers().unwrap();
        groups == self.groups().unwrap() && in_order(&groups, &self.starts) == self.rows().unwrap()
    }

    /// Row numbers by group, on the device.
    pub(crate) fn rows_on_device(&self) -> &Buffer<u32> {
        &self.rows
    }

    /// Where the rows of each group start, on the device.
    pub(crate) fn starts_on_device(&self) -> &Buffer<u32> {
        &self.starts_on_device
    }
}

/// The rows by group, ascending within one, given the group of each and where those of each group start.
fn in_order(groups: &[u32], starts: &[u32]) -> Vec<u32> {
    let mut next = starts.to_vec();
    let mut rows = vec![0; starts.last().map_or(0, |&end| end as usize)];
    for (row, &group) in (0u32..).zip(groups).filter(|&(_, &group)| group != NO_GROUP) {
        let place = &mut next[group as usize];
        rows[*place as usize] = row;
        *place += 1;
    }
    rows
}

impl GroupedRows for RowsByGroup {
    fn alone(&self) -> usize {
        self.alone
    }

    fn look_up(&self, columns: &[&Codes]) -> Result<Option<Box<dyn FoundRows>>> {
        if self.known.is_empty() {
            return internal_err!("groups of a self-join were asked for those of another side");
        }
        if are_too_many(columns.iter().map(|codes| codes.len())) {
            return Ok(None);
        }
        on_stream(&self.budget, |stream| {
            let mut columns = columns.iter().map(|codes| NumbersOnDevice::of(&self.budget, stream, codes));
            let Some(first) = columns.next().transpose()? else { return Ok(None) };
            let mut so_far: Option<FoundNumbers> = None;
            for known in &self.known {
                let left = so_far.as_ref().map_or(first.as_ref(), FoundNumbers::numbers);
                let right = columns.next().transpose()?;
                so_far = Some(known.look_up(&self.budget, stream, OneOrTwo { left, right: right.as_deref() })?);
            }
            Ok(so_far.map(|found| Box::new(found) as Box<dyn FoundRows>))
        })
    }

    fn starts(&self) -> &[u32] {
        &self.starts
    }

    fn groups(&self) -> Result<Vec<u32>> {
        self.groups.by_row()
    }

    fn groups_of(&self, rows: &[u32]) -> Result<Vec<u32>> {
        self.groups.at(rows)
    }

    fn rows(&self) -> Result<Vec<u32>> {
        match self.budget.fetch(&self.rows, 0..self.len()).map_err(Error::from) {
            Err(error) if error.is_of_device() => Ok(in_order(&self.groups.by_row()?, &self.starts)),
            fetched => fetched,
        }
    }

    fn rows_at(&self, places: &[u32]) -> Result<Vec<u32>> {
        gather(&self.budget, &self.rows, places, || self.rows())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
