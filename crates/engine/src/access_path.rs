//! Access paths: the ways in which pairs and neighbours are found, as EXPLAIN names them.

use std::fmt;

/// A way in which pairs or neighbours are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    /// Scores of all candidates.
    AllCandidates,
    /// Leaves of near points in clusters, of which those with the nearest centres are visited.
    ClusteredBlocks,
    /// Columns of places that a range of each condition is compared with.
    ConditionColumns,
    /// Blocks of points along a space-filling curve, compared where their boxes are near.
    CurveBlocks,
    /// Lists of the rows that agree in a band of hashes, which may miss pairs.
    HashBands,
    /// Lists of the sets that hold each token.
    InvertedIndex,
    /// Leaves of near points under a tree of boxes.
    KdBlocks,
    /// Leaves of near points in balls.
    MetricBlocks,
    /// Lists of the sets that hold each of their rarest tokens.
    PrefixIndex,
    /// Lists of the strings that hold each segment.
    SegmentIndex,
    /// All pairs that sizes allow, by bit signatures.
    SignatureTiles,
    /// Numbers in order.
    SortedRuns,
}

impl fmt::Display for AccessPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllCandidates => "all candidates",
            Self::ClusteredBlocks => "clustered blocks",
            Self::ConditionColumns => "columns of conditions",
            Self::CurveBlocks => "blocks along a curve",
            Self::HashBands => "hash bands",
            Self::InvertedIndex => "inverted index",
            Self::KdBlocks => "k-d blocks",
            Self::MetricBlocks => "metric blocks",
            Self::PrefixIndex => "prefix index",
            Self::SegmentIndex => "segment index",
            Self::SignatureTiles => "signature tiles",
            Self::SortedRuns => "sorted runs",
        })
    }
}

/// What decides between access paths once the keys are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Criterion {
    /// The estimated cost.
    Cost,
    /// The dimension of vectors.
    Dimension,
}

/// The access paths that an engine has for a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessPaths {
    /// One path at least.
    pub paths: &'static [AccessPath],
    /// What decides between several.
    pub by: Option<Criterion>,
}

impl AccessPaths {
    /// A single path.
    pub const fn only(path: &'static [AccessPath; 1]) -> Self {
        Self { paths: path, by: None }
    }
}

impl fmt::Display for AccessPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths.iter().enumerate() {
            let separator = match at {
                0 => "",
                _ if at + 1 == self.paths.len() => " or ",
                _ => ", ",
            };
            write!(f, "{separator}{path}")?;
        }
        match self.by {
            Some(Criterion::Cost) => f.write_str(" (by the cost over the collected keys)"),
            Some(Criterion::Dimension) => f.write_str(" (by the dimension of the collected keys)"),
            None => Ok(()),
        }
    }
}
