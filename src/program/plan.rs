//! How clauses are entered: groups of clauses that share an entry, each with its execution tree.

use super::conjunctive::entry_rank;
use super::cost;
use super::tree::{AtomEstimate, ExecutionTree};
use crate::predicate::Test;

/// What produces the candidates of a clause. Atoms are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Rows that agree in all of these equalities; all rows with all, where there are none.
    Hash(Vec<usize>),
    /// The index of a similarity condition, within the groups of these equalities.
    Index {
        /// The similarity condition.
        atom: usize,
        /// The equalities.
        keys: Vec<usize>,
    },
}

impl Entry {
    /// Whether a candidate of this entry has passed `atom`.
    pub fn decides(&self, atom: usize) -> bool {
        match self {
            Self::Hash(keys) => keys.contains(&atom),
            Self::Index { atom: entry, keys } => *entry == atom || keys.contains(&atom),
        }
    }
}

/// What an atom is to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomKind {
    /// Served by hashing.
    Equality,
    /// Served by an index of its own.
    Similarity(Test),
    /// A condition over one side, served by nothing.
    OneSided,
    /// Any other condition, served by nothing.
    Pair,
}

/// What is known of the data.
pub trait Statistics {
    /// How many build rows a probe row meets on average that agrees with it in all of these equalities.
    fn partners(&self, keys: &[usize]) -> f64;

    /// Every atom's estimate over candidates of `entry`.
    fn estimates(&self, entry: &Entry) -> Vec<AtomEstimate>;
}

/// Clauses entered together.
#[derive(Debug, Clone)]
pub struct EntryGroup {
    /// What produces the candidates.
    pub entry: Entry,
    /// How many candidates a probe row has on average, where the entry is by hash.
    pub partners: f64,
    /// The clauses, by number.
    pub clauses: Vec<usize>,
    /// What is left to decide of these clauses.
    pub tree: ExecutionTree,
    /// The whole clauses of the groups before this one: a pair that satisfies any of them came out there.
    pub earlier: ExecutionTree,
    /// What the trees were built with.
    pub estimates: Vec<AtomEstimate>,
}

/// The plan of all clauses.
#[derive(Debug, Clone)]
pub struct RulePlan {
    /// In the order in which they are probed.
    pub groups: Vec<EntryGroup>,
}

/// So many partners a row are verified faster than an index of their similarity is built and probed.
const FEW_PARTNERS: f64 = 64.0;

impl RulePlan {
    /// Chooses entries for `clauses` and orders what is left to verify.
    pub fn of(kinds: &[AtomKind], clauses: &[Vec<usize>], statistics: &dyn Statistics) -> Self {
        let mut entries: Vec<(Entry, f64, Vec<usize>)> = Vec::new();
        for (number, clause) in clauses.iter().enumerate() {
            let (entry, partners) = entry(kinds, clause, statistics);
            match entries.iter_mut().find(|(known, ..)| *known == entry) {
                Some((_, _, numbers)) => numbers.push(number),
                None => entries.push((entry, partners, vec![number])),
            }
        }
        let mut before: Vec<(usize, Vec<usize>)> = Vec::new();
        let groups = entries.into_iter().map(|(entry, partners, numbers)| {
            let estimates = statistics.estimates(&entry);
            let left = |&number: &usize| {
                let atoms = clauses[number].iter().copied().filter(|&atom| !entry.decides(atom));
                (number, atoms.collect::<Vec<_>>())
            };
            let tree = ExecutionTree::of(&numbers.iter().map(left).collect::<Vec<_>>(), &estimates);
            let earlier = match before.is_empty() {
                true => ExecutionTree::default(),
                false => ExecutionTree::of(&before, &estimates),
            };
            before.extend(numbers.iter().map(|&number| (number, clauses[number].clone())));
            EntryGroup { entry, partners, clauses: numbers, tree, earlier, estimates }
        });
        Self { groups: groups.collect() }
    }
}

/// By all equalities of a clause, unless they leave many partners and a similarity condition has an index.
fn entry(kinds: &[AtomKind], clause: &[usize], statistics: &dyn Statistics) -> (Entry, f64) {
    let keys: Vec<usize> = clause.iter().copied().filter(|&atom| kinds[atom] == AtomKind::Equality).collect();
    let indexed = clause.iter().copied().filter_map(|atom| match kinds[atom] {
        AtomKind::Similarity(test) => Some((entry_rank(&test), atom)),
        _ => None,
    });
    let partners = statistics.partners(&keys);
    match indexed.min() {
        Some((_, atom)) if keys.is_empty() || partners > FEW_PARTNERS => (Entry::Index { atom, keys }, partners),
        _ => (Entry::Hash(keys), partners),
    }
}

/// What EXPLAIN goes by before any row is read.
#[derive(Debug)]
pub struct AssumedStatistics<'a> {
    /// The atoms.
    pub kinds: &'a [AtomKind],
    /// Rows of the build side, where known.
    pub rows: Option<usize>,
}

/// How selective an equality is held to be.
const EQUAL: f64 = 0.01;
/// How selective a similarity is held to be.
const SIMILAR: f64 = 0.02;
/// How selective anything else is held to be.
const OTHER: f64 = 0.5;
/// How many rows an input is held to have.
const ROWS: usize = 10_000;
/// How long a key is held to be.
const LENGTH: f64 = 12.0;

impl Statistics for AssumedStatistics<'_> {
    fn partners(&self, keys: &[usize]) -> f64 {
        (self.rows.unwrap_or(ROWS) as f64 * EQUAL.powi(keys.len() as i32)).max(1.0)
    }

    fn estimates(&self, _entry: &Entry) -> Vec<AtomEstimate> {
        let estimate = |kind: &AtomKind| match kind {
            AtomKind::Equality => AtomEstimate { cost: cost::EQUALITY, passes: EQUAL, last: false },
            AtomKind::Similarity(test) => {
                AtomEstimate { cost: cost::of_test(*test, LENGTH), passes: SIMILAR, last: false }
            }
            AtomKind::OneSided => AtomEstimate { cost: cost::ONE_SIDED, passes: OTHER, last: false },
            AtomKind::Pair => AtomEstimate { cost: cost::EXPRESSION, passes: OTHER, last: true },
        };
        self.kinds.iter().map(estimate).collect()
    }
}
