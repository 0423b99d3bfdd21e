//! What a plan of rules is made from: the groups of the build side, and pairs drawn from them.

use std::hash::BuildHasher;
use std::sync::Arc;

use datafusion::common::Result;

use super::columns::{AtomTest, Columns, Tests};
use super::grouping::Grouping;
use crate::engine::parallel::in_turn;
use crate::engine::{Cancel, Pairs};
use crate::program::{AtomEstimate, Entry, Statistics, cost};

/// How many pairs are drawn for an entry.
const DRAWN: usize = 1024;

/// A grouping, and the group of each build row.
#[derive(Debug, Clone)]
pub(super) struct Grouped {
    pub(super) grouping: Arc<Grouping>,
    pub(super) groups: Arc<Vec<u32>>,
}

/// Statistics over the build side, compared with itself.
#[derive(Debug)]
pub(super) struct BuildStatistics<'a> {
    tests: &'a Tests,
    build: &'a Columns,
    cancel: &'a Cancel,
    /// By the equalities of some clause.
    grouped: Vec<(Vec<usize>, Grouped)>,
}

impl<'a> BuildStatistics<'a> {
    /// Groups the rows by the equalities of each clause, with up to `threads` threads.
    pub(super) fn new(
        tests: &'a Tests,
        build: &'a Columns,
        clauses: &[Vec<usize>],
        threads: usize,
        cancel: &'a Cancel,
    ) -> Result<Self> {
        let mut wanted: Vec<Vec<usize>> = Vec::new();
        for clause in clauses {
            let is_equality = |&atom: &usize| tests.kinds[atom] == AtomTest::Equality;
            let keys: Vec<usize> = clause.iter().copied().filter(is_equality).collect();
            if !wanted.contains(&keys) {
                wanted.push(keys);
            }
        }
        let grouped = in_turn(wanted.len(), threads, |at| {
            let (grouping, groups) = Grouping::build(build, &wanted[at]);
            Ok(Grouped { grouping: Arc::new(grouping), groups: Arc::new(groups) })
        })?;
        Ok(Self { tests, build, cancel, grouped: wanted.into_iter().zip(grouped).collect() })
    }

    /// The groups by these equalities, those of some clause.
    pub(super) fn groups(&self, keys: &[usize]) -> Option<&Grouped> {
        self.grouped.iter().find(|(known, _)| known == keys).map(|(_, grouped)| grouped)
    }

    /// Pairs of different rows, evenly drawn from those that share a group; from all pairs, where groups are single
    /// rows. The same data gives the same pairs.
    fn draw(&self, grouping: &Grouping) -> Pairs {
        let mut pairs = Pairs::default();
        let rows = grouping.rows();
        let mut before = Vec::with_capacity(rows.len());
        let mut total = 0u64;
        for (place, end) in grouping.group_ends().enumerate() {
            before.push(total);
            total += u64::from(end) - place as u64 - 1;
        }
        let hasher = foldhash::fast::FixedState::default();
        for n in 0..DRAWN as u64 {
            let random = hasher.hash_one(n);
            if total > 0 {
                let number = ((u128::from(random) * u128::from(total)) >> 64) as u64;
                // the last place that does not lie beyond the number: those without a partner lie on the next one's
                let place = before.partition_point(|&b| b <= number) - 1;
                let partner = place + 1 + (number - before[place]) as usize;
                pairs.push(rows[place], rows[partner]);
            } else if self.build.rows > 1 {
                let all = self.build.rows as u64;
                let one = random % all;
                let step = 1 + hasher.hash_one(random) % (all - 1);
                pairs.push(one as u32, ((one + step) % all) as u32);
            }
        }
        pairs
    }

    fn estimate(&self, atom: usize, pairs: &Pairs) -> AtomEstimate {
        match self.tests.kinds[atom] {
            AtomTest::Pair => AtomEstimate { cost: cost::EXPRESSION, passes: 0.5, last: true },
            kind => {
                let cost = match kind {
                    AtomTest::Similarity { test, .. } => {
                        let open = self.tests.open(atom, self.build, pairs) as f64 / pairs.len().max(1) as f64;
                        cost::of_test(test, self.build.mean_length(atom), open)
                    }
                    AtomTest::Equality => cost::EQUALITY,
                    _ => cost::ONE_SIDED,
                };
                let (places, mut passed) = ((0..pairs.len() as u16).collect::<Vec<_>>(), Vec::new());
                let stop = || self.cancel.is_cancelled();
                self.tests.select(atom, (self.build, self.build), pairs, &places, &stop, &mut passed);
                let passes = (passed.len() as f64 + 0.5) / (pairs.len() as f64 + 1.0);
                AtomEstimate { cost, passes, last: false }
            }
        }
    }
}

impl Statistics for BuildStatistics<'_> {
    fn partners(&self, keys: &[usize]) -> f64 {
        self.groups(keys).map_or(0.0, |grouped| grouped.grouping.mean_partners(self.build.rows))
    }

    fn estimates(&self, entry: &Entry, atoms: &[usize]) -> Vec<AtomEstimate> {
        let keys = match entry {
            Entry::Hash(keys) | Entry::Index { keys, .. } => keys,
        };
        let pairs = self.groups(keys).map(|grouped| self.draw(&grouped.grouping)).unwrap_or_default();
        let asked = |atom| atoms.contains(&atom);
        let estimate = |atom| if asked(atom) { self.estimate(atom, &pairs) } else { AtomEstimate::UNKNOWN };
        (0..self.tests.kinds.len()).map(estimate).collect()
    }
}
