//! The sets of one side, packed row by row for one upload.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::error::Result;

use crate::fault::Fault;
use crate::kernels::SetRows;
use crate::kernels::constants::sets;
use crate::memory::Budget;
use similarity_engine::parallel::{both, in_parallel};
use similarity_engine::sets::ranks::Ranks;
use similarity_engine::sets::tokenise::RowSets;

/// Sets of more tokens than this are listed in ascending order.
const UNORDERED: usize = sets::UNORDERED as usize;

/// Fewer tokens are sent by the thread that sends the other columns.
const WORTH_A_THREAD: u64 = 1 << 18;

/// Bytes of a row beside its tokens.
pub(super) const BYTES_OF_ROW: usize = 3 * size_of::<u32>() + size_of::<u64>();

/// Sets that may match something, in the order of their rows.
#[derive(Debug)]
pub(crate) struct SetColumns {
    parts: Vec<Part>,
    pub(super) rows: usize,
    pub(super) tokens: u64,
    /// Whether there are equality keys.
    has_groups: bool,
    /// Rows that are NULL or blank or have no group.
    pub(super) unmatchable: usize,
}

/// Columns of a range of rows.
#[derive(Debug, Default)]
struct Part {
    /// Row numbers.
    rows: Vec<u32>,
    /// Distinct elements, those included that match nothing.
    sizes: Vec<u32>,
    /// Groups of the rows; empty where there are no equality keys.
    groups: Vec<u32>,
    /// Where the tokens of each row start, counted from the first part's on.
    starts: Vec<u64>,
    /// Ranks.
    tokens: Vec<u32>,
    unmatchable: usize,
}

impl SetColumns {
    /// The sets of all ranges of rows, by their ranks.
    pub(super) fn pack(ranges: Vec<RowSets>, ranks: &[Ranks], groups: Option<&[u32]>) -> Result<Self> {
        let packed = in_parallel(ranges.into_iter().zip(ranks), |(range, ranks)| Ok(part(range, ranks, groups)))?;
        let has_groups = groups.is_some();
        let mut columns = Self { parts: Vec::new(), rows: 0, tokens: 0, has_groups, unmatchable: 0 };
        for mut part in packed {
            part.starts.iter_mut().for_each(|start| *start += columns.tokens);
            columns.rows += part.rows.len();
            columns.tokens += part.tokens.len() as u64;
            columns.unmatchable += part.unmatchable;
            columns.parts.push(part);
        }
        Ok(columns)
    }

    /// A copy on the device.
    pub(super) fn upload(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<SetRows, Fault> {
        let column = |of: fn(&Part) -> &[u32]| budget.upload_parts(stream, self.rows, self.parts.iter().map(of));
        let end = [self.tokens];
        let starts = self.parts.iter().map(|part| part.starts.as_slice()).chain([end.as_slice()]);
        let tokens = self.parts.iter().map(|part| part.tokens.as_slice());
        let tokens = || budget.upload_parts(stream, self.tokens as usize, tokens);
        let others = || {
            let starts = budget.upload_parts(stream, self.rows + 1, starts)?;
            let groups = self.has_groups.then(|| column(|part| &part.groups)).transpose()?;
            Ok::<_, Fault>((starts, column(|part| &part.sizes)?, column(|part| &part.rows)?, groups))
        };
        // each copy is waited for
        let (tokens, others) = match self.tokens < WORTH_A_THREAD {
            true => (tokens(), others()),
            false => both(tokens, others),
        };
        let (starts, sizes, rows, groups) = others?;
        Ok(SetRows { starts, tokens: tokens?, sizes, groups, rows, count: self.rows as u32 })
    }

    /// The row of each set.
    pub(super) fn row_numbers(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().flat_map(|part| part.rows.iter().copied())
    }

    /// The last of the groups.
    pub(super) fn last_group(&self) -> Option<u32> {
        self.parts.iter().flat_map(|part| &part.groups).max().copied()
    }

    /// Tokens of a typical set.
    pub(super) fn mean_size(&self) -> f64 {
        self.tokens as f64 / self.rows.max(1) as f64
    }

    /// The size of the largest set.
    pub(super) fn largest_size(&self) -> u32 {
        self.parts.iter().flat_map(|part| &part.sizes).copied().max().unwrap_or(0)
    }

    /// The size and the ranks of about `wanted` sets, spread over all of them.
    pub(super) fn sample(&self, wanted: usize) -> impl Iterator<Item = (u32, &[u32])> {
        let step = self.rows.div_ceil(wanted).max(1);
        self.parts.iter().flat_map(move |part| (0..part.rows.len()).step_by(step).map(|at| part.set(at)))
    }
}

impl Part {
    /// The size and the ranks of a set.
    fn set(&self, at: usize) -> (u32, &[u32]) {
        let start =
            |at: usize| self.starts.get(at).map_or(self.tokens.len(), |start| (start - self.starts[0]) as usize);
        (self.sizes[at], &self.tokens[start(at)..start(at + 1)])
    }
}

/// Puts ranks in the place of ids.
fn part(mut range: RowSets, ranks: &Ranks, groups: Option<&[u32]>) -> Part {
    let (mut part, mut next, mut written) = (Part::default(), 0, 0);
    let ids = &mut range.ids;
    for (row, end) in range.rows.clone().zip(range.ends) {
        let (size, start) = (end - next, written);
        for at in next..end {
            if let Some(rank) = ranks.get(ids[at]) {
                ids[written] = rank;
                written += 1;
            }
        }
        next = end;
        part.unmatchable += usize::from(size == 0);
        if written == start {
            continue;
        }
        if written - start > UNORDERED {
            ids[start..written].sort_unstable();
        }
        part.rows.push(row as u32);
        part.sizes.push(size as u32);
        part.groups.extend(groups.map(|groups| groups[row]));
        part.starts.push(start as u64);
    }
    range.ids.truncate(written);
    part.tokens = range.ids;
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use similarity_engine::sets::Dictionary;

    #[test]
    fn parts_are_packed_as_one() {
        let range = |rows, ends: &[usize], ids: &[u32]| RowSets {
            rows,
            ends: ends.to_vec(),
            ids: ids.to_vec(),
            frequencies: Vec::new(),
            dictionary: Dictionary::default(),
        };
        let ranges = vec![range(0..3, &[2, 2, 5], &[0, 9, 9, 1, 2]), range(3..5, &[1, 3], &[8, 3, 0])];
        let columns = SetColumns::pack(ranges, &[Ranks::Below(5), Ranks::Below(5)], Some(&[7, 7, 8, 7, 9])).unwrap();
        assert_eq!((columns.rows, columns.tokens, columns.unmatchable), (3, 5, 1));
        let sets: Vec<_> = columns.sample(100).collect();
        assert_eq!(sets, [(2, &[0][..]), (3, &[1, 2]), (2, &[3, 0])]);
        let all = |of: fn(&Part) -> Vec<u64>| columns.parts.iter().flat_map(of).collect::<Vec<_>>();
        assert_eq!(all(|part| part.starts.clone()), [0, 1, 3]);
        assert_eq!(all(|part| part.rows.iter().map(|&row| row.into()).collect()), [0, 2, 4]);
        assert_eq!(all(|part| part.groups.iter().map(|&group| group.into()).collect()), [7, 8, 9]);
    }
}
