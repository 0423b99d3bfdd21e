//! Epsilon joins and nearest joins of vectors on a device.
//!
//! ```text
//! points and frame (engine::vectors)
//!   columns   --> the vectors of a side, on the device as the query has them
//!   sorted    --> points along a Z-order curve in blocks of 64, blocks in boxes, boxes in boxes
//!   near_blocks --> how many build blocks are near each block, and tasks of even work
//!   index     --> near blocks compared by a filter, candidates decided by the measure
//!   nearest   --> the same, each row with a distance of its own that shrinks from round to round
//! ```
//!
//! Few dimensions: almost all blocks are told apart by their boxes. Many: all pairs of points are compared, on tensor
//! cores where half precision tells matches from others. The measure's own arithmetic decides, on the device, in double
//! precision, in the order of the elements. The host decides `lp_distance`, as a device rounds powers in another way. A
//! row of a probe batch that no filter tells apart is compared on the host.

mod columns;
mod condition;
mod index;
mod near_blocks;
mod nearest;
mod sorted;

pub(super) use condition::{finds_pairs, has_kernels, vector_test};
pub(super) use index::VectorIndex;
pub use nearest::FEW_DIMENSIONS;
pub(super) use nearest::build_nearest;
