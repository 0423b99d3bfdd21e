//! Dense numbers for the values of rows, given by several threads: each has a table for the rows whose hash says so.
//!
//! A table numbers its own values from 0 on; the numbers of the tables follow each other.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::common::Result;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::NO_GROUP;
use super::parallel::{in_parallel, in_turn};

/// Tables at most.
const MOST_TABLES: usize = 16;

/// Below this many rows a thread costs more than it saves.
const WORTH_THREADS: usize = 1 << 16;

/// Stands for the table of a row whose value has no number.
const NOWHERE: u8 = u8::MAX;

/// Tables of values with their numbers.
#[derive(Debug)]
pub struct Numbering<T> {
    tables: Vec<T>,
    /// The first number of each table.
    firsts: Vec<u32>,
    count: u32,
}

impl<T: Default + Send> Numbering<T> {
    /// Numbers the values of so many rows, and returns the number of each row, [`NO_GROUP`] where it has none.
    ///
    /// `key` is a row's value, none where it is to have no number, and `hash` the hash of one; `intern` returns the number that a
    /// value has in a table, the next one of the table where it is new there.
    ///
    /// # Errors
    /// None of its own.
    pub fn of_rows<K>(
        rows: usize,
        threads: usize,
        key: impl Fn(usize) -> Option<K> + Sync,
        hash: impl Fn(&K) -> u64 + Sync,
        intern: impl Fn(&mut T, u64, K) -> u32 + Sync,
    ) -> Result<(Self, Vec<u32>)> {
        if threads < 2 || rows < WORTH_THREADS {
            let (mut table, mut count) = (T::default(), 0);
            let mut number = |key| {
                let number = intern(&mut table, hash(&key), key);
                count = count.max(number + 1);
                number
            };
            let numbers = (0..rows).map(key).map(|key| key.map_or(NO_GROUP, &mut number)).collect();
            return Ok((Self { tables: vec![table], firsts: vec![0], count }, numbers));
        }
        let tables = threads.min(MOST_TABLES);
        let mut homes = vec![NOWHERE; rows];
        let share = rows.div_ceil(threads);
        in_parallel(homes.chunks_mut(share).enumerate(), |(part, homes)| {
            for (home, row) in homes.iter_mut().zip(part * share..) {
                *home = key(row).map_or(NOWHERE, |key| table_of(hash(&key), tables) as u8);
            }
            Ok(())
        })?;
        let numbers: Vec<AtomicU32> = (0..rows).map(|_| AtomicU32::new(NO_GROUP)).collect();
        let filled = in_turn(tables, threads, |at| {
            let (mut table, mut count) = (T::default(), 0);
            for (row, _) in homes.iter().enumerate().filter(|&(_, &home)| usize::from(home) == at) {
                let Some(key) = key(row) else { continue };
                let number = intern(&mut table, hash(&key), key);
                count = count.max(number + 1);
                numbers[row].store(number, Ordering::Relaxed);
            }
            Ok((table, count))
        })?;
        let (mut firsts, mut count) = (Vec::with_capacity(tables), 0);
        for (_, own) in &filled {
            firsts.push(count);
            count += own;
        }
        let number = |(number, home): (AtomicU32, u8)| match firsts.get(usize::from(home)) {
            Some(first) => first + number.into_inner(),
            None => NO_GROUP,
        };
        let numbers = numbers.into_iter().zip(homes).map(number).collect();
        Ok((Self { tables: filled.into_iter().map(|(table, _)| table).collect(), firsts, count }, numbers))
    }

    /// The number of the value with this hash, where `find` finds its own one in its table.
    #[inline]
    pub fn find(&self, hash: u64, find: impl FnOnce(&T) -> Option<u32>) -> Option<u32> {
        let at = table_of(hash, self.tables.len());
        find(&self.tables[at]).map(|number| self.firsts[at] + number)
    }

    /// How many values have a number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The tables.
    pub fn tables(&self) -> &[T] {
        &self.tables
    }
}

/// Dense numbers for pairs of numbers.
#[derive(Debug)]
pub struct PairNumbering(Numbering<HashTable<(u64, u32)>>);

