//! What the rows of two sides are compared by.

use std::ops::Range;

use super::prefixes::Asked;
use crate::block_ranges::BlockRanges;
use crate::fault::Fault;
use crate::kernels::Task;
use crate::replicate::{Copying, Replicate};
use crate::work_split::{PAIRS_OF_STEP, WorkSplit};

/// How the partners of a probe side's positions are found.
#[derive(Debug)]
pub(crate) enum Access {
    /// Among all positions that group and size allow, by signatures.
    Tiles(BlockRanges),
    /// Among those that share a rare token.
    Prefixes(Box<Asked>),
}

impl Access {
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Tiles(windows) => windows.memory(),
            Self::Prefixes(asked) => asked.memory(),
        }
    }
}

impl Replicate for Access {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(match self {
            Self::Tiles(windows) => Self::Tiles(windows.clone()),
            Self::Prefixes(asked) => Self::Prefixes(asked.replicate(to)?),
        })
    }
}

impl WorkSplit for Access {
    fn parts(&self) -> u64 {
        match self {
            Self::Tiles(windows) => windows.parts(),
            Self::Prefixes(_) => 4,
        }
    }

    fn most_pairs(&self) -> u64 {
        match self {
            Self::Tiles(windows) => windows.most_pairs(),
            Self::Prefixes(_) => PAIRS_OF_STEP,
        }
    }

    fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64) {
        match self {
            Self::Tiles(windows) => windows.stretch(start, end, pairs),
            Self::Prefixes(asked) => asked.stretch(start, end, pairs),
        }
    }

    fn tasks(&self, positions: Range<u32>) -> Vec<Task> {
        match self {
            Self::Tiles(windows) => windows.tasks(positions),
            Self::Prefixes(asked) => asked.tasks(positions),
        }
    }
}
