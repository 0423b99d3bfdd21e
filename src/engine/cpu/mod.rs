//! The CPU engine.

pub mod edit;
pub mod set;
