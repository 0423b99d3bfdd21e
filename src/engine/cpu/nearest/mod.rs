//! Nearest neighbours by a distance between vectors: one k-d tree for each group of rows.
//!
//! [`Vectors`] reads a column; `tree` arranges the vectors of a group in leaves of neighbouring ones, below nodes with the
//! boxes that they lie in; `search` walks a tree, the nearest box first, and passes over boxes that are farther away than the
//! worst neighbour so far. `metric` is the arithmetic, `lanes` does it eight at a time: the scores are those of
//! [`measure`](crate::measure) to the last bit.

mod lanes;
mod metric;
mod search;
mod tree;
mod vectors;

pub use metric::Metric;
pub use search::KdForest;
pub use vectors::Vectors;