impl PairNumbering {
    /// Numbers the pairs that two columns have in a row, by up to `threads` threads, and returns the number of each row; where one
    /// of them is [`NO_GROUP`], so is that.
    ///
    /// # Errors
    /// None of its own.
    pub fn of_rows(left: &[u32], right: &[u32], threads: usize) -> Result<(Self, Vec<u32>)> {
        let intern = |table: &mut HashTable<(u64, u32)>, hash, pair| {
            let next = table.len() as u32;
            let known = table.entry(hash, |&(known, _)| known == pair, |&(known, _)| hash_of_pair(known));
            known.or_insert((pair, next)).get().1
        };
        let key = |row: usize| pair(left[row], right[row]);
        let (numbering, numbers) = Numbering::of_rows(left.len(), threads, key, |&pair| hash_of_pair(pair), intern)?;
        Ok((Self(numbering), numbers))
    }

    /// The number of a pair, [`NO_GROUP`] where it has none.
    pub fn find(&self, left: u32, right: u32) -> u32 {
        let find = |pair: u64| {
            let hash = hash_of_pair(pair);
            self.0.find(hash, |table| table.find(hash, |&(known, _)| known == pair).map(|&(_, number)| number))
        };
        pair(left, right).and_then(find).unwrap_or(NO_GROUP)
    }

    /// How many pairs have a number.
    pub fn count(&self) -> u32 {
        self.0.count()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.0.tables().iter().map(HashTable::allocation_size).sum()
    }
}

/// Two numbers as one, where both are there.
fn pair(left: u32, right: u32) -> Option<u64> {
    (left != NO_GROUP && right != NO_GROUP).then_some(u64::from(left) << 32 | u64::from(right))
}

fn hash_of_pair(pair: u64) -> u64 {
    FixedState::default().hash_one(pair)
}

/// The table of a hash, by bits of which hash tables make little.
#[inline]
fn table_of(hash: u64, tables: usize) -> usize {
    ((u64::from((hash >> 20) as u32) * tables as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    #[test]
    fn equal_values_have_one_number() {
        let hasher = FixedState::default();
        for (rows, threads) in
            [(0, 4), (1000, 4), (WORTH_THREADS + 11, 1), (WORTH_THREADS + 11, 3), (WORTH_THREADS, 40)]
        {
            // every seventh row has no value
            let value = |row: usize| (!row.is_multiple_of(7)).then_some(row as u64 * row as u64 % 5003);
            let hash = |value: &u64| hasher.hash_one(*value);
            let intern = |table: &mut HashMap<u64, u32>, _: u64, value| {
                let next = table.len() as u32;
                *table.entry(value).or_insert(next)
            };
            let (numbering, numbers) = Numbering::of_rows(rows, threads, value, hash, intern).unwrap();
            let known: BTreeSet<_> = (0..rows).filter_map(value).collect();
            assert_eq!(numbering.count() as usize, known.len());
            assert_eq!(numbering.tables().iter().map(HashMap::len).sum::<usize>(), known.len());
            let find = |value: u64| numbering.find(hash(&value), |table| table.get(&value).copied());
            assert!(
                numbers.len() == rows
                    && (0..rows).all(|row| value(row).map_or(Some(NO_GROUP), find) == Some(numbers[row]))
            );
            assert_eq!(find(5003), None);
            let all: BTreeSet<_> = known.iter().filter_map(|&value| find(value)).collect();
            assert!(all.into_iter().eq(0..numbering.count()));
        }
    }

    #[test]
    fn equal_pairs_have_one_number() {
        let left: Vec<u32> =
            (0..WORTH_THREADS as u32).map(|row| if row % 11 == 0 { NO_GROUP } else { row % 300 }).collect();
        let right: Vec<u32> =
            (0..WORTH_THREADS as u32).map(|row| if row % 13 == 0 { NO_GROUP } else { row % 70 }).collect();
        for threads in [1, 5] {
            let (pairs, numbers) = PairNumbering::of_rows(&left, &right, threads).unwrap();
            let known: BTreeSet<_> =
                left.iter().zip(&right).filter(|(l, r)| **l != NO_GROUP && **r != NO_GROUP).collect();
            assert_eq!(pairs.count() as usize, known.len());
            let all: BTreeSet<_> = known.iter().map(|&(&l, &r)| pairs.find(l, r)).collect();
            assert!(all.into_iter().eq(0..pairs.count()));
            assert!(left.iter().zip(&right).zip(numbers).all(|((&l, &r), number)| pairs.find(l, r) == number));
            assert_eq!(pairs.find(300, 0), NO_GROUP);
        }
    }
}
