//! Set similarity joins.
//!
//! ```text
//! ranked tokens (engine::sets)
//!            --sets------> columns, ordered by (group, size), signatures
//!            --cost------> prefix index | signature tiles | hash bands, where pairs may be missed
//! probe row  ------------> candidates --overlap--> pairs that the measure accepts
//! ```
//!
//! Both paths rest on `engine::sets::predicate`, which asks the measure itself what two sizes require. A candidate is
//! decided by the size of the exact overlap; nothing else decides. Rows that are NULL, blank or without a group are
//! never looked at, which is right because the bound excludes the score 0.
//!
//! The most similar sets (`nearest`) are found by an inverted index of all tokens, 4 bytes a token.
//!
//! Memory: the tokens of a side as `u32` (twice while it is built), 24 bytes and a signature a row (16 or 32 bytes,
//! for sets of more than 100 tokens at most a byte a token), the dictionary unless it is a self-join; then 8 bytes
//! for each token of a prefix, or for the tiles a folded signature (at most 32 bytes) and 16 bytes a row.

mod bands;
mod bits;
mod cost;
mod counters;
mod index;
mod join;
mod lists;
mod minhash;
mod nearest;
mod overlap;
mod pair_decider;
mod prefix;
mod requirements;
mod sorted;
mod tiles;

pub use index::SetIndex;
pub use join::AccessPath;
pub use nearest::NearestSets;
pub use pair_decider::{SetColumn, SetDecider};
