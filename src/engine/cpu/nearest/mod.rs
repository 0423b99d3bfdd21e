//! Nearest neighbours by a distance between vectors: one k-d tree for each group of rows.
//!
//! [`Vectors`] reads a column; `tree` arranges the vectors of a group in leaves of neighbouring ones, each with the box that
//! they lie in; `search` walks a tree, the nearer box first, and passes over boxes that are farther away than the worst
//! neighbour so far. `metric` is the arithmetic: the scores are those of [`measure`](crate::measure) to the last bit.

mod metric;
mod search;
mod tree;
mod vectors;

pub use metric::Metric;
pub use search::KdForest;
pub use vectors::Vectors;
