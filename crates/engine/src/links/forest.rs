//! Union-find that many threads write at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::link::NO_MEMBER;
use crate::cache::fetch;

/// Bits of the numbers that a segment holds.
const SEGMENT_BITS: u32 = 16;

/// Links ahead of which parents are brought into the cache.
const AHEAD: usize = 16;

#[inline]
fn place_in_segment(number: u32) -> usize {
    number as usize & ((1 << SEGMENT_BITS) - 1)
}

/// What lies above a number that is not present.
const ABSENT: u32 = NO_MEMBER;

/// Trees over numbers. Each number is at first a tree of its own, and absent until it is linked.
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
        self.segments[(number >> SEGMENT_BITS) as usize]
            .get_or_init(|| (0..1 << SEGMENT_BITS).map(|_| AtomicU32::new(ABSENT)).collect())
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
            if parent == number || parent == ABSENT {
                return number;
            }
            let above = self.parent(parent).load(Ordering::Relaxed);
            if above == parent || above == ABSENT {
                return parent;
            }
            place.store(above, Ordering::Relaxed);
            number = above;
        }
    }

    /// Whether a number has been linked, or made present.
    #[inline]
    pub fn is_present(&self, number: u32) -> bool {
        let segment = self.segments[(number >> SEGMENT_BITS) as usize].get();
        segment.is_some_and(|segment| segment[place_in_segment(number)].load(Ordering::Relaxed) != ABSENT)
    }

    /// Makes a number present.
    #[inline]
    pub fn add(&self, number: u32) {
        let place = self.parent(number);
        if place.load(Ordering::Relaxed) == ABSENT {
            // it is present where another thread has been faster
            _ = place.compare_exchange(ABSENT, number, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Makes one tree of two.
    #[inline]
    pub fn link(&self, left: u32, right: u32) {
        let (mut left, mut right) = (left, right);
        loop {
            (left, right) = (self.root(left), self.root(right));
            let (low, high) = (left.min(right), left.max(right));
            // what lies above another number is present
            self.add(low);
            if low == high {
                return;
            }
            let place = self.parent(high);
            let known = place.load(Ordering::Relaxed);
            let is_root = known == high || known == ABSENT;
            if is_root && place.compare_exchange(known, low, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Makes one tree of each pair's two. Where one is [`NO_MEMBER`], the other one becomes present.
    pub fn link_all(&self, left: &[u32], right: &[u32]) {
        let both = |at: usize| {
            let (left, right) = (*left.get(at)?, *right.get(at)?);
            (left != NO_MEMBER && right != NO_MEMBER).then_some([left, right])
        };
        for at in 0..left.len() {
            // parents first, and once they are there what lies above them
            both(at + 2 * AHEAD).into_iter().flatten().for_each(|number| self.fetch(number));
            let near = both(at + AHEAD).into_iter().flatten();
            let above = near.map(|number| self.parent(number).load(Ordering::Relaxed));
            above.filter(|&number| number != ABSENT).for_each(|number| self.fetch(number));
            match both(at) {
                Some([left, right]) => self.link(left, right),
                None => [left[at], right[at]].into_iter().filter(|&end| end != NO_MEMBER).for_each(|end| self.add(end)),
            }
        }
    }

    #[inline]
    fn fetch(&self, number: u32) {
        fetch(self.segment(number), place_in_segment(number));
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
