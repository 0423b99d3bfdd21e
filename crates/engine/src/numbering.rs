//! Dense numbers for the values of rows, the same ones however many threads give them.
//!
//! Rows are first parted by bits of their hash, so that up to some four million rows the table of a part stays in a
//! cache of its core (radix partitioning: Manegold, Boncz and Kersten, 2002); each part numbers its own values by first
//! occurrence, and the parts follow each other.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

use foldhash::fast::FixedState;

use super::NO_GROUP;
use super::parallel::{each_in_parallel, each_in_turn};

/// Below this many rows a thread costs more than it saves.
const WORTH_THREADS: usize = 1 << 14;

/// Rows of a table, about.
const ROWS_OF_TABLE: usize = 1 << 15;

/// Tables at most.
const MOST_TABLES: usize = 1 << 7;

/// Stands for the table of a row whose value has no number.
const NOWHERE: u8 = u8::MAX;

/// A slot that no value has claimed.
const FREE: u64 = 0;

/// The values of some hashes, by open addressing.
#[derive(Debug)]
struct Table<K> {
    /// The lower half of a hash, and below it a number plus one.
    slots: Vec<u64>,
    /// The lower half of a hash shifted by that is its place.
    shift: u32,
    /// The value of each number.
    keys: Vec<K>,
    /// The number of the whole numbering that the first value has.
    first: u32,
}

impl<K: Copy> Table<K> {
    fn for_rows(rows: usize) -> Self {
        let places = (2 * rows).next_power_of_two().max(2);
        let shift = u32::BITS.saturating_sub(places.trailing_zeros());
        Self { slots: vec![FREE; places], shift, keys: Vec::with_capacity(rows), first: 0 }
    }

    /// Gives back what more values would have needed.
    fn shrink(&mut self) {
        let places = (2 * self.keys.len()).next_power_of_two().max(2);
        if places < self.slots.len() {
            let mut slots = vec![FREE; places];
            self.shift = u32::BITS.saturating_sub(places.trailing_zeros());
            for &slot in self.slots.iter().filter(|slot| **slot != FREE) {
                let mut place = (slot >> u32::BITS >> self.shift) as usize;
                while slots[place] != FREE {
                    place = (place + 1) & (places - 1);
                }
                slots[place] = slot;
            }
            self.slots = slots;
        }
        self.keys.shrink_to_fit();
    }

    /// The number of the value with this hash for which `equal` holds, or the slot that is free for it.
    #[inline]
    fn find(&self, hash: u64, equal: impl Fn(&K) -> bool) -> Result<u32, usize> {
        let (hash, mask) = (hash & u64::from(u32::MAX), self.slots.len() - 1);
        let mut place = (hash >> self.shift) as usize;
        loop {
            let slot = self.slots[place];
            if slot == FREE {
                return Err(place);
            }
            let number = slot as u32 - 1;
            if slot >> u32::BITS == hash && equal(&self.keys[number as usize]) {
                return Ok(number);
            }
            place = (place + 1) & mask;
        }
    }

    /// The number of a value, the next one where it is new.
    #[inline]
    fn intern(&mut self, hash: u64, key: K, equal: impl Fn(&K) -> bool) -> u32 {
        self.find(hash, equal).unwrap_or_else(|place| {
            self.keys.push(key);
            let next = self.keys.len() as u32;
            self.slots[place] = hash << u32::BITS | u64::from(next);
            next - 1
        })
    }
}

/// Values with their numbers.
#[derive(Debug)]
pub struct Numbering<K> {
    tables: Vec<Table<K>>,
    count: u32,
}

