//! The rows of a probe batch that have partners in an entry, and where these are.

use std::ops::Range;
use std::sync::OnceLock;

use crate::error::Result;

use super::grouping::{FoundGroups, Grouping};
use crate::NO_GROUP;
use crate::accelerator::equality::FoundRows;
use crate::accelerator::rules::{DeviceEntry, DeviceItems, DeviceRules, ProbeRows};

/// Probe rows, each with the places of its partners, those of one stretch of places side by side.
pub struct ProbePlaces {
    /// Where a device has put them in order, only once somebody asks for them here.
    rows: OnceLock<Vec<(u32, Range<u32>)>>,
    groups: Option<Box<dyn FoundRows>>,
    items: Option<Box<dyn DeviceItems>>,
}

/// Where an entry is walked on a device.
type OnDevice<'a> = Option<(&'a dyn DeviceRules, &'a dyn DeviceEntry)>;

impl ProbePlaces {
    /// Places of the given rows; also on the device, if it has the memory.
    ///
    /// # Errors
    /// A device that fails.
    pub fn of_rows(rows: Vec<(u32, Range<u32>)>, device: OnDevice<'_>) -> Result<Self> {
        let prepare = |(rules, entry): (_, &dyn DeviceEntry)| entry.prepare(rules, &ProbeRows::Placed(&rows));
        let items = device.map(prepare).transpose()?.flatten();
        Ok(Self { rows: rows.into(), groups: None, items })
    }

    /// Places of the rows that have found a group.
    ///
    /// # Errors
    /// A device that fails.
    pub fn of_groups(grouping: &Grouping, found: FoundGroups, device: OnDevice<'_>) -> Result<Self> {
        match (found, device, grouping.on_device()) {
            (FoundGroups::OnDevice(groups), Some((rules, entry)), Some(grouped)) => {
                match entry.prepare(rules, &ProbeRows::Grouped(groups.as_ref(), grouped.as_ref()))? {
                    items @ Some(_) => Ok(Self { rows: OnceLock::new(), groups: Some(groups), items }),
                    None => Self::of_rows(by_place(grouping, &groups.by_row()?), None),
                }
            }
            (found, ..) => Self::of_rows(by_place(grouping, &found.into_vec()?), device),
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.items.as_ref().map_or_else(|| self.rows.get().map_or(0, Vec::len), |items| items.len())
    }

    /// Rows with partners as items on the device.
    pub fn items(&self) -> Option<&dyn DeviceItems> {
        self.items.as_deref()
    }

    /// The rows, whose groups are of `grouping`.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows(&self, grouping: &Grouping) -> Result<&[(u32, Range<u32>)]> {
        match (self.rows.get(), &self.groups) {
            (None, Some(groups)) => {
                let rows = by_place(grouping, &groups.by_row()?);
                Ok(self.rows.get_or_init(|| rows))
            }
            (rows, _) => Ok(rows.map_or(&[], Vec::as_slice)),
        }
    }
}

/// The probe rows that have partners, those of one group side by side, given the group of each.
fn by_place(grouping: &Grouping, groups: &[u32]) -> Vec<(u32, Range<u32>)> {
    let known = (0u32..).zip(groups).filter(|&(_, &group)| group != NO_GROUP);
    let mut rows: Vec<_> = known
        .map(|(row, &group)| {
            let places = grouping.places(group);
            (row, places.start as u32..places.end as u32)
        })
        .filter(|(_, places)| !places.is_empty())
        .collect();
    rows.sort_unstable_by_key(|(row, places)| (places.start, *row));
    rows
}
