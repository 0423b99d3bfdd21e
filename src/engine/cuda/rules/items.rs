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
    /// The places of a self-join, each with those behind it up to its entry of `ends`; `None` where one block of items has more
    /// pairs than are numbered.
    pub(super) fn own(budget: &Budget, stream: &Arc<CudaStream>, ends: &[u32]) -> Result<Option<Self>, Fault> {
        let lengths = (1..).zip(ends).map(|(behind, &end)| u64::from(end.saturating_sub(behind)));
        Self::try_new(budget, stream, lengths, None)
    }

    /// Rows of a probe batch, each with a stretch of places.
    pub(super) fn batch(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &[(u32, Range<u32>)],
    ) -> Result<Option<Self>, Fault> {
        let lengths = rows.iter().map(|(_, places)| u64::from(places.end - places.start));
        let probe_rows: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let firsts: Vec<u32> = rows.iter().map(|(_, places)| places.start).collect();
        let probe = (budget.upload(stream, &probe_rows)?, budget.upload(stream, &firsts)?);
        Self::try_new(budget, stream, lengths, Some(probe))
    }

    fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        lengths: impl Iterator<Item = u64>,
        probe: Option<(Buffer<u32>, Buffer<u32>)>,
    ) -> Result<Option<Self>, Fault> {
        let (mut behind, mut starts) = (Vec::with_capacity(lengths.size_hint().0), vec![0]);
        let (mut before, mut in_block) = (0, 0);
        for (item, length) in lengths.enumerate() {
            if item > 0 && item.is_multiple_of(BLOCK as usize) {
                before += in_block;
                in_block = 0;
                starts.push(before);
            }
            in_block += length;
            // so that a thread's numbers do not overflow behind the last one
            let Ok(own) = i32::try_from(in_block) else { return Ok(None) };
            behind.push(own.unsigned_abs());
        }
        starts.push(before + in_block);
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
    const MOST_PAIRS: u64 = 1 << 27;

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
