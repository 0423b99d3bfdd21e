//! Union-find that many threads write at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of the numbers that the first segment holds.
const FIRST_BITS: u32 = 16;

/// Segments at most: the first one holds 2^16 numbers, the others double what is there.
const SEGMENTS: usize = (u32::BITS - FIRST_BITS + 1) as usize;

/// Trees over numbers, each number at first a tree of its own.
///
/// A link hangs the root with the larger number below the one with the smaller, and every walk to a root halves the
/// path behind it. Threads need no lock: a root changes by compare-and-swap alone, and is never a root again.
/// Source: Anderson and Woll, *Wait-free parallel algorithms for the union-find problem*, 1991.
#[derive(Debug)]
pub struct Forest {
    segments: [OnceLock<Box<[AtomicU32]>>; SEGMENTS],
}

impl Default for Forest {
    fn default() -> Self {
        Self { segments: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl Forest {
    #[inline]
    fn parent(&self, number: u32) -> &AtomicU32 {
        let segment = (u32::BITS - (number >> FIRST_BITS).leading_zeros()) as usize;
        let first = if segment == 0 { 0 } else { 1u32 << (FIRST_BITS + segment as u32 - 1) };
        let parents = self.segments[segment].get_or_init(|| {
            let length = first.max(1 << FIRST_BITS);
            (0..length).map(|at| AtomicU32::new(first + at)).collect()
        });
        &parents[(number - first) as usize]
    }

    /// The root of a number's tree.
    #[inline]
    pub fn root(&self, mut number: u32) -> u32 {
        loop {
            let place = self.parent(number);
            let parent = place.load(Ordering::Relaxed);
            if parent == number {
                return number;
            }
            let above = self.parent(parent).load(Ordering::Relaxed);
            if above == parent {
                return parent;
            }
            // whoever loses the race finds a parent that is at least as near to the root
            let _ = place.compare_exchange_weak(parent, above, Ordering::Relaxed, Ordering::Relaxed);
            number = above;
        }
    }

    /// Makes one tree of two.
    #[inline]
    pub fn link(&self, left: u32, right: u32) {
        let (mut left, mut right) = (left, right);
        loop {
            (left, right) = (self.root(left), self.root(right));
            if left == right {
                return;
            }
            let (low, high) = (left.min(right), left.max(right));
            let hung = self.parent(high).compare_exchange(high, low, Ordering::Relaxed, Ordering::Relaxed);
            if hung.is_ok() {
                return;
            }
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.segments.iter().filter_map(OnceLock::get).map(|parents| size_of_val(&**parents)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_meet_over_all_segments() {
        let forest = Forest::default();
        let numbers = [0, 1, (1 << 16) - 1, 1 << 16, (1 << 17) - 1, 1 << 17, (1 << 20) + 7];
        assert!(numbers.iter().all(|&number| forest.root(number) == number));
        numbers.windows(2).for_each(|pair| forest.link(pair[1], pair[0]));
        assert!(numbers.iter().all(|&number| forest.root(number) == 0));
        assert_eq!(forest.root(2), 2);
        let held = (1 << 16) + (1 << 16) + (1 << 17) + (1 << 20);
        assert_eq!(forest.memory(), held * size_of::<u32>(), "segments without a number are not there");
    }
}
