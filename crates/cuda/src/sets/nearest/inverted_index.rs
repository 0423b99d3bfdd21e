//! Lists of all tokens of a build side, and when it pays to count their entries.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::fault::Fault;
use crate::kernels::{CounterRoom, SetsOnDevice};
use crate::memory::Budget;
use crate::replicate::replicate;
use crate::sets::condition::set_test;
use crate::sets::posting_lists::PostingLists;
use crate::sets::prefixes::Prefixes;
use crate::sets::sorted::SortedSets;
use crate::wait::wait;
use similarity_engine::access_path::AccessPath;
use similarity_engine::condition::Bounds;
use similarity_engine::overrides::Overrides;
use similarity_engine::sets::SetPredicate;
use similarity_measures::SetMeasure;

/// Words of 256 bits.
const FEWEST_WORDS: u32 = 8;

/// When postings are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pays {
    /// The most postings that are read for a pair of rows in the place of 256 bits of signatures.
    postings_of_pair: f64,
}

impl Pays {
    /// A posting takes as long as two pairs or so in all rounds of signatures, which leave pairs to be scored. By
    /// design, not measured.
    const DEFAULT: Self = Self { postings_of_pair: 4.0 };
    const ALWAYS: Self = Self { postings_of_pair: f64::INFINITY };
    const NEVER: Self = Self { postings_of_pair: -1.0 };

    /// When postings pay, or what is forced.
    pub(super) fn of(overrides: &Overrides) -> Self {
        let paths = [(AccessPath::InvertedIndex, Self::ALWAYS), (AccessPath::SignatureTiles, Self::NEVER)];
        overrides.path(paths).unwrap_or(Self::DEFAULT)
    }

    /// Whether to count so many postings rather than to compare so many pairs by signatures of so many words.
    fn allow(self, postings: f64, pairs: f64, words: u32) -> bool {
        postings <= self.postings_of_pair * pairs * f64::from(words / FEWEST_WORDS)
    }

    /// Whether to make an index of `rows` sets, so many of which have the token of each rank, where probe sides are
    /// like them.
    pub(super) fn for_sets(self, rows: usize, frequencies: &[u32], words: u32) -> bool {
        let postings = frequencies.iter().map(|&frequency| f64::from(frequency).powi(2)).sum();
        self.allow(postings, (rows as f64).powi(2), words)
    }
}

/// The lists of all tokens of a build side.
#[derive(Debug)]
pub(super) struct InvertedIndex {
    pub(super) lists: PostingLists,
    pays: Pays,
    /// Room of a block of threads.
    pub(super) room: CounterRoom,
}

replicate!(InvertedIndex { lists; same pays, room });

impl InvertedIndex {
    /// The index of sets whose tokens are below `ranks`; `None` where there is no room for it.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (sets, ranks): (SetsOnDevice, u32),
        (pays, room): (Pays, CounterRoom),
    ) -> Result<Option<Self>, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        // where one common token is enough, all of them are the prefix
        let any_common = SetPredicate { measure: SetMeasure::OVERLAP_COUNT, bounds: Bounds::at_least(1.0, true) };
        let lists = || {
            let (prefixes, records) = Prefixes::try_new(budget, stream, set_test(any_common), sets, true)?;
            let length = prefixes.length;
            // they are not needed while the lists are sorted
            drop(prefixes);
            records.map(|records| PostingLists::try_new(budget, stream, (records, length), ranks)).transpose()
        };
        match lists() {
            Err(Fault::Memory) => Ok(None),
            lists => Ok(lists?.map(|lists| Self { lists, pays, room })),
        }
    }

    /// Whether its postings are counted however many they are.
    pub(super) fn is_forced(&self) -> bool {
        self.pays.postings_of_pair == f64::INFINITY
    }

    /// How many postings the tokens of a probe side have, where it is best to count them.
    ///
    /// # Errors
    /// A device that fails.
    pub(super) fn postings(
        &self,
        budget: &Budget,
        probe: &SortedSets,
        (rows, words): (u32, u32),
    ) -> Result<Option<u64>, Fault> {
        let stream = budget.device.stream()?;
        let mut total = budget.zeros(&stream, 1)?;
        let kernels = budget.device.kernels().nearest_counts()?;
        kernels.postings(&stream, probe.on_device(&stream), self.lists.on_device(&stream), &mut total)?;
        let mut postings = [0];
        budget.download(&stream, &total, &mut postings)?;
        wait(&stream)?;
        let [postings] = postings;
        let pairs = f64::from(rows) * f64::from(probe.count);
        Ok(self.pays.allow(postings as f64, pairs, words).then_some(postings))
    }
}
