//! Asking for memory before it is taken.

use crate::error::Result;

/// Asked with the bytes that come on top; an error says that there are no more.
pub type Reserve<'a> = &'a (dyn Fn(usize) -> Result<()> + Sync);

/// What one thread of a build holds, kept ahead of what it is about to take.
pub struct Ledger<'a> {
    reserve: Reserve<'a>,
    reserved: usize,
}

/// Small enough to matter to no budget, large enough that rows need not ask one by one.
const STEP: usize = 1 << 18;

impl<'a> Ledger<'a> {
    /// Memory of which nothing is taken.
    pub fn new(reserve: Reserve<'a>) -> Self {
        Self { reserve, reserved: 0 }
    }

    /// Makes sure that `bytes` in all are reserved.
    #[inline]
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.reserved { Ok(()) } else { self.grow(bytes) }
    }

    fn grow(&mut self, bytes: usize) -> Result<()> {
        let more = (bytes - self.reserved).max(STEP);
        (self.reserve)(more)?;
        self.reserved += more;
        Ok(())
    }
}
