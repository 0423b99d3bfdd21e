//! What kind of index bytes are of: the first thing that each of them writes.

use crate::stored::tagged;

/// A kind of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Rows of small groups, whose pairs are decided one by one.
    SmallGroups,
    /// Sets, for pairs or a ranking.
    Sets,
    /// Strings, for pairs or a ranking.
    Strings,
    /// Vectors in blocks, for pairs or a ranking.
    Points,
    /// Vectors in bands of projections.
    Bands,
    /// Conditions that are counted.
    Counts,
    /// Strings that many rows have, for pairs.
    RepeatedStrings,
}

tagged!(IndexKind { SmallGroups, Sets, Strings, Points, Bands, Counts, RepeatedStrings });
