//! Conditions on a pair of keys: a measure, and the scores that it accepts.

mod bounds;
mod test;
mod vector_test;

pub use bounds::{Bound, Bounds};
pub use test::Test;
pub use vector_test::VectorTest;
