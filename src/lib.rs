//! Similarity joins for Apache DataFusion.

pub mod config;
pub mod engine;
pub mod functions;
pub mod measure;
pub mod predicate;
pub mod program;
