//! Pairs of rows, and how many an index has looked at to find them.

/// Pairs of row numbers, one entry a pair in both columns.
#[derive(Debug, Default)]
pub struct Pairs {
    /// Rows of the build side.
    pub build: Vec<u32>,
    /// Rows of the probe side.
    pub probe: Vec<u32>,
}

impl Pairs {
    /// Appends one pair.
    #[inline]
    pub fn push(&mut self, build: u32, probe: u32) {
        self.build.push(build);
        self.probe.push(probe);
    }

    /// Appends the pairs of some build rows with one probe row.
    #[inline]
    pub fn push_all(&mut self, build: impl Iterator<Item = u32>, probe: u32) {
        self.build.extend(build);
        self.probe.resize(self.build.len(), probe);
    }

    /// The build and the probe row at a place.
    #[inline(always)]
    pub fn at(&self, place: u16) -> RowPair {
        RowPair { build: self.build[place as usize], probe: self.probe[place as usize] }
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.build.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.build.is_empty()
    }

    /// Forgets all pairs but the first ones.
    pub fn truncate(&mut self, count: usize) {
        self.build.truncate(count);
        self.probe.truncate(count);
    }

    /// Forgets the pairs and keeps the memory.
    pub fn clear(&mut self) {
        self.build.clear();
        self.probe.clear();
    }
}

/// A build and a probe row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPair {
    /// The row of the build side.
    pub build: u32,
    /// The row of the probe side.
    pub probe: u32,
}

/// What both sides of a join have for one purpose, such as the columns of a key.
#[derive(Debug)]
pub struct ColumnPair<'a, C> {
    /// The column of the build side.
    pub build: &'a C,
    /// The column of the probe side.
    pub probe: &'a C,
}

impl<C> Clone for ColumnPair<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for ColumnPair<'_, C> {}

/// What a probe has done so far.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Pairs that the access path produced.
    pub candidates: usize,
    /// Pairs whose score was computed.
    pub verified: usize,
    /// Pairs that matched.
    pub matched: usize,
}
