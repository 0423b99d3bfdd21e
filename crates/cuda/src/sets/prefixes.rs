//! The prefix filter on a device: pairs by the rarest token that they share, where that leaves less to do than
//! comparing all.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::columns::SetColumns;
use super::posting_lists::PostingLists;
use crate::block_ranges::BlockRanges;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{
    BLOCK, KeyedRows, PrefixRanges, PrefixSides, PrefixesOnDevice, RangeColumns, RangesOnDevice, SetCondition,
    SetSides, SetsOnDevice, Task,
};
use crate::memory::Budget;
use crate::replicate::replicate;
use crate::wait::wait;
use crate::work_split::WorkSplit;
use similarity_engine::access_path::AccessPath;
use similarity_engine::overrides::Overrides;
use similarity_engine::sets::SetPredicate;
use similarity_engine::sets::predicate::Role;

/// When postings pay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pays {
    /// Fewer rows are compared at once before postings are sorted.
    pub(super) fewest_rows: usize,
    /// Pairs of signatures that are compared in the time that one posting takes.
    pub(super) pairs_of_posting: u64,
}

impl Default for Pays {
    fn default() -> Self {
        Self { fewest_rows: 1 << 19, pairs_of_posting: 256 }
    }
}

impl Pays {
    /// Postings wherever there are tokens.
    pub(super) const ALWAYS: Self = Self { fewest_rows: 0, pairs_of_posting: 0 };
    /// No postings.
    pub(super) const NEVER: Self = Self { fewest_rows: usize::MAX, pairs_of_posting: u64::MAX };

    /// When postings pay, or what is forced.
    pub(super) fn of(overrides: &Overrides) -> Self {
        let paths = [(AccessPath::PrefixIndex, Self::ALWAYS), (AccessPath::SignatureTiles, Self::NEVER)];
        overrides.path(paths).unwrap_or_default()
    }
}

/// Rows that are looked at to find out how rare tokens are.
const SAMPLED: usize = 1024;

impl Pays {
    /// Whether the tokens of prefixes are as rare as that, by those of some rows and by how many rows have a token; in
    /// a self-join partners are no smaller.
    pub(super) fn by_sample(
        &self,
        predicate: SetPredicate,
        self_join: bool,
        columns: &SetColumns,
        frequencies: &[u32],
    ) -> bool {
        if columns.rows < self.fewest_rows.max(1) {
            return false;
        }
        let (mut postings, mut count, mut tokens) = (0, 0, Vec::new());
        for (size, set) in columns.sample(SAMPLED) {
            tokens.clear();
            tokens.extend_from_slice(set);
            tokens.sort_unstable();
            let partners = predicate.sizes(Role::Probe, size, size);
            let smallest = partners.map(|sizes| if self_join { size } else { *sizes.start() });
            let least = smallest.and_then(|smallest| predicate.least_overlap(Role::Probe, size, smallest));
            let length = least.map_or(0, |least| (tokens.len() + 1).saturating_sub(least as usize));
            let of_prefix = tokens.iter().take(length).map(|&token| u64::from(frequencies[token as usize]));
            postings += of_prefix.sum::<u64>();
            count += 1;
        }
        postings.saturating_mul(self.pairs_of_posting) <= columns.rows as u64 * count
    }
}

/// The prefixes of one side, in the order of its positions.
#[derive(Debug)]
pub(super) struct Prefixes {
    starts: Buffer<u32>,
    tokens: Buffer<u32>,
    /// Tokens of all of them.
    pub(super) length: u32,
}

impl Prefixes {
    /// Prefixes of the sets of the probe side; of the build side (`posted`) also what becomes postings.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        condition: SetCondition,
        sets: SetsOnDevice,
        posted: bool,
    ) -> Result<(Self, Option<KeyedRows>), Fault> {
        let kernels = budget.device.kernels().prefixes()?;
        let count = sets.count as usize;
        let mut lengths = budget.buffer(stream, count)?;
        kernels.lengths(stream, sets, posted, condition, &mut lengths)?;
        let mut starts = vec![0; count + 1];
        budget.download(stream, &lengths, &mut starts[1..])?;
        wait(stream)?;
        let mut length = 0u32;
        for start in &mut starts[1..] {
            length = length.checked_add(*start).ok_or(Fault::Memory)?;
            *start = length;
        }
        let starts = budget.upload(stream, &starts)?;
        let mut tokens = budget.buffer(stream, length as usize)?;
        let buffers = || {
            let (keys, rows) = (budget.buffer(stream, length as usize)?, budget.buffer(stream, length as usize)?);
            Ok::<_, Fault>(KeyedRows { keys, rows })
        };
        let mut postings = posted.then(buffers).transpose()?;
        kernels.tokens(stream, sets, &starts, &mut tokens, postings.as_mut())?;
        Ok((Self { starts, tokens, length }, postings))
    }

    fn on_device(&self, stream: &CudaStream) -> PrefixesOnDevice {
        PrefixesOnDevice { starts: self.starts.address(stream), tokens: self.tokens.address(stream) }
    }
}

/// The prefixes of a build side, and which positions have a token.
#[derive(Debug)]
pub(super) struct Postings {
    prefixes: Prefixes,
    lists: PostingLists,
    pairs_of_posting: u64,
}

