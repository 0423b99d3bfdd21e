//! Numbers with their ids, in a table whose places can be fetched ahead.
//!
//! A place follows from the hash alone, and a number lies there or in one of the next places. So the memory of many
//! numbers can be asked for before the first of them is looked up.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::cache::fetch;
use crate::stored::fixed;

/// A token that is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// The number.
    pub number: u64,
    /// The id that it has.
    pub id: u32,
}

fixed!(Number { number: u64, id: u32 });

/// A place without a number; no id is that large.
pub(super) const FREE: Number = Number { number: 0, id: u32::MAX };

/// The fewest places of a table that is not empty.
const FEWEST_PLACES: usize = 8;

/// The hash that says where a number lies.
#[inline]
pub(super) fn hash_of_number(number: u64) -> u64 {
    FixedState::default().hash_one(number)
}

/// The numbers of a shard.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// A power of two of places, a third of them free at least; none where there are no numbers.
    places: Vec<Number>,
    len: usize,
}

impl Numbers {
    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * size_of::<Number>()
    }

    /// Has the place of a hash brought into the cache.
    #[inline]
    pub(super) fn fetch(&self, hash: u64) {
        fetch(&self.places, self.place_of(hash));
    }

    /// The id of a number of this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, number: u64) -> Option<u32> {
        let mut place = self.place_of(hash);
        loop {
            let known = self.places.get(place)?;
            if known.id == FREE.id {
                return None;
            }
            if known.number == number {
                return Some(known.id);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// Adds a number of this hash that is not there.
    pub(super) fn insert(&mut self, hash: u64, new: Number) {
        debug_assert!(new.id != FREE.id);
        self.reserve(1);
        let place = self.free_place(hash);
        self.places[place] = new;
        self.len += 1;
    }

    /// Makes room for so many more numbers.
    pub(super) fn reserve(&mut self, more: usize) {
        let len = self.len + more;
        if 3 * len <= 2 * self.places.len() {
            return;
        }
        let places = (3 * len).div_ceil(2).next_power_of_two().max(FEWEST_PLACES);
        let before = std::mem::replace(&mut self.places, vec![FREE; places]);
        for known in before.into_iter().filter(|known| known.id != FREE.id) {
            let place = self.free_place(hash_of_number(known.number));
            self.places[place] = known;
        }
    }

    /// All numbers, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Number> {
        self.places.iter().filter(|known| known.id != FREE.id)
    }

    /// The ids of all numbers, in the order of [`iter`](Self::iter).
    pub(super) fn ids_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.places.iter_mut().map(|known| &mut known.id).filter(|id| **id != FREE.id)
    }

    /// Where the search for a hash begins.
    #[inline]
    fn place_of(&self, hash: u64) -> usize {
        hash as usize & self.places.len().wrapping_sub(1)
    }

    /// The first free place for a hash.
    fn free_place(&self, hash: u64) -> usize {
        let mut place = self.place_of(hash);
        while self.places[place].id != FREE.id {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn numbers_are_found_and_no_others() {
        let mut rng = StdRng::seed_from_u64(7);
        for count in [0usize, 1, 5, 6, 7, 1000, 30_000] {
            let mut numbers = Numbers::default();
            assert_eq!(numbers.find(hash_of_number(0), 0), None);
            let distinct: std::collections::BTreeSet<u64> =
                (0..count).map(|n| if n % 3 == 0 { n as u64 } else { rng.random() }).collect();
            for (id, &number) in (0..).zip(&distinct) {
                numbers.fetch(hash_of_number(number));
                assert_eq!(numbers.find(hash_of_number(number), number), None);
                numbers.insert(hash_of_number(number), Number { number, id });
            }
            assert_eq!(numbers.len(), distinct.len());
            assert!(numbers.memory() <= 48 * count.max(3), "{count}: {}", numbers.memory());
            for (id, &number) in (0..).zip(&distinct) {
                assert_eq!(numbers.find(hash_of_number(number), number), Some(id));
                let other = number.wrapping_add(1 << 40);
                assert_eq!(numbers.find(hash_of_number(other), other).is_some(), distinct.contains(&other));
            }
            let all: std::collections::BTreeSet<u64> = numbers.iter().map(|known| known.number).collect();
            assert_eq!(all, distinct);
            let ids: Vec<u32> = numbers.iter().map(|known| known.id).collect();
            assert!(numbers.ids_mut().map(|id| *id).eq(ids));
        }
    }

    /// All begin at one place, the last one of the table.
    #[test]
    fn numbers_of_one_hash_follow_each_other_around_the_end() {
        let mut numbers = Numbers::default();
        for id in 0..5 {
            numbers.insert(u64::MAX, Number { number: u64::from(id), id });
        }
        assert_eq!(numbers.places.len(), 8);
        assert!((0..5).all(|id| numbers.find(u64::MAX, u64::from(id)) == Some(id)));
        assert_eq!(numbers.find(u64::MAX, 5), None);
    }
}
