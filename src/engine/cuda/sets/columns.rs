//! The sets of one side, packed row by row for one upload.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use datafusion::common::Result;

use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::RowColumns;
use crate::engine::cuda::memory::Budget;
use crate::engine::parallel::in_parallel;
use crate::engine::sets::ranks::Ranks;
use crate::engine::sets::tokenise::RowSets;

/// Sets of more tokens than this are listed in ascending order, as `UNORDERED` in `kernels/sets.cu` says.
const UNORDERED: usize = 128;

/// Sets that may match something, in the order of their rows.
#[derive(Debug, Default)]
pub(super) struct SetColumns {
    /// Row numbers.
    pub(super) rows: Vec<u32>,
    /// Distinct elements, those included that match nothing.
    pub(super) sizes: Vec<u32>,
    /// Empty where there are no equality keys.
    pub(super) groups: Vec<u32>,
    /// Where the tokens of each row start; one more than rows.
    pub(super) starts: Vec<u64>,
    /// Ranks.
    pub(super) tokens: Vec<u32>,
    /// Rows that are NULL or blank or have no group.
    pub(super) unmatchable: usize,
}

impl SetColumns {
    /// The sets of all ranges of rows, by their ranks.
    pub(super) fn pack(ranges: &[RowSets], ranks: &[Ranks], groups: Option<&[u32]>) -> Result<Self> {
        let parts = in_parallel(ranges.iter().zip(ranks), |(range, ranks)| Ok(part(range, ranks, groups)))?;
        let mut parts = parts.into_iter();
        let mut whole = parts.next().unwrap_or_default();
        for part in parts {
            let before = whole.tokens.len() as u64;
            whole.starts.pop();
            whole.starts.extend(part.starts.iter().map(|start| before + start));
            whole.rows.extend(part.rows);
            whole.sizes.extend(part.sizes);
            whole.groups.extend(part.groups);
            whole.tokens.extend(part.tokens);
            whole.unmatchable += part.unmatchable;
        }
        if whole.starts.is_empty() {
            whole.starts.push(0);
        }
        Ok(whole)
    }

    /// A copy on the device.
    pub(super) fn upload(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<RowColumns, Fault> {
        let groups = (!self.groups.is_empty()).then(|| budget.upload(stream, &self.groups)).transpose()?;
        Ok(RowColumns {
            starts: budget.upload(stream, &self.starts)?,
            tokens: budget.upload(stream, &self.tokens)?,
            sizes: budget.upload(stream, &self.sizes)?,
            groups,
            rows: budget.upload(stream, &self.rows)?,
            count: self.rows.len() as u32,
        })
    }

    /// Tokens of a typical set.
    pub(super) fn mean_size(&self) -> f64 {
        self.tokens.len() as f64 / self.rows.len().max(1) as f64
    }
}

fn part(range: &RowSets, ranks: &Ranks, groups: Option<&[u32]>) -> SetColumns {
    let mut part = SetColumns { starts: vec![0], ..SetColumns::default() };
    part.tokens.reserve(range.ids.len());
    for (at, row) in range.rows.clone().enumerate() {
        let ids = range.ids(at);
        let start = part.tokens.len();
        part.tokens.extend(ids.iter().filter_map(|&id| ranks.get(id)));
        part.unmatchable += usize::from(ids.is_empty());
        if part.tokens.len() == start {
            continue;
        }
        if part.tokens.len() - start > UNORDERED {
            part.tokens[start..].sort_unstable();
        }
        part.rows.push(row as u32);
        part.sizes.push(ids.len() as u32);
        part.groups.extend(groups.map(|groups| groups[row]));
        part.starts.push(part.tokens.len() as u64);
    }
    part
}
