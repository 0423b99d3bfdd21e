//! From a join's expression to the conditions that the engines know.

mod bounds;

pub use bounds::{Bound, Bounds};
