//! Where a probe stands, and how far one call of it goes.

/// Where a probe stands: which of its rows come next.
///
/// For a batch the rows are `0..rows` in the engine's own order; in a self-join they are positions of the index.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    /// The next row.
    pub next: usize,
    /// One past the last row.
    pub end: usize,
}

impl Cursor {
    /// Whether every row has been probed.
    pub fn is_done(&self) -> bool {
        self.next >= self.end
    }
}

/// What one call of [`PairIndex::probe`](crate::PairIndex::probe) may do before it returns.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Return once this many pairs are there; the call may overshoot by what one step of it yields.
    pub pairs: usize,
    /// Return after about this much work, in pairs tested, so that the driver can report and be cancelled.
    pub work: usize,
}
