//! Where the bytes of an index come from.

use crate::error::{Result, internal_err};

/// Gives the bytes of an index one after the other.
#[derive(Debug)]
pub struct Source<'a> {
    bytes: &'a [u8],
    threads: usize,
}

impl<'a> Source<'a> {
    /// Gives these bytes, of which long vectors are made by up to so many threads.
    pub fn new(bytes: &'a [u8], threads: usize) -> Self {
        Self { bytes, threads: threads.max(1) }
    }

    /// How many threads make a long vector, at least one.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// Fewer bytes than that.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, left)) = self.bytes.split_at_checked(count) else {
            return internal_err!("a stored index ends {} bytes too early", count - self.bytes.len());
        };
        self.bytes = left;
        Ok(taken)
    }
}
