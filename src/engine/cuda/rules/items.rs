//! Probe rows with their stretches of build rows, cut by pairs.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::{ItemsOnDevice, Task};
use crate::engine::cuda::memory::{Budget, Buffer};
use crate::engine::cuda::steps::Cut;
use crate::engine::cuda::tasks::BLOCK;

/// Pairs of a task.
pub(super) const PAIRS_OF_TASK: u32 = 1 << 14;

/// In a self-join, the places that each place is paired with: those behind it up to an end.
#[derive(Debug, Clone, Copy)]
pub enum Behind<'a> {
    /// The end of its group; where groups start, and where the last one ends.
    InGroup(&'a [u32]),
    /// An end of its own.
    UpTo(&'a [u32]),
}

impl Behind<'_> {
    /// How many each place is paired with.
    fn lengths(self) -> Vec<u32> {
        match self {
            Self::InGroup(starts) => {
                let mut lengths = Vec::with_capacity(starts.last().map_or(0, |&end| end as usize));
                starts.windows(2).for_each(|group| lengths.extend((0..group[1] - group[0]).rev()));
                lengths
            }
            Self::UpTo(ends) => (1..).zip(ends).map(|(behind, &end)| end.saturating_sub(behind)).collect(),
        }
    }
}

/// One a probe row, as the cursor goes.
#[derive(Debug)]
pub struct Items {
    /// How many pairs the items of a block have up to and with this one.
    behind: Vec<u32>,
    /// How many pairs there are before each block, and in all.
    starts: Vec<u64>,
    on_device: Buffer<u32>,
    /// None in a self-join, where an item is a place and its stretch begins right behind it.
    probe: Option<(Buffer<u32>, Buffer<u32>)>,
}

impl Items {
    /// The places of a self-join; `None` where one block of items has more pairs than are numbered.
    pub(super) fn own(budget: &Budget, stream: &Arc<CudaStream>, behind: &Behind<'_>) -> Result<Option<Self>, Fault> {
        Self::try_new(budget, stream, behind.lengths(), None)
    }

    /// Rows of a probe batch, each with a stretch of places.
    pub(super) fn batch(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &[(u32, Range<u32>)],
    ) -> Result<Option<Self>, Fault> {
        let lengths = rows.iter().map(|(_, places)| places.end - places.start).collect();
        let probe_rows: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let firsts: Vec<u32> = rows.iter().map(|(_, places)| places.start).collect();
        let probe = (budget.upload(stream, &probe_rows)?, budget.upload(stream, &firsts)?);
        Self::try_new(budget, stream, lengths, Some(probe))
    }

    fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        mut lengths: Vec<u32>,
        probe: Option<(Buffer<u32>, Buffer<u32>)>,
    ) -> Result<Option<Self>, Fault> {
        let (mut starts, mut before) = (Vec::with_capacity(lengths.len() / BLOCK as usize + 2), 0);
        for block in lengths.chunks_mut(BLOCK as usize) {
            starts.push(before);
            let mut in_block = 0;
            for length in &mut *block {
                in_block += u64::from(*length);
                *length = in_block as u32;
            }
            // so that a thread's numbers do not overflow behind the last one
            if in_block > i32::MAX as u64 {
                return Ok(None);
            }
            before += in_block;
        }
        starts.push(before);
        let behind = lengths;
        let on_device = budget.upload(stream, &behind)?;
        stream.synchronize()?;
        Ok(Some(Self { behind, starts, on_device, probe }))
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.behind.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many pairs items are.
    pub fn pairs(&self, items: Range<usize>) -> u64 {
        self.before(items.end) - self.before(items.start)
    }

    /// How many pairs there are before an item, or the end of all.
    fn before(&self, item: usize) -> u64 {
        let (block, within) = (item / BLOCK as usize, item % BLOCK as usize);
        self.starts[block] + if within == 0 { 0 } else { u64::from(self.behind[item - 1]) }
    }

    /// Bytes held on the host.
    pub fn memory(&self) -> usize {
        self.behind.capacity() * size_of::<u32>() + self.starts.capacity() * size_of::<u64>()
    }

    /// As kernels read them, over `rows` by place, as long as both live.
    pub(super) fn on_device(&self, stream: &CudaStream, rows: &Buffer<u32>) -> ItemsOnDevice {
        let (probe_rows, firsts) = match &self.probe {
            Some((rows, firsts)) => (rows.address(stream), firsts.address(stream)),
            None => (rows.address(stream), 0),
        };
        ItemsOnDevice {
            rows: rows.address(stream),
            probe_rows,
            firsts,
            behind: self.on_device.address(stream),
            count: self.len() as u32,
            unused: 0,
        }
    }
}

impl Cut for Items {
    const PARTS: u64 = 4;

    fn most_pairs(&self) -> u64 {
        1 << 27
    }

    fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64) {
        let up_to = |stop: u32| self.pairs(start as usize..stop as usize);
        let (mut stop, mut most) = ((start + 1).min(end), end);
        while stop < most {
            let middle = stop + (most - stop) / 2;
            match up_to(middle) < pairs {
                true => stop = middle + 1,
                false => most = middle,
            }
        }
        (stop, up_to(stop))
    }

    fn tasks(&self, items: Range<u32>) -> Vec<Task> {
        let mut tasks = Vec::new();
        for probe in items.start / BLOCK..items.end.div_ceil(BLOCK) {
            let before = self.starts[probe as usize];
            let [first, end] = [items.start.max(probe * BLOCK), items.end.min((probe + 1) * BLOCK)]
                .map(|item| (self.before(item as usize) - before) as u32);
            let cuts = (first..end).step_by(PAIRS_OF_TASK as usize);
            tasks.extend(cuts.map(|first| Task { probe, first, end: end.min(first.saturating_add(PAIRS_OF_TASK)) }));
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_paired_with_those_behind_them() {
        assert_eq!(Behind::InGroup(&[0, 3, 3, 5, 6]).lengths(), [2, 1, 0, 1, 0, 0]);
        assert!(Behind::InGroup(&[0]).lengths().is_empty());
        assert_eq!(Behind::UpTo(&[2, 2, 5, 4]).lengths(), [1, 0, 2, 0]);
    }
}
