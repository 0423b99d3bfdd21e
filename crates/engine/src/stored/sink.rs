//! Where the bytes of an index go.

use std::fmt;
use std::io::Write;

use crate::error::{Error, Result};

/// Takes the bytes of an index.
pub struct Sink<'a> {
    out: &'a mut dyn Write,
}

impl fmt::Debug for Sink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

impl<'a> Sink<'a> {
    /// Passes all bytes on.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out }
    }

    /// Writes some bytes.
    ///
    /// # Errors
    /// Whatever they are passed on to fails with.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(Error::caller)
    }
}
