//! Candidates of an entry of a join of rules, decided on a device.
//!
//! ```text
//! atoms of both sides (engine::atoms)
//!   columns      --> what either side has for each atom that a tree asks, by row
//!   atoms        --> how each of these atoms is decided
//!   sample  --> some of its rows, from which trees are planned
//!   probe_ranges --> probe rows with their stretches of build rows, cut by pairs
//!   launches     --> an execution tree as launches, one a step
//!   walk_buffers --> device memory that pairs walk in
//!   walking      --> batches of pairs that walk the tree, then that of the entries before
//!   entry        --> an entry by equalities or by a band: the device finds the pairs that walk
//!   found_pairs  --> an entry by an index, which finds them wherever it is
//! ```
//!
//! An entry is served where its trees ask codes, bits, places, strings of up to 1,024 characters, sets or vectors.
//! Damerau-Levenshtein, `lp_distance`, DataFusion's own vector functions and conditions of the driver are atoms that it
//! cannot decide. Its trees filter by the first, with plain edits, and leave out the others; the CPU decides the pairs
//! that pass. How rows are grouped is the same for either.

mod atoms;
mod columns;
mod device_rules;
mod entry;
mod found_pairs;
mod launches;
mod probe_ranges;
mod sample;
mod walk_buffers;
mod walking;

pub(crate) use atoms::{RulesOnDevice, filters, serves};
