//! Union-find that many threads write at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cache::fetch;

/// Bits of the numbers that a segment holds.
const SEGMENT_BITS: u32 = 16;

/// Links ahead of which parents are brought into the cache.
const AHEAD: usize = 16;

#[inline]
fn place_in_segment(number: u32) -> usize {
    number as usize & ((1 << SEGMENT_BITS) - 1)
}

/// Trees over numbers, each number at first a tree of its own.
///
/// A link hangs the root with the larger number below the one with the smaller, and every walk to a root halves the
/// path behind it. Threads need no lock: a root changes by compare-and-swap alone, and is never a root again. What lies
/// above another number may be overwritten by what lay above it before, which is still above it.
/// Source: Anderson and Woll, *Wait-free parallel algorithms for the union-find problem*, 1991.
#[derive(Debug)]
pub struct Forest {
    segments: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

impl Default for Forest {
    fn default() -> Self {
        Self { segments: (0..1 << (u32::BITS - SEGMENT_BITS)).map(|_| OnceLock::new()).collect() }
    }
}

impl Forest {
    #[inline]
    fn segment(&self, number: u32) -> &[AtomicU32] {
        self.segments[(number >> SEGMENT_BITS) as usize].get_or_init(|| {
            let first = number & !((1 << SEGMENT_BITS) - 1);
            (0..1 << SEGMENT_BITS).map(|at| AtomicU32::new(first + at)).collect()
        })
    }

    #[inline]
    fn parent(&self, number: u32) -> &AtomicU32 {
        &self.segment(number)[place_in_segment(number)]
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
            place.store(above, Ordering::Relaxed);
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

    /// Makes one tree of each pair's two, where there is a pair.
    pub fn link_all(&self, pairs: &[Option<(u32, u32)>]) {
        for (at, pair) in pairs.iter().enumerate() {
            if let Some(Some((left, right))) = pairs.get(at + AHEAD) {
                fetch(self.segment(*left), place_in_segment(*left));
                fetch(self.segment(*right), place_in_segment(*right));
            }
            if let Some((left, right)) = *pair {
                self.link(left, right);
            }
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        size_of_val(&*self.segments) + segments.map(|parents| size_of_val(&**parents)).sum::<usize>()
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
        let held = forest.memory() - size_of_val(&*forest.segments);
        assert_eq!(held, 4 * (1 << SEGMENT_BITS) * size_of::<u32>(), "segments without a number are not there");
    }
}
