//! What may be a neighbour of one point, until it is known to be too far.

use super::super::lanes::Real;

/// The least number of sums that are kept before those too far are sought.
const FEWEST: usize = 16;

/// Sums and positions of what may be a neighbour of one point.
#[derive(Debug)]
pub(super) struct Kept<R> {
    all: Vec<(R, u32)>,
    /// How many are kept before it is looked which of them are too far.
    full: usize,
    /// A sum that no neighbour exceeds but for rounding.
    worst: R,
}

impl<R: Real> Kept<R> {
    /// Nothing yet, where so many neighbours are wanted.
    pub(super) fn new(wanted: usize) -> Self {
        Self { all: Vec::new(), full: wanted, worst: R::INFINITY }
    }

    /// Forgets all and takes what may be among the `wanted` nearest from now on.
    pub(super) fn restart(&mut self, wanted: usize) {
        self.all.clear();
        (self.full, self.worst) = (wanted, R::INFINITY);
    }

    /// Keeps a sum, and says whether it is time to look which are too far.
    #[inline(always)]
    pub(super) fn push(&mut self, sum: R, position: u32) -> bool {
        self.all.push((sum, position));
        self.all.len() >= self.full
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A sum that no neighbour exceeds but for rounding; infinite until as many as are wanted were kept.
    pub(super) fn worst(&self) -> R {
        self.worst
    }

    /// Finds the last of the sums `wanted`, where there are as many.
    pub(super) fn find_worst(&mut self, wanted: usize) -> R {
        if self.all.len() >= wanted {
            let by_sum = |a: &(R, u32), b: &(R, u32)| a.0.get().total_cmp(&b.0.get());
            self.worst = self.all.select_nth_unstable_by(wanted - 1, by_sum).1.0;
        }
        self.worst
    }

    /// Forgets what exceeds `limit`.
    pub(super) fn forget_beyond(&mut self, limit: R) {
        self.all.retain(|(sum, _)| !sum.exceeds(limit));
        // twice as many, so that ties are not looked through again and again
        self.full = (2 * self.all.len()).max(FEWEST);
    }

    /// Takes the positions of what does not exceed `limit`.
    pub(super) fn drain_within(&mut self, limit: R) -> impl Iterator<Item = u32> {
        self.all.drain(..).filter(move |(sum, _)| !sum.exceeds(limit)).map(|(_, position)| position)
    }
}
