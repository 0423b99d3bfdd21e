//! Probe rows with their stretches of build rows, cut by pairs.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::buffer::Buffer;
use crate::equality::{FoundNumbers, RowsByGroup};
use crate::fault::Fault;
use crate::kernels::{BLOCK, ItemsOnDevice, KeyedRows, PairNumbers, Task};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate, replicate};
use crate::wait::wait;
use crate::work_split::WorkSplit;
use similarity_engine::Error;
use similarity_engine::accelerator::equality::GroupedRows;
use similarity_engine::accelerator::rules::{DeviceItems, PartnerEnds, ProbeRows};

/// Pairs of a task.
pub(super) const PAIRS_OF_TASK: u32 = 1 << 14;

/// How many pairs the items of a block have up to and with each of them.
#[derive(Debug, Clone)]
enum PairsBehind {
    Known(Vec<u32>),
    /// Numbers of pairs that follow from groups.
    InGroup(Arc<RowsByGroup>),
}

/// One a probe row, as the cursor goes.
#[derive(Debug)]
pub struct ProbeRanges {
    behind: PairsBehind,
    count: usize,
    /// How many pairs there are before each block, and in all.
    starts: Vec<u64>,
    on_device: Buffer<u32>,
    /// Probe rows of a batch; `None` in a self-join, where an item is a place and its stretch begins right behind it.
    probe: Option<ProbeStretches>,
    /// Parts that a self-join is cut into.
    parts: u64,
}

/// The rows of a probe batch, and where the stretch of build rows of each starts.
#[derive(Debug)]
struct ProbeStretches {
    rows: Buffer<u32>,
    firsts: Buffer<u32>,
}

replicate!(ProbeRanges { on_device, probe; same behind, count, starts, parts });
replicate!(ProbeStretches { rows, firsts });

impl ProbeRanges {
    /// The places of a self-join; `None` where one block of items has more pairs than are numbered.
    pub(super) fn self_join(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        behind: &PartnerEnds<'_>,
    ) -> Result<Option<Self>, Fault> {
        match behind {
            PartnerEnds::InGroup(grouped) => match Arc::clone(grouped).into_any().downcast() {
                Ok::<Arc<RowsByGroup>, _>(grouped) if grouped.budget().is_of_device_of(budget) => {
                    Self::of_groups(budget, stream, &grouped)
                }
                // grouped by another device
                Ok(_) | Err(_) => ProbeRanges::self_join(budget, stream, &PartnerEnds::InGroupOnHost(grouped.starts())),
            },
            PartnerEnds::InGroupOnHost(starts) => {
                let mut lengths = vec![0; starts.last().map_or(0, |&end| end as usize)];
                lengths_in_groups(starts, 0, &mut lengths);
                Self::try_new(budget, stream, lengths, None)
            }
            PartnerEnds::UpTo(ends) => {
                let lengths = (1..).zip(*ends).map(|(behind, &end)| end.saturating_sub(behind)).collect();
                Self::try_new(budget, stream, lengths, None)
            }
        }
    }

    /// Items of a self-join by groups on the device, which adds up their pairs.
    fn of_groups(budget: &Budget, stream: &Arc<CudaStream>, grouped: &Arc<RowsByGroup>) -> Result<Option<Self>, Fault> {
        let count = grouped.len();
        let blocks = count.div_ceil(BLOCK as usize);
        let mut numbers = PairNumbers { behind: budget.buffer(stream, count)?, pairs: budget.buffer(stream, blocks)? };
        if count > 0 {
            let groups = grouped.starts().len() as u32 - 1;
            let starts = grouped.starts_on_device();
            budget.device.kernels().rules()?.behind(stream, starts, groups, count as u32, &mut numbers)?;
        }
        let on_device = numbers.behind;
        let of_blocks = budget.fetch(&numbers.pairs, 0..count.div_ceil(BLOCK as usize))?;
        let behind = PairsBehind::InGroup(Arc::clone(grouped));
        Ok(before_blocks(of_blocks).map(|starts| Self { behind, count, starts, on_device, probe: None, parts: 1 }))
    }

