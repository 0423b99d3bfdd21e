//! Candidates of an entry of a join of rules, decided on a device.
//!
//! ```text
//! atoms of both sides (engine::atoms)
//!   columns --> what either side has for each atom that a tree asks, by row
//!   atoms   --> how each of these atoms is decided
//!   sample  --> some of its rows, from which trees are planned
//!   items   --> probe rows with their stretches of build rows, cut by pairs
//!   path    --> an execution tree as launches, one a step
//!   rooms   --> device memory that pairs walk in
//!   entry   --> batches of pairs that walk the tree, then that of the entries before
//! ```
//!
//! An entry by equalities or by a band is served where its trees ask codes, bits, places, strings of up to 1,024
//! characters, sets or vectors; what asks Damerau-Levenshtein, `lp_distance`, DataFusion's own vector functions or
//! conditions of the driver is walked on the CPU. How rows are grouped and which atom comes when is the same for
//! either.

mod atoms;
mod columns;
mod entry;
mod items;
mod path;
mod rooms;
mod sample;

pub(crate) use atoms::{RulesOnDevice, serves};
