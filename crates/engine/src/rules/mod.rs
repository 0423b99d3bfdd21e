//! Joins on an OR of ANDs.
//!
//! ```text
//! columns of all atoms --equality----> codes of the values of equalities
//!                      --cpu::columns> places, strings, sets, bits: any pair of rows can be decided
//!                      --grouping----> rows by the equalities of some clause
//!                      --statistics--> selectivities over a sample of the build side
//!                      --program-----> entries, each with its execution tree
//!                      --entry-------> where the candidates of each come from: groups, a band, an index
//! probe rows           --------------> candidates of one entry --cpu::rules--> pairs, each with its witness
//! ```
//! Where a device walks the trees (`on_device`, by `cuda::rules`) it has numbered and grouped the keys, too, and looks
//! up those of a probe side; `places` says which rows of one have partners.
//!
//! Memory: for each equality four bytes a row, for each key of an edit measure its text and 32 bytes a row, for each
//! key of a set measure its tokens as `u32` and 24 bytes a row; for each entry eight bytes a row and an index
//! where it has one.

mod band;
mod entry;
mod grouping;
mod index;
mod on_device;
mod places;
mod statistics;

pub use index::{PreparedRules, RuleIndex, RuleSource, Run};
pub use on_device::strings_ahead;

/// Parts that tests on devices look into.
pub(crate) mod internals {
    pub use super::grouping::{FoundGroups, Grouping, GroupsByRow, codes};
    pub use super::index::PreparedEntry;
    pub use super::on_device::{SharedStrings, bring_ahead};
    pub use super::statistics::{SAMPLED, Sample};
}
