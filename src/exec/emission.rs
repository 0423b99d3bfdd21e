//! Which rows a join type emits, told apart by build and probe side, and which of them have matched.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{JoinSide, JoinType};

/// The rows of one side that come out beside the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    None,
    Matched,
    Unmatched,
}

/// What a join type emits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Emission {
    /// Whether pairs come out.
    pub pairs: bool,
    /// Rows of the build side, once everything is probed.
    pub build: Rows,
    /// Rows of the probe side, after each batch.
    pub probe: Rows,
}

impl Emission {
    pub(super) fn of(join_type: JoinType, build: JoinSide) -> Self {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        let left = match join_type {
            Left | Full | LeftAnti => Rows::Unmatched,
            LeftSemi => Rows::Matched,
            _ => Rows::None,
        };
        let right = match join_type {
            Right | Full | RightAnti => Rows::Unmatched,
            RightSemi => Rows::Matched,
            _ => Rows::None,
        };
        let pairs = matches!(join_type, Inner | Left | Right | Full);
        match build {
            JoinSide::Right => Self { pairs, build: right, probe: left },
            _ => Self { pairs, build: left, probe: right },
        }
    }

    /// Whether rows of the build side only decide about others.
    pub(super) fn hides_build(self) -> bool {
        !self.pairs && self.build == Rows::None
    }

    /// Whether rows of the probe side only decide about others.
    pub(super) fn hides_probe(self) -> bool {
        !self.pairs && self.probe == Rows::None
    }
}

/// Which rows of the build side have matched; marked by all partitions at once.
#[derive(Debug, Default)]
pub(super) struct MatchedRows(Vec<AtomicU64>);

impl MatchedRows {
    /// Marks for `rows` rows, none of which has matched.
    pub(super) fn new(rows: usize) -> Self {
        Self((0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Marks a row, and says whether it was not.
    pub(super) fn mark(&self, row: u32) -> bool {
        let word = &self.0[row as usize / 64];
        let bit = 1 << (row % 64);
        // most marks repeat: reading first keeps the cache line shared
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether a row is marked.
    pub(super) fn is_marked(&self, row: u32) -> bool {
        self.0[row as usize / 64].load(Ordering::Relaxed) & (1 << (row % 64)) != 0
    }

    /// Rows out of `rows` that `which` asks for, numbered from the first of them.
    pub(super) fn select(&self, rows: Range<usize>, which: Rows) -> Vec<u32> {
        let matched = which == Rows::Matched;
        if which == Rows::None {
            return Vec::new();
        }
        let first = rows.start as u32;
        (first..rows.end as u32).filter(|&row| self.is_marked(row) == matched).map(|row| row - first).collect()
    }

    pub(super) fn memory(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }
}