impl<K: Copy + Send + Sync> Numbering<K> {
    /// Numbers the values of so many rows, fewer than 2^32, by up to `threads` threads, and returns the number of each
    /// row, [`NO_GROUP`] where it has none.
    ///
    /// `key` is a row's value, none where it is to have no number, and `hash` the hash of one.
    pub fn of_rows(
        rows: usize,
        threads: usize,
        key: impl Fn(usize) -> Option<K> + Sync,
        hash: impl Fn(&K) -> u64 + Sync,
        equal: impl Fn(&K, &K) -> bool + Sync,
    ) -> (Self, Vec<u32>) {
        let tables = (rows / ROWS_OF_TABLE).next_power_of_two().min(MOST_TABLES);
        let mut homes = vec![NOWHERE; rows];
        let share = rows.div_ceil(threads.max(1)).max(WORTH_THREADS);
        let parted = each_in_parallel(homes.chunks_mut(share).enumerate(), |(part, homes)| {
            let capacity = homes.len() / tables * 9 / 8 + 16;
            let mut parted: Vec<Vec<(K, u32, u32)>> = (0..tables).map(|_| Vec::with_capacity(capacity)).collect();
            for (home, row) in homes.iter_mut().zip(part * share..) {
                let Some(key) = key(row) else { continue };
                let hash = hash(&key);
                let table = table_of(hash, tables);
                *home = table as u8;
                parted[table].push((key, hash as u32, row as u32));
            }
            parted
        });
        let numbers: Vec<AtomicU32> = (0..rows).map(|_| AtomicU32::new(NO_GROUP)).collect();
        let mut built = each_in_turn(tables, if rows < WORTH_THREADS { 1 } else { threads }, |at| {
            let rows = || parted.iter().flat_map(|part| &part[at]);
            let mut table = Table::for_rows(parted.iter().map(|part| part[at].len()).sum());
            for &(key, hash, row) in rows() {
                let number = table.intern(hash.into(), key, |known| equal(known, &key));
                numbers[row as usize].store(number, Ordering::Relaxed);
            }
            table.shrink();
            table
        });
        let mut count = 0;
        for table in &mut built {
            table.first = count;
            count += table.keys.len() as u32;
        }
        let mut numbers: Vec<u32> = numbers.into_iter().map(AtomicU32::into_inner).collect();
        each_in_parallel(numbers.chunks_mut(share).zip(homes.chunks(share)), |(numbers, homes)| {
            for (number, &home) in numbers.iter_mut().zip(homes).filter(|(_, home)| **home != NOWHERE) {
                *number += built[usize::from(home)].first;
            }
        });
        (Self { tables: built, count }, numbers)
    }

    /// The number of the value with this hash for which `equal` holds.
    #[inline]
    pub fn find(&self, hash: u64, equal: impl Fn(&K) -> bool) -> Option<u32> {
        let table = &self.tables[table_of(hash, self.tables.len())];
        table.find(hash, equal).ok().map(|number| table.first + number)
    }

    /// How many values have a number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let of_table =
            |table: &Table<K>| table.slots.capacity() * size_of::<u64>() + table.keys.capacity() * size_of::<K>();
        self.tables.iter().map(of_table).sum()
    }
}

/// The table of a hash, by bits that tell nothing of the place in it.
#[inline]
fn table_of(hash: u64, tables: usize) -> usize {
    (hash >> u32::BITS) as usize & (tables - 1)
}

/// Dense numbers for pairs of numbers.
#[derive(Debug)]
struct PairNumbering(Numbering<(u32, u32)>);

impl PairNumbering {
    /// Numbers the pairs that two columns have in a row, and returns the number of each row; where one of them is
    /// [`NO_GROUP`], so is that.
    fn of_rows(left: &[u32], right: &[u32], threads: usize) -> (Self, Vec<u32>) {
        let key = |row: usize| there(left[row], right[row]);
        let (numbering, numbers) = Numbering::of_rows(left.len(), threads, key, hash_of_pair, |a, b| a == b);
        (Self(numbering), numbers)
    }

    fn find(&self, left: u32, right: u32) -> u32 {
        let find = |pair| self.0.find(hash_of_pair(&pair), |known| *known == pair);
        there(left, right).and_then(find).unwrap_or(NO_GROUP)
    }
}

/// A pair, where both are there.
#[inline]
fn there(left: u32, right: u32) -> Option<(u32, u32)> {
    (left != NO_GROUP && right != NO_GROUP).then_some((left, right))
}

#[inline]
fn hash_of_pair(&(left, right): &(u32, u32)) -> u64 {
    FixedState::default().hash_one(u64::from(left) << 32 | u64::from(right))
}

/// Dense numbers for tuples of numbers, column by column: pairs of the number of what stands before and of the next
/// one.
#[derive(Debug, Default)]
pub struct TupleNumbering {
    /// One for each column but the first.
    pairs: Vec<PairNumbering>,
}

impl TupleNumbering {
    /// Adds a column: from the numbers of the tuples so far, of each row, to those of the tuples with `next`, by up to
    /// `threads` threads. A row in which one is [`NO_GROUP`] has none.
    pub fn extend(&mut self, so_far: &[u32], next: &[u32], threads: usize) -> Vec<u32> {
        let (pairs, numbers) = PairNumbering::of_rows(so_far, next, threads);
        self.pairs.push(pairs);
        numbers
    }

