//! What may be neighbours of the points of a leaf.

use super::super::lanes::LANES;
use super::super::lanes::Lanes;
use super::super::lanes::Real;

/// Positions of the build side, for each lane.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Positions: as many places for each lane as there is room for, and sixteen more that may change at any time.
    positions: Vec<u32>,
    room: usize,
    counts: [usize; LANES],
}

impl Collected {
    /// Room for so many positions a lane, where there is none yet.
    pub(super) fn make_room(&mut self, positions: usize) {
        self.room = positions + LANES;
        if self.positions.len() < self.room * LANES {
            self.positions.resize(self.room * LANES, 0);
        }
        self.counts = [0; LANES];
    }

    /// Adds to a lane `first` and the place of each bit.
    #[inline(always)]
    pub(super) fn add<R: Real, L: Lanes<R>>(&mut self, lane: usize, bits: u16, first: u32) {
        let at = lane * self.room + self.counts[lane];
        self.counts[lane] += L::places(bits, first, &mut self.positions[at..]);
    }

    pub(super) fn push(&mut self, lane: usize, position: u32) {
        self.positions[lane * self.room + self.counts[lane]] = position;
        self.counts[lane] += 1;
    }

    /// What was added to a lane since room was made.
    pub(super) fn of(&self, lane: usize) -> &[u32] {
        &self.positions[lane * self.room..][..self.counts[lane]]
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::lanes::Plain;
    use super::*;

    #[test]
    fn lanes_do_not_meet() {
        let mut collected = Collected::default();
        for room in [32, 16, 48] {
            collected.make_room(room);
            for first in (0..room as u32).step_by(LANES) {
                for lane in 0..LANES {
                    let all = if lane % 2 == 0 { u16::MAX } else { 1 << lane };
                    collected.add::<f32, Plain<f32>>(lane, all, first);
                }
            }
            for lane in 0..LANES {
                let every: Vec<u32> = (0..room as u32).collect();
                let one: Vec<u32> = (0..room as u32).filter(|n| n % 16 == lane as u32).collect();
                assert_eq!(collected.of(lane), if lane % 2 == 0 { every } else { one });
            }
        }
        collected.make_room(3);
        collected.push(5, 70);
        assert_eq!((collected.of(5), collected.of(6)), (&[70][..], &[][..]));
    }
}
