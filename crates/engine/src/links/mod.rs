//! Links between ids, as a join of similar rows finds them, and what they say together: clusters, one-to-one matches
//! and paths.
//!
//! ```text
//! pairs of ids ──Members──> pairs of numbers ──┬─> Forest ─────────────────────────> components
//!                                              └─> LinkList ──in order of the ids──> everything else
//! ```
//!
//! Components may also be found by a device, which numbers the ids itself: see [`Components`].
//!
//! A [`LinkSink`] takes links from many threads and becomes a [`LinkTable`]. Every result is a function of the set of
//! links: neither their order nor the threads that bring them change it. Equal scores are decided by the order of the
//! ids, which is that of ORDER BY.

mod blocks;
mod center;
mod clustering;
mod components;
mod forest;
mod hungarian;
mod integers;
mod link;
mod link_list;
mod matching;
mod members;
mod path;
mod sink;
mod split;
mod star;
mod unsigned;

pub use clustering::{Clustering, Method};
pub use components::Components;
pub use integers::IntegerIds;
pub use matching::{Assignment, Matching};
pub use path::PathSearch;
pub use sink::{LinkChunk, LinkSink, LinkTable};
