//! Filters of pairs by a value of each row.

use arrow::buffer::BooleanBuffer;

use super::compact::Filter;
use crate::atoms::Span;
use crate::{NO_GROUP, Pairs};

/// Codes of both rows are equal, and no row is without one.
pub(super) struct Equal<'a> {
    pub left: &'a [u32],
    pub right: &'a [u32],
    pub block: &'a Pairs,
}

impl Filter for Equal<'_> {
    #[inline(always)]
    fn holds(&self, place: u16) -> bool {
        let pair = self.block.at(place);
        let (left, right) = (self.left[pair.build as usize], self.right[pair.probe as usize]);
        (left == right) & (left != NO_GROUP)
    }
}

/// The place of the build row is one that the probe row accepts.
pub(super) struct Meeting<'a> {
    pub places: &'a [Span],
    pub accepted: &'a [Span],
    pub block: &'a Pairs,
}

impl Filter for Meeting<'_> {
    #[inline(always)]
    fn holds(&self, place: u16) -> bool {
        let pair = self.block.at(place);
        self.places[pair.build as usize].meets(self.accepted[pair.probe as usize])
    }
}

/// The row of one side has its bit.
pub(super) struct Passing<'a> {
    pub bits: &'a BooleanBuffer,
    pub rows: &'a [u32],
}

impl Filter for Passing<'_> {
    #[inline(always)]
    fn holds(&self, place: u16) -> bool {
        self.bits.value(self.rows[place as usize] as usize)
    }
}

/// One of the rows has its bit.
pub(super) struct EitherPassing<'a> {
    pub build: &'a BooleanBuffer,
    pub probe: &'a BooleanBuffer,
    pub block: &'a Pairs,
}

impl Filter for EitherPassing<'_> {
    #[inline(always)]
    fn holds(&self, place: u16) -> bool {
        let pair = self.block.at(place);
        self.build.value(pair.build as usize) | self.probe.value(pair.probe as usize)
    }
}
