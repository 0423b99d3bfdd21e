#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod config;
pub mod exec;
pub mod functions;
pub mod optimizer;
pub mod predicate;
pub mod program;
pub mod sql;
pub mod tables;

mod dataframe;
mod session;

pub use config::SimilarityOptions;
pub use dataframe::SimilarityDataFrame;
pub use functions::register_all;
pub use session::{SimilarityContext, SimilarityStateBuilder};

/// The Rust page of the book, for its snippets to be compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/src/sql/rust.md")]
mod rust_page {}
