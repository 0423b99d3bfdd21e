//! The rows of a side in the order in which an index has their keys.

use std::ops::Range;

use super::Repeated;

/// The rows of a side by position; those of a key stand side by side, where the order of the index has the key.
#[derive(Debug)]
pub struct Spread {
    rows: Vec<u32>,
    /// Where the rows of each key begin, and the end of the last one.
    starts: Vec<u32>,
}

impl Spread {
    /// The rows of keys in the `order` of an index.
    pub fn new(order: &[u32], repeated: &Repeated) -> Self {
        let mut rows = Vec::with_capacity(repeated.all().len());
        let mut starts = Vec::with_capacity(order.len() + 1);
        for &key in order {
            starts.push(rows.len() as u32);
            rows.extend_from_slice(repeated.rows(key));
        }
        starts.push(rows.len() as u32);
        Self { rows, starts }
    }

    /// Bytes that the rows of all keys take at most.
    pub fn memory_of(repeated: &Repeated) -> usize {
        (repeated.all().len() + repeated.count() + 1) * size_of::<u32>()
    }

    /// The row at each position.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The positions of the rows of the key at a place of the order.
    pub fn positions(&self, place: usize) -> Range<usize> {
        self.starts[place] as usize..self.starts[place + 1] as usize
    }

    /// The place of the key that the row at a position has.
    pub fn place(&self, position: usize) -> usize {
        self.starts.partition_point(|&start| start as usize <= position) - 1
    }

    /// The places of the keys that the rows at some positions have.
    pub fn places(&self, positions: &Range<usize>) -> Range<usize> {
        if positions.is_empty() {
            return 0..0;
        }
        self.place(positions.start)..self.place(positions.end - 1) + 1
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.rows.capacity() + self.starts.capacity()) * size_of::<u32>()
    }
}
