//! Rankings whose right side is larger than memory.
//!
//! ```text
//! right input ──sorted by THEN BY──> parts on disk, with ranks ──one after the other──> chunk: rows and index
//!                                                                                         │
//! left input ──> parts ──a stretch──> best rows of each ──────────────────────────────────┴──> merged
//!                                          └──read from the parts──> pairs, in the order of the left rows
//! ```
//!
//! A chunk finds the best of its own rows for each left row, as a right side in memory does. Of all that the chunks
//! have found, the best stay (`best_rows`): by score, by rank, by the number of the row. The score is the one that the
//! query states, evaluated for these few pairs, so that it makes no difference how each chunk has found them. The best
//! rows of all are among the best of each chunk, so the result is exact; nothing is approximate there.
//!
//! A stretch has as many left rows as their best rows leave room for the chunks. Each output partition goes through the
//! chunks once for each of its stretches, and begins with the chunk that another one has in memory. Rows of the right
//! side are read from disk once more when pairs come out.

mod best_rows;
mod join;
mod output;
mod stretches;

pub(in crate::exec) use self::join::ranked;
