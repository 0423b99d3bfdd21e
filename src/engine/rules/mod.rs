//! Joins on an OR of ANDs.
//!
//! ```text
//! columns of all atoms --cpu::columns> codes, places, strings, sets, bits: any pair of rows can be decided
//!                      --statistics--> selectivities over a sample of the build side
//!                      --program-----> entries, each with its execution tree
//!                      --grouping----> rows by the equalities of an entry, and by its band
//! probe rows           --------------> candidates of one entry --cpu::rules--> pairs, each with its witness
//! ```
//!
//! Memory: for each equality four bytes a row, for each key of an edit measure its text and 32 bytes a row, for each
//! key of a set measure its tokens as `u32` and 24 bytes a row; for each entry eight bytes a row and an index
//! where it has one.

mod band;
mod grouping;
mod index;
mod statistics;

pub use index::{PreparedRules, RuleIndex, RuleSource, Run};
