//! What a plan of rules is made from: the groups of the build side, and pairs drawn from them.

use std::hash::BuildHasher;
use std::sync::Arc;

use datafusion::common::Result;

use super::columns::{AtomColumn, AtomTest, BandColumn, Columns, Tests};
use super::grouping::Grouping;
use crate::engine::parallel::in_turn;
use crate::engine::{Cancel, Pairs};
use crate::program::{AtomEstimate, Entry, IN_BAND, Statistics, cost};

/// How many pairs are drawn for an entry.
const DRAWN: usize = 1024;

/// A grouping, and the group of each build row.
#[derive(Debug, Clone)]
pub(super) struct Grouped {
    pub(super) grouping: Arc<Grouping>,
    pub(super) groups: Arc<Vec<u32>>,
    /// Pairs of different rows, evenly drawn from those that share a group; from all pairs, where groups are single rows.
    drawn: Arc<Pairs>,
}

/// Pairs of places among `rows` places, evenly drawn from those in one group; of any, where each group is one place.
/// The same groups give the same pairs.
fn draw(grouping: &Grouping, rows: usize) -> Pairs {
    let mut pairs = Pairs::default();
    let mut before = Vec::new();
    let mut total = 0u64;
    for group in grouping.groups() {
        before.push(total);
        let len = group.len() as u64;
        total += len * len.saturating_sub(1);
    }
    let hasher = foldhash::fast::FixedState::default();
    for n in 0..DRAWN as u64 {
        let random = hasher.hash_one(n);
        if total > 0 {
            let number = ((u128::from(random) * u128::from(total)) >> 64) as u64;
            // the last group that does not start beyond the number: those of one row start where the next one does
            let group = before.partition_point(|&b| b <= number) - 1;
            let (number, places) = (number - before[group], grouping.places(group as u32));
            let others = places.len() as u64 - 1;
            let (one, step) = (number / others, 1 + number % others);
            let other = (one + step) % places.len() as u64;
            let group = &grouping.rows()[places];
            pairs.push(group[one as usize], group[other as usize]);
        } else if rows > 1 {
            let all = rows as u64;
            let one = random % all;
            let step = 1 + hasher.hash_one(random) % (all - 1);
            pairs.push(one as u32, ((one + step) % all) as u32);
        }
    }
    pairs
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
            let drawn = Arc::new(draw(&grouping, build.rows));
            Ok(Grouped { grouping: Arc::new(grouping), groups: Arc::new(groups), drawn })
        })?;
        Ok(Self { tests, build, cancel, grouped: wanted.into_iter().zip(grouped).collect() })
    }

    /// The groups by these equalities, those of some clause.
    pub(super) fn groups(&self, keys: &[usize]) -> Option<&Grouped> {
        self.grouped.iter().find(|(known, _)| known == keys).map(|(_, grouped)| grouped)
    }

    fn estimate(&self, atom: usize, pairs: &Pairs) -> AtomEstimate {
        if self.tests.kinds[atom] == AtomTest::Pair {
            return AtomEstimate { last: true, ..AtomEstimate::uniform(cost::EXPRESSION, 0.5) };
        }
        if let AtomColumn::Band(BandColumn { accepted, .. }) = &self.build.atoms[atom]
            && accepted.is_empty()
        {
            return AtomEstimate::uniform(cost::BAND, IN_BAND);
        }
        let (places, mut passed) = ((0..pairs.len() as u16).collect::<Vec<_>>(), Vec::new());
        let stop = || self.cancel.is_cancelled();
        self.tests.select(atom, (self.build, self.build), pairs, &places, &stop, &mut passed);
        let passes = (passed.len() as f64 + 0.5) / (pairs.len() as f64 + 1.0);
        match self.tests.kinds[atom] {
            AtomTest::Similarity { test, .. } => {
                let open = self.tests.open(atom, self.build, pairs) as f64 / pairs.len().max(1) as f64;
                cost::of_test(test, self.build.mean_length(atom), open, passes)
            }
            AtomTest::Equality => AtomEstimate::uniform(cost::EQUALITY, passes),
            AtomTest::Band => AtomEstimate::uniform(cost::BAND, passes),
            AtomTest::OneSided | AtomTest::Pair => AtomEstimate::uniform(cost::ONE_SIDED, passes),
        }
    }
}

impl Statistics for BuildStatistics<'_> {
    fn partners(&self, keys: &[usize]) -> f64 {
        self.groups(keys).map_or(0.0, |grouped| grouped.grouping.mean_partners(self.build.rows))
    }

    fn estimates(&self, entry: &Entry, atoms: &[usize]) -> Vec<AtomEstimate> {
        let pairs = self.groups(entry.keys()).map(|grouped| Arc::clone(&grouped.drawn)).unwrap_or_default();
        let asked = |atom| atoms.contains(&atom);
        let estimate = |atom| if asked(atom) { self.estimate(atom, &pairs) } else { AtomEstimate::UNKNOWN };
        (0..self.tests.kinds.len()).map(estimate).collect()
    }
}
