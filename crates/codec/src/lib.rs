//! Plans with similarity joins as bytes, and back: for clusters, and for planners in another library.
//!
//! [`SimilarityLogicalCodec`] takes the nodes of logical plans and [`SimilarityPhysicalCodec`] the operators; both take
//! this project's functions. What is neither they leave to the codec that they are made with.
//!
//! ```text
//! operator --messages--> content --envelope--> bytes --envelope--> content --messages--> operator
//!                                     version, checksum
//! ```
//!
//! # Errors
//! A plan of another version, a truncated or a damaged one, and one that does not fit its inputs, is an error that says
//! so. None of them panics.

#![deny(missing_docs)]

mod condition;
mod division;
mod engine;
mod envelope;
mod expressions;
#[cfg(test)]
mod forged_tests;
mod functions;
mod join;
mod links;
mod logical;
mod messages;
mod nearest;
mod physical;
mod rules;

pub use logical::SimilarityLogicalCodec;
pub use physical::SimilarityPhysicalCodec;