    /// Rows of a probe batch, those of one stretch side by side.
    pub(super) fn batch(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        rows: &ProbeRows<'_>,
    ) -> Result<Option<Self>, Fault> {
        match rows {
            ProbeRows::Placed(rows) => Self::placed(budget, stream, rows),
            ProbeRows::Grouped(found, grouped) => {
                match (found.as_any().downcast_ref(), grouped.as_any().downcast_ref::<RowsByGroup>()) {
                    (Some(found), Some(grouped)) if grouped.budget().is_of_device_of(budget) => {
                        Self::grouped(budget, stream, found, grouped)
                    }
                    (Some(found), Some(grouped)) => {
                        let of_groups = grouped.budget();
                        let items = Self::grouped(of_groups, &of_groups.device.stream()?, found, grouped)?;
                        let copy = items.replicate(&Copying { budget, stream })?;
                        // what is copied is given back now
                        wait(stream)?;
                        Ok(copy)
                    }
                    _ => Err(Error::Internal("rows were grouped by another device".into()).into()),
                }
            }
        }
    }

    fn placed(budget: &Budget, stream: &Arc<CudaStream>, rows: &[(u32, Range<u32>)]) -> Result<Option<Self>, Fault> {
        let lengths = rows.iter().map(|(_, places)| places.end - places.start).collect();
        let probe_rows: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let firsts: Vec<u32> = rows.iter().map(|(_, places)| places.start).collect();
        let probe =
            ProbeStretches { rows: budget.upload(stream, &probe_rows)?, firsts: budget.upload(stream, &firsts)? };
        Self::try_new(budget, stream, lengths, Some(probe))
    }

    /// Rows that the device puts in the order of their groups.
    fn grouped(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        found: &FoundNumbers,
        grouped: &RowsByGroup,
    ) -> Result<Option<Self>, Fault> {
        let KeyedRows { keys: groups, rows } = found.in_order(budget, stream)?;
        let (count, blocks) = (found.found() as usize, (found.found() as usize).div_ceil(BLOCK as usize));
        let mut firsts = budget.buffer(stream, count)?;
        let mut numbers = PairNumbers { behind: budget.buffer(stream, count)?, pairs: budget.buffer(stream, blocks)? };
        if count > 0 {
            let starts = grouped.starts_on_device();
            budget.device.kernels().rules()?.stretches(
                stream,
                &groups,
                count as u32,
                starts,
                &mut firsts,
                &mut numbers,
            )?;
        }
        let Some(starts) = before_blocks(budget.fetch(&numbers.pairs, 0..blocks)?) else { return Ok(None) };
        let behind = PairsBehind::Known(budget.fetch(&numbers.behind, 0..count)?);
        let probe = Some(ProbeStretches { rows, firsts });
        Ok(Some(Self { behind, count, starts, on_device: numbers.behind, probe, parts: 1 }))
    }

    fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        mut lengths: Vec<u32>,
        probe: Option<ProbeStretches>,
    ) -> Result<Option<Self>, Fault> {
        let add_up = |block: &mut [u32]| {
            block.iter_mut().fold(0, |before, length| {
                let pairs = before + u64::from(*length);
                *length = pairs as u32;
                pairs
            })
        };
        let of_blocks = lengths.chunks_mut(BLOCK as usize).map(add_up).collect();
        let Some(starts) = before_blocks(of_blocks) else { return Ok(None) };
        let on_device = budget.upload(stream, &lengths)?;
        wait(stream)?;
        let (count, behind) = (lengths.len(), PairsBehind::Known(lengths));
        Ok(Some(Self { count, behind, starts, on_device, probe, parts: 1 }))
    }

    /// Items cut into so many parts.
    pub(super) fn in_parts(self, parts: u64) -> Self {
        Self { parts, ..self }
    }

    /// How many pairs items are.
    pub fn pairs(&self, items: Range<usize>) -> u64 {
        self.before(items.end) - self.before(items.start)
    }

    /// How many pairs there are before an item, or the end of all.
    fn before(&self, item: usize) -> u64 {
        let (block, within) = (item / BLOCK as usize, item % BLOCK as usize);
        let in_block = match &self.behind {
            _ if within == 0 => 0,
            PairsBehind::Known(behind) => u64::from(behind[item - 1]),
            PairsBehind::InGroup(grouped) => {
                let mut lengths = [0; BLOCK as usize];
                lengths_in_groups(grouped.starts(), item - within, &mut lengths[..within]);
                lengths[..within].iter().copied().map(u64::from).sum()
            }
        };
        self.starts[block] + in_block
    }

    /// Bytes held on the host.
    pub fn memory(&self) -> usize {
        let behind = match &self.behind {
            PairsBehind::Known(behind) => behind.capacity() * size_of::<u32>(),
            PairsBehind::InGroup(_) => 0,
        };
        behind + self.starts.capacity() * size_of::<u64>()
    }

    /// Items as kernels read them, over `rows` by place, as long as both live.
    pub(super) fn on_device(&self, stream: &CudaStream, rows: &Buffer<u32>) -> ItemsOnDevice {
        let (probe_rows, firsts) = match &self.probe {
            Some(ProbeStretches { rows, firsts }) => (rows.address(stream), Some(firsts.address(stream))),
            None => (rows.address(stream), None),
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

impl DeviceItems for ProbeRanges {
    fn len(&self) -> usize {
        self.count
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// How many pairs there are before each block, and in all, given how many each has; `None` where one has more than a
/// thread's numbers reach without overflowing behind the last one.
fn before_blocks(mut pairs: Vec<u64>) -> Option<Vec<u64>> {
    let mut before = 0;
    for pairs in &mut pairs {
        if *pairs > i32::MAX as u64 {
            return None;
        }
        (*pairs, before) = (before, before + *pairs);
    }
    pairs.push(before);
    Some(pairs)
}

/// How many places are behind each from `first` on in its group, given where groups start, and where the last one ends.
fn lengths_in_groups(starts: &[u32], first: usize, lengths: &mut [u32]) {
    let mut ends = &starts[starts.partition_point(|&start| start as usize <= first)..];
    for (place, length) in (first as u32..).zip(lengths) {
        while ends[0] <= place {
            ends = &ends[1..];
        }
        *length = ends[0] - place - 1;
    }
}

impl WorkSplit for ProbeRanges {
    fn parts(&self) -> u64 {
        self.parts
    }

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
    use crate::test_device::device;
    use similarity_engine::equality::Codes;

    #[test]
    fn places_are_paired_with_those_behind_them() {
        let lengths = |first: usize| {
            let mut lengths = vec![0; 6 - first];
            lengths_in_groups(&[0, 3, 3, 5, 6], first, &mut lengths);
            lengths
        };
        assert_eq!(lengths(0), [2, 1, 0, 1, 0, 0]);
        (1..6).for_each(|first| assert_eq!(lengths(first), lengths(0)[first..]));
        assert!(lengths(6).is_empty());
    }

    #[test]
    fn a_block_has_no_more_pairs_than_are_numbered() {
        let most = i32::MAX as u64;
        assert_eq!(before_blocks(vec![5, 0, most]), Some(vec![0, 5, 5, 5 + most]));
        assert_eq!(before_blocks(vec![5, most + 1]), None);
        assert_eq!(before_blocks(Vec::new()), Some(vec![0]));
        let budget = Budget::new(&device(), 0.5);
        let stream = budget.device.stream().unwrap();
        // of bands: the second place has no partner, and the last one an end before it
        let items = ProbeRanges::self_join(&budget, &stream, &PartnerEnds::UpTo(&[2, 2, 5, 4, 2])).unwrap().unwrap();
        assert_eq!(budget.fetch(&items.on_device, 0..5).unwrap(), [1, 1, 3, 3, 3]);
        assert_eq!(items.pairs(1..4), 2);
    }

    #[test]
    fn a_device_counts_pairs_as_the_host_does() {
        let budget = Budget::new(&device(), 0.5);
        let stream = budget.device.stream().unwrap();
        // groups of one row have no place: those of two and more, and one of several blocks
        for (rows, groups) in [(0, 1), (40, 7), (5000, 900), (5000, 2), (3 * BLOCK, BLOCK)] {
            let codes: Vec<u32> = (0..rows).map(|row| row * row % 7919 % groups).collect();
            let grouped: Arc<dyn GroupedRows> =
                Arc::new(RowsByGroup::of(&budget, &[&Codes::from(codes)], true).unwrap().unwrap());
            let there = ProbeRanges::self_join(&budget, &stream, &PartnerEnds::InGroup(&grouped)).unwrap().unwrap();
            let here = ProbeRanges::self_join(&budget, &stream, &PartnerEnds::InGroupOnHost(grouped.starts()))
                .unwrap()
                .unwrap();
            assert_eq!(there.len(), here.len());
            (0..=here.len()).for_each(|item| assert_eq!(there.before(item), here.before(item)));
            let behind = |items: &ProbeRanges| budget.fetch(&items.on_device, 0..items.len()).unwrap();
            assert_eq!(behind(&there), behind(&here));
        }
    }
}
