//! The positions of a build side by the key of each band.

use std::ops::Range;

use crate::cache::fetch;
use crate::error::Result;
use crate::parallel::each_in_turn;
use crate::stored::{fixed, stored};

/// Rows that share a bucket on average.
const ROWS_OF_BUCKET: usize = 2;

/// A table for each band.
#[derive(Debug)]
pub(crate) struct BandTables {
    tables: Vec<Table>,
    /// Bits by which a key is shifted to be a bucket.
    shift: u32,
}

#[derive(Debug)]
struct Table {
    /// Where each bucket starts, and the end of the last one.
    starts: Vec<u32>,
    /// Bucket by bucket, in the order of positions.
    entries: Vec<Entry>,
}

/// A row in the table of a band.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    key: u32,
    position: u32,
}

stored!(BandTables { tables, shift });
stored!(Table { starts, entries });
fixed!(Entry { key: u32, position: u32 });

impl BandTables {
    /// The bytes that tables of so many bands take for so many rows.
    pub fn size(rows: usize, bands: usize) -> usize {
        bands * (rows * size_of::<Entry>() + (buckets(rows) + 1) * size_of::<u32>())
    }

    /// Tables of rows whose keys, one for each band, stand one row after the other; `kept` says which rows can match.
    pub fn build(keys: &[u32], bands: usize, kept: impl Fn(usize) -> bool + Sync, threads: usize) -> Result<Self> {
        let rows = keys.len() / bands.max(1);
        let shift = 32 - buckets(rows).ilog2();
        let tables =
            each_in_turn(bands, threads, |band| Table::build(keys.get(band..).unwrap_or(&[]), bands, &kept, shift));
        Ok(Self { tables, shift })
    }

    /// Has the bucket of a key brought into the cache, which is asked for soon.
    #[inline]
    pub fn fetch(&self, band: usize, key: u32) {
        fetch(&self.tables[band].starts, bucket(key, self.shift));
    }

    /// Has the rows of the bucket of a key brought into the cache.
    #[inline]
    pub fn fetch_rows(&self, band: usize, key: u32) {
        let Table { starts, entries } = &self.tables[band];
        fetch(entries, starts[bucket(key, self.shift)] as usize);
    }

    /// The positions within a range whose key in a band is this one, in order.
    #[inline]
    pub fn with_key(&self, band: usize, key: u32, within: &Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let Table { starts, entries } = &self.tables[band];
        let bucket = bucket(key, self.shift);
        let entries = &entries[starts[bucket] as usize..starts[bucket + 1] as usize];
        let start = entries.partition_point(|entry| (entry.position as usize) < within.start);
        let end = within.end;
        let entries = entries[start..].iter().take_while(move |entry| (entry.position as usize) < end);
        entries.filter(move |entry| entry.key == key).map(|entry| entry.position as usize)
    }

    pub fn memory(&self) -> usize {
        let of_table =
            |table: &Table| table.entries.capacity() * size_of::<Entry>() + table.starts.capacity() * size_of::<u32>();
        self.tables.iter().map(of_table).sum()
    }
}

impl Table {
    fn build(keys: &[u32], bands: usize, kept: &(impl Fn(usize) -> bool + Sync), shift: u32) -> Self {
        let rows = || keys.iter().step_by(bands).enumerate().filter(|(position, _)| kept(*position));
        // one entry ahead, each start moves to the end of its bucket, which is the start of the next one
        let mut starts = vec![0u32; (1 << (32 - shift)) + 2];
        rows().for_each(|(_, key)| starts[bucket(*key, shift) + 2] += 1);
        (2..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let mut entries = vec![Entry::default(); starts.last().copied().unwrap_or(0) as usize];
        for (position, &key) in rows() {
            let at = &mut starts[bucket(key, shift) + 1];
            entries[*at as usize] = Entry { key, position: position as u32 };
            *at += 1;
        }
        starts.pop();
        Self { starts, entries }
    }
}

fn buckets(rows: usize) -> usize {
    (rows / ROWS_OF_BUCKET).next_power_of_two().clamp(2, 1 << 28)
}

#[inline]
fn bucket(key: u32, shift: u32) -> usize {
    (key >> shift) as usize
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn positions_with_a_key_are_those_of_a_scan() {
        let mut rng = StdRng::seed_from_u64(5);
        for rows in [0usize, 1, 2, 5, 300] {
            let bands = 3;
            let known: Vec<u32> = (0..5).map(|_| rng.random()).chain([0, u32::MAX]).collect();
            let keys: Vec<u32> = (0..rows * bands).map(|_| known[rng.random_range(0..known.len())]).collect();
            let tables = BandTables::build(&keys, bands, |position| position % 7 != 3, 2).unwrap();
            assert!(tables.memory() <= BandTables::size(rows, bands) + bands * 16);
            for band in 0..bands {
                for &key in &known {
                    let within = rng.random_range(0..=rows / 2)..rng.random_range(rows / 2..=rows);
                    let expected = within.clone().filter(|p| p % 7 != 3 && keys[p * bands + band] == key);
                    let expected: Vec<usize> = expected.collect();
                    assert_eq!(tables.with_key(band, key, &within).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
