//! Joins on an OR of ANDs.
//!
//! ```text
//! columns of all atoms --columns---> codes, places, strings, sets, bits: any pair of rows can be decided
//!                      --statistics> selectivities over a sample of the build side
//!                      --program---> entries, each with its execution tree
//!                      --grouping--> rows by the equalities of an entry, and by its band
//! probe rows           ------------> candidates of one entry --walk--> pairs, each with its witness
//! ```
//!
//! Candidates are walked in blocks: a step of the tree is evaluated for all pairs of a block that reach it, so that a
//! step without pairs is skipped with everything below it. A pair that satisfies clauses of several entries comes out
//! of the first of them.
//!
//! Memory: for each equality four bytes a row, for each key of an edit measure its text and 32 bytes a row, for each
//! key of a set measure its tokens as `u32` and 24 bytes a row; for each entry eight bytes a row and an index
//! where it has one.

mod band;
mod columns;
mod grouping;
mod index;
mod probing;
mod statistics;
mod walk;

pub use columns::{AtomColumn, AtomTest, BandColumn, SideColumns, Span};
pub(super) use columns::{Columns, Tests};
pub use index::{PreparedRules, RuleIndex, RuleSource, Run};
pub use walk::{PairConditions, Tally};
