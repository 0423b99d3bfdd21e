//! Edit-distance and Jaro joins.
//!
//! ```text
//! key column --texts-----> columns, ordered by (group, class, length), signatures of what they are made of
//! probe row  --slacks----> the lengths it can match, and in how many signature bits
//!            --tiles-----> candidates --measure--> pairs that the condition accepts
//! ```
//!
//! `predicate` says what two lengths allow, `features` why a difference of signatures proves a difference of
//! strings. A candidate is decided by the measure itself; nothing else decides.
//!
//! Memory: the text of a side once more, 20 bytes and two signatures of 16 to 48 bytes in all a row, and the
//! signatures of the tiles once more.

mod features;
mod index;
mod predicate;
mod slacks;
mod texts;
mod tiles;

pub use index::EditIndex;
pub use predicate::EditPredicate;
