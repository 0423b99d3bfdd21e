//! The rows of a probe batch that have partners in an entry, and where these are.

use std::ops::Range;
use std::sync::OnceLock;

use crate::error::{Result, unless_failed};

use super::grouping::{FoundGroups, Grouping};
use super::on_device::WalkedBatch;
use crate::NO_GROUP;
use crate::accelerator::equality::FoundRows;
use crate::accelerator::rules::{DeviceItems, ProbeRows};

/// Probe rows, each with the places of its partners, those of one stretch of places side by side.
pub(super) enum ProbePlaces {
    /// Rows that the host walks.
    OnHost(Vec<(u32, Range<u32>)>),
    /// Rows that the host has put in order and brought to a device.
    Brought { rows: Vec<(u32, Range<u32>)>, items: Box<dyn DeviceItems> },
    /// Rows that a device has put in order.
    OnDevice {
        groups: Box<dyn FoundRows>,
        items: Box<dyn DeviceItems>,
        /// Rows in order on the host, once somebody asks for them there.
        rows: OnceLock<Vec<(u32, Range<u32>)>>,
    },
}

impl ProbePlaces {
    /// Places of the given rows; also on the device, if it has the memory.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn of_rows(rows: Vec<(u32, Range<u32>)>, device: Option<WalkedBatch<'_>>) -> Result<Self> {
        let items = device.map(|batch| batch.prepare(&ProbeRows::Placed(&rows))).transpose()?.flatten();
        Ok(match items {
            Some(items) => Self::Brought { rows, items },
            None => Self::OnHost(rows),
        })
    }

    /// Places of the rows that have found a group.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn of_groups(grouping: &Grouping, found: FoundGroups, device: Option<WalkedBatch<'_>>) -> Result<Self> {
        match (found, device, grouping.on_device()) {
            (FoundGroups::OnDevice(groups), Some(batch), Some(grouped)) => {
                match batch.prepare(&ProbeRows::Grouped(groups.as_ref(), grouped.as_ref()))? {
                    Some(items) => Ok(Self::OnDevice { groups, items, rows: OnceLock::new() }),
                    None => Ok(Self::OnHost(by_place(grouping, &groups.by_row()?))),
                }
            }
            (found, ..) => Self::of_rows(by_place(grouping, &found.into_vec()?), device),
        }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::OnHost(rows) => rows.len(),
            Self::Brought { items, .. } | Self::OnDevice { items, .. } => items.len(),
        }
    }

    /// Rows with partners as items on the device.
    pub(super) fn items(&self) -> Option<&dyn DeviceItems> {
        match self {
            Self::OnHost(_) => None,
            Self::Brought { items, .. } | Self::OnDevice { items, .. } => Some(items.as_ref()),
        }
    }

    /// The rows, whose groups are of `grouping`; `again` finds the groups on the host where the device has failed.
    ///
    /// # Errors
    /// Errors of `again`.
    pub(super) fn rows(
        &self,
        grouping: &Grouping,
        again: impl FnOnce() -> Result<Vec<u32>>,
    ) -> Result<&[(u32, Range<u32>)]> {
        match self {
            Self::OnHost(rows) | Self::Brought { rows, .. } => Ok(rows),
            Self::OnDevice { groups, rows, .. } => match rows.get() {
                Some(rows) => Ok(rows),
                None => {
                    let groups = match unless_failed(groups.by_row().map(Some))? {
                        Some(groups) => groups,
                        None => again()?,
                    };
                    let placed = by_place(grouping, &groups);
                    Ok(rows.get_or_init(|| placed))
                }
            },
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
