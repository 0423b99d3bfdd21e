//! Rows in the order of a band, within groups.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;

use super::grouping::Grouping;
use crate::NO_GROUP;
use crate::atoms::{BandColumn, Span};
use crate::gallop::gallop;
use crate::parallel::{WORTH_A_THREAD, collect_in_parallel, sort};

/// The rows of each group by the first of their places.
#[derive(Debug)]
pub struct BandOrder {
    pub grouping: Arc<Grouping>,
    /// Build rows, as [`Grouping::rows`] but sorted within a group.
    pub rows: Vec<u32>,
    /// The first place of each.
    firsts: Vec<u32>,
    /// The last place of each, and of those before it in its group: nothing that ends sooner stands before it.
    reach: Vec<u32>,
    /// The last place of each, where some row ends sooner than one before it in its group.
    lasts: Option<Vec<u32>>,
}

impl BandOrder {
    /// The order of the rows of a build side by `column`. Only sorts use more than `threads` threads.
    ///
    /// # Errors
    /// A device that has the groups and fails.
    pub fn build(grouping: Arc<Grouping>, column: &BandColumn, threads: usize) -> Result<Self> {
        let grouped = grouping.rows()?;
        let span = |row: u32| column.places[row as usize];
        let mut order = collect_in_parallel(grouped.len(), threads, WORTH_A_THREAD, |place| {
            let row = grouped[place];
            (span(row).first, row)
        });
        for group in grouping.groups() {
            let group = &mut order[group.start as usize..group.end as usize];
            if group.len() < WORTH_A_THREAD {
                group.sort_unstable();
            } else {
                sort(group, Ord::cmp);
            }
        }
        let (firsts, rows): (Vec<u32>, Vec<u32>) = order.into_iter().unzip();
        let lasts = collect_in_parallel(rows.len(), threads, WORTH_A_THREAD, |place| span(rows[place]).last);
        let mut reach = lasts.clone();
        for group in grouping.groups() {
            let mut farthest = 0;
            for reach in &mut reach[group.start as usize..group.end as usize] {
                farthest = farthest.max(*reach);
                *reach = farthest;
            }
        }
        // a row that nothing meets stands behind all that something accepts
        let nothing = |place: usize| Span { first: firsts[place], last: lasts[place] } == Span::NONE;
        let ends_sooner = (0..rows.len()).any(|place| lasts[place] < reach[place] && !nothing(place));
        Ok(Self { grouping, rows, firsts, reach, lasts: ends_sooner.then_some(lasts) })
    }

    /// Ends of the partners of each row that stand behind it, for a side that is paired with itself, by up to `threads`
    /// threads.
    pub fn self_join_ends(&self, column: &BandColumn, threads: usize) -> Vec<u32> {
        let ends = self.grouping.group_ends();
        collect_in_parallel(self.rows.len(), threads, WORTH_A_THREAD, |place| {
            let accepted = column.accepted[self.rows[place] as usize];
            let behind = &self.firsts[place + 1..ends[place] as usize];
            (place + 1 + gallop(behind, |&first| first < accepted.last)) as u32
        })
    }

    /// The probe rows that have partners, each with a stretch of these, those of one stretch side by side.
    pub fn partners(&self, groups: &[u32], column: &BandColumn) -> Vec<(u32, Range<u32>)> {
        let mut partners = Vec::new();
        for (row, (&group, &accepted)) in (0u32..).zip(groups.iter().zip(&column.accepted)) {
            if group != NO_GROUP && accepted != Span::NONE {
                self.stretches(self.grouping.places(group), accepted, |stretch| partners.push((row, stretch)));
            }
        }
        partners.sort_unstable_by_key(|(row, places)| (places.start, *row));
        partners
    }

    fn stretches(&self, group: Range<usize>, accepted: Span, mut found: impl FnMut(Range<u32>)) {
        let first = group.start + self.reach[group.clone()].partition_point(|&reach| reach < accepted.first);
        let end = group.start + self.firsts[group].partition_point(|&first| first < accepted.last);
        let mut start = first;
        // rows that end in the order in which they begin all reach the first place
        let lasts = self.lasts.as_ref().and_then(|lasts| lasts.get(first..end)).unwrap_or(&[]);
        for (place, &last) in (first..end).zip(lasts) {
            if last < accepted.first {
                if start < place {
                    found(start as u32..place as u32);
                }
                start = place + 1;
            }
        }
        if start < end {
            found(start as u32..end as u32);
        }
    }

    pub fn memory(&self) -> usize {
        let lasts = self.lasts.as_ref().map_or(0, Vec::capacity);
        (self.rows.capacity() + self.firsts.capacity() + self.reach.capacity() + lasts) * size_of::<u32>()
    }
}
