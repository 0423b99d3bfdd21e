//! Edit-distance and Jaro joins.
//!
//! ```text
//! key column --sorted----> columns, ordered by (group, length, class of the first character)
//!            --features--> signatures of the characters and of the bigrams
//!            --runs, cost> for each run of a group and length: segment index | signature tiles
//! probe row  --predicate-> the runs that it can match, and in how many signature bits (limits)
//!            ------------> candidates --lanes----> those that are near --measure--> pairs that the condition accepts
//! ```
//!
//! `engine::strings` says what two lengths allow (`predicate`) and why a difference of signatures proves a difference
//! of strings (`features`), `segments` why strings at a small distance share a segment. A candidate is decided by the
//! measure itself; nothing else decides. NULLs and rows without a group are never looked at; empty strings are strings
//! like any other.
//!
//! The most similar strings (`nearest`) are found by the tiles, with the score of the k-th one so far as the condition.
//!
//! Strings that many rows have are indexed once (`repeated`).
//!
//! Memory: the text of a side once more and 85 bytes a row, the signatures of the tiles once more (8 or 32 bytes a
//! row), and 16 to 26 bytes for each segment that is indexed, while it is built 16 more.

mod cost;
mod index;
mod join;
mod lanes;
mod limits;
mod nearest;
mod pair_decider;
mod repeated;
mod runs;
mod segment_index;
mod segments;
mod sides;
mod sorted;
mod tiles;
mod work;

pub use cost::nanoseconds_of_strings;
pub use index::StringIndex;
pub use join::AccessPath;
pub use nearest::{NearestStrings, typical_bounds};
pub use pair_decider::{EditDecider, StringColumn};
pub use repeated::RepeatedStrings;
