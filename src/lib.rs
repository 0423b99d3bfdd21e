//! Similarity joins for Apache DataFusion.

pub mod engine;
pub mod measure;
pub mod predicate;
