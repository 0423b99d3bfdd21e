//! Joins on the distance of two vectors: all within reach ([`epsilon`]), or the nearest ones ([`nearest`]).
//!
//! ```text
//! points (engine::vectors)
//!       ----order-----> near points follow each other
//!       ----grow------> blocks: leaves of sixteen points, under a tree of boxes, in balls, filled by several threads
//!       ----side------> both, arranged
//! probe leaf ---search---> leaves within reach ---kernel---> pairs within reach ---decision---> pairs
//! ```
//!
//! The filter computes in single precision where that tells matches from others, else in double; `reach` says by how
//! much it looks farther than the condition, so that no match is lost. The measure's own arithmetic decides.
//!
//! Memory: for each row its vector in double precision (beyond 32 elements where it is, else once more in order), its
//! point in the filter's precision and about 40 bytes; a batch of the probe side likewise. A side that does not fit is
//! told apart by `regions`, so that its parts are joined one by one.

mod blocks;
pub mod epsilon;
mod fill;
mod grow;
mod kernel;
mod lanes;
mod metric;
pub mod nearest;
mod order;
mod pair_test;
mod regions;
mod search;
mod side;
mod slack;

use crate::vectors::{decision, frame, points, reach};
pub use pair_test::{VectorColumn, VectorPairTest};
pub use regions::{Extent, Regions};