impl Postings {
    /// Postings of the build side of `sides`, whose tokens have `ranks` ranks; `None` where there is no room for them.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        sides: &SetSides,
        ranks: u32,
        pays: Pays,
    ) -> Result<Option<Self>, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let postings = || {
            let (prefixes, records) = Prefixes::try_new(budget, stream, sides.condition, sides.build, true)?;
            let Some(records) = records else { return Ok(None) };
            let lists = PostingLists::try_new(budget, stream, (records, prefixes.length), ranks)?;
            Ok(Some(Self { prefixes, lists, pairs_of_posting: pays.pairs_of_posting }))
        };
        match postings() {
            Err(Fault::Memory) => Ok(None),
            postings => postings,
        }
    }

    /// What the probe side of `sides`, of so many blocks, asks of them within its windows; `None` where there is no
    /// room for it, or where comparing all pairs of signatures in these is less work.
    pub(super) fn asked(
        &self,
        budget: &Budget,
        stream: &Arc<CudaStream>,
        sides: &SetSides,
        blocks: u32,
        windows: &BlockRanges,
    ) -> Result<Option<Asked>, Fault> {
        if blocks == 0 {
            return Ok(None);
        }
        let _timer = budget.metrics.arrange_time.timer();
        let asked = || {
            let probe = |sides: &SetSides| Prefixes::try_new(budget, stream, sides.condition, sides.probe, false);
            let prefixes = (!sides.self_join).then(|| probe(sides)).transpose()?.map(|(prefixes, _)| prefixes);
            let length = prefixes.as_ref().unwrap_or(&self.prefixes).length as usize;
            let (_, pairs) = windows.stretch(0, sides.probe.count, u64::MAX);
            let windows = windows.upload(budget, stream)?;
            let mut ranges = RangeColumns {
                firsts: budget.buffer(stream, length)?,
                offsets: budget.buffer(stream, length)?,
                totals: budget.buffer(stream, blocks as usize)?,
            };
            let sides = self.sides(stream, sides, prefixes.as_ref());
            let kernels = budget.device.kernels().prefixes()?;
            kernels.ranges(stream, &sides, &windows, blocks, &mut ranges)?;
            let mut totals = vec![0; blocks as usize];
            budget.download(stream, &ranges.totals, &mut totals)?;
            wait(stream)?;
            let work = totals.iter().fold(0u64, |work, &total| work.saturating_add(total));
            let pays = work.saturating_mul(self.pairs_of_posting) <= pairs;
            // so that a thread's numbers do not overflow behind the last one
            let totals: Option<Vec<u32>> =
                totals.into_iter().map(|total| i32::try_from(total).ok().map(i32::unsigned_abs)).collect();
            let asked = |totals| Asked { prefixes, ranges, totals, pairs_of_posting: self.pairs_of_posting.max(1) };
            Ok(totals.filter(|_| pays).map(asked))
        };
        match asked() {
            Err(Fault::Memory) => Ok(None),
            asked => asked,
        }
    }

    fn sides(&self, stream: &CudaStream, sets: &SetSides, asked: Option<&Prefixes>) -> PrefixSides {
        let posted = self.prefixes.on_device(stream);
        let asked = asked.map_or(posted, |asked| asked.on_device(stream));
        PrefixSides { sets: *sets, asked, posted, postings: self.lists.on_device(stream) }
    }

    /// The sides as kernels read them.
    pub(super) fn on_device_for(&self, stream: &CudaStream, sets: &SetSides, asked: &Asked) -> PrefixRanges {
        let RangeColumns { firsts, offsets, .. } = &asked.ranges;
        let ranges = RangesOnDevice { firsts: firsts.address(stream), offsets: offsets.address(stream) };
        PrefixRanges { sides: self.sides(stream, sets, asked.prefixes.as_ref()), ranges }
    }
}

/// What a probe side asks of postings.
#[derive(Debug)]
pub(crate) struct Asked {
    /// None where it is the build side.
    prefixes: Option<Prefixes>,
    ranges: RangeColumns,
    /// Postings of each probe block.
    totals: Vec<u32>,
    pairs_of_posting: u64,
}

/// Postings that one block of threads sees.
const POSTINGS_OF_TASK: usize = 1 << 15;

impl Asked {
    pub(super) fn memory(&self) -> usize {
        self.totals.capacity() * size_of::<u32>()
    }

    /// Stretch of probe rows, see [`WorkSplit::stretch`]; a posting counts as the pairs
    /// that are compared in its time.
    pub(super) fn stretch(&self, start: u32, end: u32, pairs: u64) -> (u32, u64) {
        let (mut at, mut done) = (start, 0u64);
        while at < end && done < pairs {
            let total = u64::from(self.totals[(at / BLOCK) as usize]);
            done = done.saturating_add(total * self.pairs_of_posting + 1);
            at = (at / BLOCK + 1) * BLOCK;
        }
        (at.min(end), done)
    }

    /// Tasks for a range of probe positions, in their order.
    pub(super) fn tasks(&self, positions: Range<u32>) -> Vec<Task> {
        let of_block = |probe: u32| {
            let total = self.totals[probe as usize];
            let cuts = (0..total).step_by(POSTINGS_OF_TASK);
            cuts.map(move |first| Task { probe, first, end: total.min(first.saturating_add(POSTINGS_OF_TASK as u32)) })
        };
        (positions.start / BLOCK..positions.end.div_ceil(BLOCK)).flat_map(of_block).collect()
    }
}

replicate!(Prefixes { starts, tokens; same length });
replicate!(Postings { prefixes, lists; same pairs_of_posting });
replicate!(Asked { prefixes, ranges; same totals, pairs_of_posting });
