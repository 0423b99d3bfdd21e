//! Edit-distance and Jaro joins on a device, and rankings by these measures.
//!
//! ```text
//! key column
//!   alphabet  --> characters as dense codes, one byte each where the build side has few
//!   columns   --> the strings of a side, packed for one upload
//!   build_side --> both of a build side
//!   sorted    --> on the device: signatures, positions by (group, length), blocks of 64
//!   condition --> the condition, and what it allows strings of each length
//!   index     --> windows of build blocks by group and length, filtered by signatures, verified
//!   long_strings --> strings that are too long for the device, compared on the host
//!   nearest   --> the same filter, each row with a bound of its own that tightens from round to round
//! ```
//!
//! All pairs that lengths allow are compared by signatures of their bigrams and of their characters, on binary tensor
//! cores. What passes is decided by the measure itself, on the device: bit-parallel, and Jaro in double precision with
//! the scalar's own operations, which a device rounds as the host does; but Damerau-Levenshtein on the host. Strings of
//! more than 1,024 characters, or 16,384 where 510 edits at most are allowed, are left to the host: a few on the probe
//! side are compared there, a build side that has any is the CPU engine's.

mod alphabet;
mod build_side;
mod columns;
mod condition;
mod index;
mod long_strings;
mod nearest;
mod sorted;

pub(super) use condition::{LONGEST, edit_test, longest_string, reaches};
pub(super) use index::StringIndex;
pub(super) use nearest::{build_nearest, ranks_by};
