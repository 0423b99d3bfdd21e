//! Joins on the distance of two vectors.
//!
//! ```text
//! lists ----points----> vectors, and rows that no filter tells apart
//!       ----frame-----> points: shifted to where most are, the telling dimensions first
//!       ----order-----> near points follow each other
//!       ----grow------> blocks: leaves of sixteen points, under a tree of boxes, in balls
//! probe leaf ---search---> leaves within reach ---kernel---> pairs within reach ---decision---> pairs
//! ```
//!
//! The filter computes in single precision where that tells matches from others, else in double; `reach` says by how
//! much it looks farther than the condition, so that no match is lost. The measure's own arithmetic decides.
//!
//! Memory: for each row its vector in double precision, its point in the filter's precision and about 40 bytes; a batch
//! of the probe side likewise.

mod blocks;
mod decision;
mod frame;
mod grow;
mod index;
mod kernel;
mod lanes;
mod metric;
mod order;
mod pair_test;
mod points;
mod reach;
mod search;

pub use index::build;
pub use pair_test::{VectorColumn, VectorPairTest};
pub use points::Vectors;
