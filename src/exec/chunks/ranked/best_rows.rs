//! The best rows so far of each probe row, in the order of the probe rows.

use std::collections::VecDeque;
use std::ops::Range;

use similarity_engine::nearest::{Neighbour, Wanted};

/// A row of the build side, by its number among all.
pub(super) type Best = Neighbour<i128>;

/// Neighbours that one part offers to a probe row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    /// The probe row, in its block.
    pub row: u32,
    pub best: Best,
}

/// The best rows of some probe rows that follow each other.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Where the rows of each probe row end.
    ends: Vec<usize>,
    best: Vec<Best>,
}

impl Block {
    /// How many probe rows it has.
    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    /// The place of the first pair of a probe row among all pairs.
    pub(super) fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] }
    }

    /// The best rows of a probe row, best first.
    pub(super) fn of(&self, row: usize) -> &[Best] {
        &self.best[self.start(row)..self.ends[row]]
    }

    /// How many pairs there are.
    pub(super) fn pairs(&self) -> usize {
        self.best.len()
    }

    /// The numbers of the best rows in some pairs, in order, each once.
    pub(super) fn numbers(&self, pairs: Range<usize>) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.best[pairs].iter().map(|best| best.row).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn memory(&self) -> usize {
        self.ends.capacity() * size_of::<usize>() + self.best.capacity() * size_of::<Best>()
    }
}

/// The best rows of many probe rows, in blocks: those that have been read are dropped soon.
#[derive(Debug, Default)]
pub(super) struct BestRows {
    blocks: VecDeque<Block>,
    /// The next probe row of the first block.
    next: usize,
    memory: usize,
}

impl BestRows {
    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Adds the block of the next probe rows.
    pub(super) fn push(&mut self, block: Block) {
        self.memory += block.memory();
        self.blocks.push_back(block);
    }

    /// Moves the best rows of the next probe row to the end of `out`: none, where nothing has been offered yet.
    fn take(&mut self, out: &mut Vec<Best>) {
        let Some(block) = self.blocks.front() else { return };
        out.extend_from_slice(block.of(self.next));
        self.next += 1;
        if self.next == block.rows() {
            self.memory -= block.memory();
            self.blocks.pop_front();
            self.next = 0;
        }
    }

    /// The block of the next `rows` probe rows.
    pub(super) fn take_block(&mut self, rows: usize) -> Block {
        let mut block = Block { ends: Vec::with_capacity(rows), best: Vec::new() };
        for _ in 0..rows {
            self.take(&mut block.best);
            block.ends.push(block.best.len());
        }
        block
    }

    /// The block of the next `rows` probe rows, of what was kept and what is offered now the best that are wanted.
    pub(super) fn merge(&mut self, rows: usize, offers: &mut [Offer], wanted: Wanted) -> Block {
        offers.sort_unstable_by_key(|offer| offer.row);
        let mut block = Block { ends: Vec::with_capacity(rows), best: Vec::new() };
        let mut offers = offers.iter().peekable();
        for row in 0..rows as u32 {
            let start = block.best.len();
            self.take(&mut block.best);
            while let Some(offer) = offers.next_if(|offer| offer.row == row) {
                block.best.push(offer.best);
            }
            block.best[start..].sort_unstable();
            let end = start + wanted.of(&block.best[start..]);
            block.best.truncate(end);
            block.ends.push(end);
        }
        block.best.shrink_to_fit();
        block
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_best_of_several_parts_are_those_of_all() {
        let mut rng = StdRng::seed_from_u64(9);
        for case in 0..200 {
            let wanted = Wanted { rows: rng.random_range(1..5), ties: case % 2 == 0 };
            let rows: usize = rng.random_range(1..9);
            let mut all: Vec<Vec<Best>> = vec![Vec::new(); rows];
            let mut kept = BestRows::default();
            for part in 0..4 {
                let mut merged = BestRows::default();
                let mut first = 0;
                while first < rows {
                    let some = rng.random_range(1..=rows - first);
                    let offer = |rng: &mut StdRng, number: u32| {
                        let row = rng.random_range(0..some as u32);
                        let (score, rank) = (rng.random_range(0..3), rng.random_range(0..2));
                        Offer { row, best: Best { score, rank, row: part * 100 + number } }
                    };
                    let mut offers: Vec<Offer> = (0..rng.random_range(0..12)).map(|n| offer(&mut rng, n)).collect();
                    offers.iter().for_each(|offer| all[first + offer.row as usize].push(offer.best));
                    merged.push(kept.merge(some, &mut offers, wanted));
                    first += some;
                }
                assert_eq!((kept.blocks.len(), kept.memory()), (0, 0), "what was read is gone");
                kept = merged;
            }
            let (mut block, mut number) = (kept.take_block(rows / 2), 0);
            for (row, mut expected) in all.into_iter().enumerate() {
                if row == rows / 2 {
                    (block, number) = (kept.take_block(rows - row), 0);
                }
                expected.sort_unstable();
                expected.truncate(wanted.of(&expected));
                assert_eq!(block.of(number), expected);
                number += 1;
            }
            let mut numbers: Vec<u32> = (0..block.rows()).flat_map(|row| block.of(row)).map(|best| best.row).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(block.numbers(0..block.pairs()), numbers);
        }
    }
}
