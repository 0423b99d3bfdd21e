//! Conditions on a pair of keys: a measure, and the scores that it accepts.

mod bounds;
mod key_condition;
mod vector_condition;

pub use bounds::{Bound, Bounds};
pub use key_condition::Condition;
pub use vector_condition::VectorCondition;
