//! Joins on an OR of ANDs.
//!
//! An index is built in stages, each made of the one before. Every stage says whether it is on the host or on a device.
//! ```text
//! RuleSource and columns of all atoms
//!     --equality, cpu::columns--> CodedRules    equalities have codes: any pair of rows can be decided
//!     --grouping, statistics----> PlannedRules  rows by the equalities of each clause; entries, each with its trees
//!     --band, an index----------> EnteredRules  where the candidates of each entry come from
//!     --ahead, on_device--------> PlacedRules   which entries the host walks, and which a device
//!     --------------------------> RuleIndex     probed: candidates of one entry --cpu::rules--> pairs, with witnesses
//! ```
//! A device that walks the trees (`cuda::rules`) has numbered and grouped the keys, too, and looks up those of a probe
//! side; `places` says which rows of one have partners, and `prepared` holds a batch as all entries read it.
//!
//! Memory: for each equality four bytes a row, for each key of an edit measure its text and 32 bytes a row, for each
//! key of a set measure its tokens as `u32` and 24 bytes a row; for each entry eight bytes a row and an index
//! where it has one.

mod ahead;
mod band;
mod coded;
mod entered;
mod entry;
mod grouping;
mod index;
pub(crate) mod internals;
mod on_device;
mod placed;
mod placement;
mod places;
mod planned;
mod prepared;
mod source;
mod statistics;

pub use ahead::strings_ahead;
pub use index::{RuleIndex, Run};
pub use prepared::PreparedRules;
pub use source::RuleSource;
