//! Indexes as bytes, for a file that a later process reads.
//!
//! ```text
//! index --Store--> Sink --> bytes        one field after the other, numbers with the least byte first
//! index <--Stored-- Source <-- bytes     the same fields; vectors of numbers are copied at once
//! ```
//!
//! A type lists its fields once, by `stored!`, or by `fixed!` where it is of a fixed number of bytes. What follows from
//! other fields, or from the query, is not stored but made again. A load of such a type takes more arguments and is
//! written by hand.
//!
//! Bytes are trusted: whoever keeps them has to make sure that they are those that this [`version`] of the crate has
//! written. Lengths are checked against what is left, so that no vector takes more memory than it has bytes. Numbers
//! that point into other vectors are not checked.

mod fixed;
mod sink;
mod source;
mod values;

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::error::{Result, internal_err};

pub use fixed::Fixed;
pub(crate) use fixed::{fixed, stored_at_once};
pub use sink::Sink;
pub use source::Source;
pub(crate) use values::{stored, tagged};

/// A value that can be written.
pub trait Store {
    /// Writes the value.
    ///
    /// # Errors
    /// Whatever the sink fails with.
    fn store(&self, sink: &mut Sink<'_>) -> Result<()>;
}

/// A value that can be read again without anything but its bytes.
pub trait Stored: Store + Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// Too few bytes, or bytes that are no such value.
    fn load(source: &mut Source<'_>) -> Result<Self>;

    /// Writes several values one after the other.
    ///
    /// # Errors
    /// Whatever the sink fails with.
    fn store_all(values: &[Self], sink: &mut Sink<'_>) -> Result<()> {
        values.iter().try_for_each(|value| value.store(sink))
    }

    /// Reads so many values.
    ///
    /// # Errors
    /// Too few bytes, or bytes that are no such values.
    fn load_all(count: usize, source: &mut Source<'_>) -> Result<Vec<Self>> {
        // each of them takes a byte at least
        let mut values = Vec::with_capacity(count.min(source.left()));
        for _ in 0..count {
            values.push(Self::load(source)?);
        }
        Ok(values)
    }
}

/// Writes a value that can be, where its owner has said so before.
///
/// # Errors
/// No value, and whatever the sink fails with.
pub fn store_some(value: Option<&dyn Store>, sink: &mut Sink<'_>) -> Result<()> {
    match value {
        Some(value) => value.store(sink),
        None => internal_err!("an index was to be stored that cannot be"),
    }
}

/// What the bytes of an index depend on besides its types: this crate, Arrow, and the hashes of this build, which
/// tables and numbers of groups follow.
pub fn version() -> String {
    let hasher = FixedState::default();
    let hashes = [hasher.hash_one(1u64), hasher.hash_one(1i64), hasher.hash_one((1u64, 2u64))];
    let texts = [&b"text"[..], &[7; 100]].map(|text| hasher.hash_one(text));
    let hash = hashes.into_iter().chain(texts).fold(0u64, |all, hash| all.rotate_left(7) ^ hash);
    format!("{}, Arrow {}, hashes {hash:016x}", env!("CARGO_PKG_VERSION"), arrow::ARROW_VERSION)
}
