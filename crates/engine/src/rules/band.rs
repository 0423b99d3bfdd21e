//! Rows in the order of a band, within groups.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;

use super::grouping::Grouping;
use crate::NO_GROUP;
use crate::atoms::{BandColumn, Span};

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
    pub fn build(grouping: Arc<Grouping>, column: &BandColumn) -> Result<Self> {
        let mut rows = grouping.rows()?.to_vec();
        let span = |row: u32| column.places[row as usize];
        let mut reach = vec![0; rows.len()];
        for group in grouping.groups() {
            let group = group.start as usize..group.end as usize;
            rows[group.clone()].sort_unstable_by_key(|&row| (span(row).first, row));
            let mut farthest = 0;
            for place in group {
                farthest = farthest.max(span(rows[place]).last);
                reach[place] = farthest;
            }
        }
        let firsts = rows.iter().map(|&row| span(row).first).collect();
        // a row that nothing meets stands behind all that something accepts
        let ends_sooner = |(&row, &reach): (&u32, &u32)| span(row) != Span::NONE && span(row).last < reach;
        let lasts = rows.iter().zip(&reach).any(ends_sooner).then(|| rows.iter().map(|&row| span(row).last).collect());
        Ok(Self { grouping, rows, firsts, reach, lasts })
    }

    /// Ends of the partners of each row that stand behind it, for a side that is paired with itself.
    pub fn self_join_ends(&self, column: &BandColumn) -> Vec<u32> {
        let mut ends = Vec::with_capacity(self.rows.len());
        for group in self.grouping.groups() {
            for place in group.start..group.end {
                let accepted = column.accepted[self.rows[place as usize] as usize];
                let behind = &self.firsts[place as usize + 1..group.end as usize];
                ends.push(place + 1 + behind.partition_point(|&first| first < accepted.last) as u32);
            }
        }
        ends
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
