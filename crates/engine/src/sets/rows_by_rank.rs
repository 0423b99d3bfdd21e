//! The rows of a build side by their ranks: neighbours of sets with which they share no token.

use arrow::array::Array;

use crate::nearest::{Best, Neighbour, float_key};
use crate::stored::stored;
use crate::{KeyColumn, NO_GROUP};

/// The rows that have a score, group by group, by their ranks.
#[derive(Debug)]
pub struct RowsByRank {
    rows: Vec<u32>,
    /// Where each group starts, and the end of the last one.
    starts: Vec<usize>,
    /// Ranks by row.
    ranks: Vec<u32>,
}

stored!(RowsByRank { rows, starts, ranks });

impl RowsByRank {
    /// The rows of `keys`, each of which has a rank.
    pub fn of(keys: &KeyColumn, ranks: Vec<u32>) -> Self {
        let mut rows = scored_rows(keys);
        rows.sort_unstable_by_key(|&row| (group_of(keys, row), ranks[row as usize], row));
        let mut starts = vec![0; rows.last().map_or(0, |&row| group_of(keys, row) as usize + 1) + 1];
        rows.iter().for_each(|&row| starts[group_of(keys, row) as usize + 1] += 1);
        (1..starts.len()).for_each(|group| starts[group] += starts[group - 1]);
        Self { rows, starts, ranks }
    }

    /// Upper bound of the bytes that so many rows take, beside their ranks.
    pub fn size(rows: usize) -> usize {
        rows * (size_of::<u32>() + size_of::<usize>())
    }

    /// The rank of a row.
    #[inline]
    pub fn rank(&self, row: u32) -> u32 {
        self.ranks[row as usize]
    }

    /// Rows that have no score: without a set or a group.
    pub fn unmatchable(&self) -> usize {
        self.ranks.len() - self.rows.len()
    }

    fn rows(&self, group: u32) -> &[u32] {
        match self.starts.get(group as usize..) {
            Some([start, end, ..]) => &self.rows[*start..*end],
            _ => &[],
        }
    }

    /// Offers rows of a group that share no token with a probe row whose neighbours that do are all kept. They score 0.
    pub fn offer_disjoint(&self, group: u32, best: &mut Best<i64>) {
        if best.worst().is_some() {
            return;
        }
        let mut sharing: Vec<u32> = best.rows().collect();
        sharing.sort_unstable();
        for &row in self.rows(group).iter().filter(|row| sharing.binary_search(row).is_err()) {
            let neighbour = Neighbour { score: !float_key(0.0), rank: self.rank(row), row };
            if !best.takes(&neighbour) {
                return;
            }
            best.offer(neighbour);
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.rows.capacity() + self.ranks.capacity()) * size_of::<u32>() + self.starts.capacity() * size_of::<usize>()
    }
}

/// The group of a row; 0 where there are no equality keys.
pub fn group_of(keys: &KeyColumn, row: u32) -> u32 {
    keys.groups.as_ref().map_or(0, |groups| groups[row as usize])
}

/// The rows that are not NULL and have a group.
pub fn scored_rows(keys: &KeyColumn) -> Vec<u32> {
    let nulls = keys.values.logical_nulls();
    let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let grouped = |row: usize| keys.groups.as_ref().is_none_or(|groups| groups[row] != NO_GROUP);
    (0..keys.values.len()).filter(|&row| valid(row) && grouped(row)).map(|row| row as u32).collect()
}
