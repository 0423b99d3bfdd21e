//! Joins on the distance of two vectors: all within reach ([`epsilon`]), or the nearest ones ([`nearest`]).
//!
//! ```text
//! points (engine::vectors)
//!       ----partition-> near points follow each other
//!       ----build_tree-> blocks: leaves of sixteen points, under a tree of boxes, in balls (`fill_leaves`)
//!       ----sorted----> both
//! probe leaf ---search---> leaves within reach ---kernel---> pairs within reach ---decision---> pairs
//! ```
//!
//! In many dimensions a join that may miss pairs finds candidates by `bands` of random `projections` instead.
//!
//! The filter computes in single precision where that tells matches from others, else in double; `reach` says by how
//! much it looks farther than the condition, so that no match is lost. The measure's own arithmetic decides.
//!
//! Memory: for each row its vector in double precision (beyond 32 elements where it is, else once more in order), its
//! point in the filter's precision and about 40 bytes; a batch of the probe side likewise. A side that does not fit is
//! told apart by `regions`, so that its parts are joined one by one.

mod bands;
mod blocks;
mod build_tree;
mod clusters;
pub mod epsilon;
mod fill_leaves;
mod kernel;
mod lanes;
mod metric;
pub mod nearest;
mod pair_decider;
mod partition;
mod projections;
mod regions;
mod search;
mod slack;
mod sorted;

use crate::vectors::{decision, frame, points, reach};
pub use pair_decider::{VectorColumn, VectorDecider};
pub use regions::{Extent, PointRegions, REGIONS};
