//! The keys of one side of a join.

use arrow::array::ArrayRef;

/// The group id of a row that has no partner by the equality keys (a NULL key, or a value that the build side lacks).
pub const NO_GROUP: u32 = u32::MAX;

/// One side's key column, and the group of each row where the join also has equality keys.
///
/// Rows of different groups never pair. Groups are dense ids given by the build side.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    /// One value a row; a NULL value never matches.
    pub values: ArrayRef,
    /// One group a row, or none where the join has no equality keys.
    pub groups: Option<Vec<u32>>,
}