    /// The numbers of tuples of a first column, which become these, and the columns after it; [`NO_GROUP`] for unknown
    /// ones.
    pub fn look_up<C: AsRef<[u32]>>(&self, numbers: &mut [u32], after: impl Iterator<Item = C>) {
        for (pairs, next) in self.pairs.iter().zip(after) {
            numbers.iter_mut().zip(next.as_ref()).for_each(|(number, &next)| *number = pairs.find(*number, next));
        }
    }

    /// How many tuples have a number, where they have more than one column.
    pub fn count(&self) -> Option<u32> {
        self.pairs.last().map(|pairs| pairs.0.count())
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.pairs.iter().map(|pairs| pairs.0.memory()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn equal_values_have_one_number() {
        let hasher = FixedState::default();
        // hashes that tell little apart, so that many values stand in each other's places
        let hashes: [&(dyn Fn(&u64) -> u64 + Sync); 3] =
            [&|value| hasher.hash_one(value), &|value| ((value % 97) << 57) | (value % 3), &|_| 0];
        for rows in [0, 1, 1000, 3 * ROWS_OF_TABLE + 11] {
            for (hash, values) in hashes.into_iter().zip([5003, 301, 13]) {
                // every seventh row has no value
                let value = |row: usize| (!row.is_multiple_of(7)).then_some(row as u64 * row as u64 % values);
                let mut by_threads = [1, 3].map(|threads| {
                    let (numbering, numbers) = Numbering::of_rows(rows, threads, value, hash, |a, b| a == b);
                    let known: BTreeMap<u64, u32> =
                        (0..rows).filter_map(|row| value(row).map(|value| (value, numbers[row]))).collect();
                    assert!((0..rows).all(|row| value(row).map_or(NO_GROUP, |value| known[&value]) == numbers[row]));
                    assert_eq!(numbering.count() as usize, known.len());
                    let least = known.len() * (size_of::<u64>() + size_of::<u64>()) + numbering.tables.len() * 16;
                    assert!(numbering.memory() <= 4 * least, "{} bytes", numbering.memory());
                    let mut all: Vec<u32> = known.values().copied().collect();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..numbering.count()));
                    let find = |asked: u64| numbering.find(hash(&asked), |known| *known == asked);
                    assert!(known.iter().all(|(&value, &number)| find(value) == Some(number)));
                    assert_eq!(find(values), None);
                    numbers
                });
                assert_eq!(std::mem::take(&mut by_threads[0]), by_threads[1]);
            }
        }
    }

    #[test]
    fn equal_tuples_have_one_number() {
        let column = |values: u32, none: u32| {
            let value = |row: u32| if row.is_multiple_of(none) { NO_GROUP } else { row % values };
            (0..2 * ROWS_OF_TABLE as u32).map(value).collect::<Vec<_>>()
        };
        let columns = [column(300, 11), column(70, 13), column(4, 1000)];
        let mut by_threads = Vec::new();
        for threads in [1, 5] {
            let mut tuples = TupleNumbering::default();
            assert_eq!(tuples.count(), None);
            let numbers = tuples.extend(&columns[0], &columns[1], threads);
            let numbers = tuples.extend(&numbers, &columns[2], threads);
            let tuple = |row: usize| columns.each_ref().map(|column| column[row]);
            let known: BTreeMap<_, _> =
                numbers.iter().enumerate().filter(|(_, n)| **n != NO_GROUP).map(|(row, &n)| (tuple(row), n)).collect();
            assert_eq!(tuples.count(), Some(known.len() as u32));
            for (row, number) in numbers.iter().enumerate() {
                let expected = if tuple(row).contains(&NO_GROUP) { NO_GROUP } else { known[&tuple(row)] };
                assert_eq!(*number, expected);
            }
            let mut looked_up = columns[0].clone();
            tuples.look_up(&mut looked_up, columns[1..].iter());
            assert_eq!(looked_up, numbers);
            let mut unknown = vec![300, 0, NO_GROUP];
            tuples.look_up(&mut unknown, [[0, 70, 0], [0; 3]].iter());
            assert_eq!(unknown, [NO_GROUP; 3]);
            by_threads.push(numbers);
        }
        assert_eq!(by_threads[0], by_threads[1]);
    }
}
