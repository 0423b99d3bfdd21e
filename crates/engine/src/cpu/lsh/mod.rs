//! Locality-sensitive hashing: rows whose hashes agree in a band are candidates.
//!
//! ```text
//! row --hashes--> bands of some hashes each --one key a band--> tables
//! probe row ----------------------------------------keys------> positions with that key in some band --> candidates
//! ```
//!
//! Two rows agree in a hash with a probability that only their similarity decides (Indyk and Motwani, STOC 1998). With
//! probability `p`, they agree in all `h` hashes of a band with `p^h`, and in one of `b` bands with `1 - (1 - p^h)^b`.
//! So the numbers follow from the least similar pair that a condition accepts and the share of pairs that is to be
//! found. Candidates are decided as in every other path: what comes out satisfies the condition.

mod bands;
mod keys;
mod sampled;
mod table;

pub(crate) use bands::{Bands, Plan};
pub(crate) use keys::key;
pub(crate) use sampled::Sampled;
pub(crate) use table::BandTables;
