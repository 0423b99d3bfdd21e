//! How values become the keys that rows are sorted by, on a device or on the host.

use arrow::array::Int64Array;
use arrow::compute::{max, min};

/// How numbers become keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) least: i64,
    /// How far the greatest is above the least, and 1.
    pub(super) none: u64,
}

impl Span {
    /// Span of a build side's numbers; `None` where they are too far from each other.
    pub(super) fn of(numbers: &Int64Array) -> Option<Self> {
        let (least, most) = (min(numbers).unwrap_or(0), max(numbers).unwrap_or(0));
        let none = most.abs_diff(least).checked_add(1)?;
        // numbers of another side that are none of these have the key behind
        none.checked_add(1).map(|_| Self { least, none })
    }
}

/// How the numbers that rows have in one or two keys become one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    /// Bits of the second number.
    pub(super) bits: u32,
    /// The key of rows that lack a number.
    pub(super) none: u64,
}

impl Joint {
    /// Joint of numbers of so many bits in each key; `None` where these are too many together.
    pub(super) fn of(left: u32, right: u32) -> Option<Self> {
        Some(Self { bits: right, none: 1u64.checked_shl(left + right)? })
    }

    /// Joint of the numbers of one key, of so many bits, which have room enough.
    pub(super) fn of_one(bits: u32) -> Self {
        Self { bits: 0, none: 1 << bits }
    }
}

/// Which rows have a number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    /// Rows that have a value.
    Valued,
    /// All: having no value is one.
    All,
    /// Rows that have a value which another row has, too.
    Paired,
}

impl Which {
    pub(super) fn with_values(null_equals_null: bool) -> Self {
        if null_equals_null { Self::All } else { Self::Valued }
    }
}
