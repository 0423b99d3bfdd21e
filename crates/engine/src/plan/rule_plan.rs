//! How clauses are entered: groups of clauses that share an entry, each with its execution tree.

use super::cost;
use super::tree::{AtomEstimate, ExecutionTree};
use crate::condition::Condition;

/// What produces the candidates of a clause. Atoms are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Rows that agree in all of these equalities and pass all of these conditions of one side; all rows with all,
    /// where there are none.
    Hash(Vec<usize>),
    /// The index of a similarity condition, within the groups of these keys.
    Index {
        /// The similarity condition.
        atom: usize,
        /// Equalities and conditions of one side.
        keys: Vec<usize>,
    },
    /// Rows in the order of a band, within the groups of these keys.
    Band {
        /// The band.
        atom: usize,
        /// Equalities and conditions of one side.
        keys: Vec<usize>,
    },
}

impl Entry {
    /// The equalities that rows of a pair agree in, and the conditions that they pass.
    pub fn keys(&self) -> &[usize] {
        match self {
            Self::Hash(keys) | Self::Index { keys, .. } | Self::Band { keys, .. } => keys,
        }
    }

    /// Whether a candidate of this entry has passed `atom`.
    pub fn decides(&self, atom: usize) -> bool {
        match self {
            Self::Hash(keys) => keys.contains(&atom),
            Self::Index { atom: entry, keys } | Self::Band { atom: entry, keys } => {
                *entry == atom || keys.contains(&atom)
            }
        }
    }
}

/// What an atom is to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomKind {
    /// Served by hashing.
    Equality,
    /// Served by an index of its own.
    Similarity(Condition),
    /// Served by sorting.
    Band,
    /// A condition over one side: rows that fail it are left out.
    OneSided,
    /// A condition over the left row, or one over the right row: served by nothing, and decided once a row.
    EitherSide,
    /// Any other condition, served by nothing.
    Pair,
}

impl AtomKind {
    /// Whether rows that a hash entry pairs have passed it.
    pub fn is_key(self) -> bool {
        matches!(self, Self::Equality | Self::OneSided)
    }
}

/// What is known of the data.
pub trait Statistics {
    /// How many build rows a probe row meets on average that agrees with it in all of these keys.
    fn partners(&self, keys: &[usize]) -> f64;

    /// How many rows that agree in these keys have the same value of a similarity on average, where an index compares
    /// each value once; 1 where it compares rows.
    fn rows_of_value(&self, _keys: &[usize], _atom: usize) -> f64 {
        1.0
    }

    /// Whether some pair may satisfy a clause, as far as it is known.
    fn is_possible(&self, _clause: &[usize]) -> bool {
        true
    }

    /// The estimates of `atoms` over candidates of `entry`; what is said of other atoms means nothing.
    fn estimates(&self, entry: &Entry, atoms: &[usize]) -> Vec<AtomEstimate>;
}

/// Clauses entered together.
#[derive(Debug, Clone)]
pub struct EntryGroup {
    /// What produces the candidates.
    pub entry: Entry,
    /// How many candidates a probe row has on average.
    pub partners: f64,
    /// The clauses, by number.
    pub clauses: Vec<usize>,
    /// Nanoseconds that a candidate is expected to take.
    pub cost: f64,
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
    /// What each atom is.
    pub kinds: Vec<AtomKind>,
    /// Groups of clauses, in the order in which they are probed.
    pub groups: Vec<EntryGroup>,
}

impl RulePlan {
    /// Chooses entries for `clauses` and orders what is left to verify; `all` is to return so many groups, in order,
    /// however it calls for them.
    pub fn of(
        kinds: &[AtomKind],
        clauses: &[Vec<usize>],
        statistics: &(dyn Statistics + Sync),
        all: impl FnOnce(usize, &(dyn Fn(usize) -> EntryGroup + Sync)) -> Vec<EntryGroup>,
    ) -> Self {
        let entries = entries(kinds, clauses, statistics);
        let groups = all(entries.len(), &|at| {
            let (entry, partners, numbers) = &entries[at];
            let whole = |&number: &usize| (number, clauses[number].clone());
            let before: Vec<_> = entries[..at].iter().flat_map(|(.., numbers)| numbers.iter().map(whole)).collect();
            let asked = numbers.iter().flat_map(|&number| clauses[number].iter().copied());
            let asked: Vec<usize> = asked.chain(before.iter().flat_map(|(_, atoms)| atoms.iter().copied())).collect();
            let estimates = statistics.estimates(entry, &asked);
            let left = |&number: &usize| {
                let atoms = clauses[number].iter().copied().filter(|&atom| !entry.decides(atom));
                (number, atoms.collect::<Vec<_>>())
            };
            let left: Vec<_> = numbers.iter().map(left).collect();
            let tree = ExecutionTree::of(&left, &estimates);
            let cost = cost::PAIR + ExecutionTree::expected_cost(&left, &estimates);
            let earlier = match before.is_empty() {
                true => ExecutionTree::default(),
                false => ExecutionTree::by_rank(&before, &estimates),
            };
            let (entry, partners, clauses) = (entry.clone(), *partners, numbers.clone());
            EntryGroup { entry, partners, clauses, cost, tree, earlier, estimates }
        });
        Self { kinds: kinds.to_vec(), groups }
    }
}

/// Trees of an entry for an engine that decides or filters by some atoms only: what they leave, another engine decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefilter {
    /// Tree of the clauses of the entry, without the atoms that nothing is known of. A pair without a witness satisfies
    /// none of these clauses.
    pub tree: ExecutionTree,
    /// Tree of those whole clauses of the entries before whose atoms are all decided. A pair with a witness came out
    /// there.
    pub earlier: ExecutionTree,
}

/// Share of candidates that a prefilter may leave, as it is expected. The share is by design, not measured.
const MOST_LEFT: f64 = 0.5;

impl RulePlan {
    /// Trees of the group at a place for an engine that `filters` by some atoms, and `decides` some of these; `None`
    /// where they would leave most pairs.
    pub fn prefilter(
        &self,
        at: usize,
        clauses: &[Vec<usize>],
        filters: impl Fn(usize) -> bool,
        decides: impl Fn(usize) -> bool,
    ) -> Option<Prefilter> {
        let EntryGroup { entry, clauses: own, estimates, .. } = &self.groups[at];
        let left = |&number: &usize| {
            let atoms = clauses[number].iter().copied().filter(|&atom| !entry.decides(atom) && filters(atom));
            (number, atoms.collect())
        };
        let own: Vec<(usize, Vec<usize>)> = own.iter().map(left).collect();
        let passes =
            |(_, atoms): &(usize, Vec<usize>)| atoms.iter().map(|&atom| estimates[atom].passes).product::<f64>();
        if own.iter().map(passes).sum::<f64>() > MOST_LEFT {
            return None;
        }
        let tree = ExecutionTree::of(&own, estimates);
        let decided = |number: &usize| clauses[*number].iter().all(|&atom| decides(atom));
        let before = self.groups[..at].iter().flat_map(|group| &group.clauses).filter(|number| decided(number));
        let before: Vec<_> = before.map(|&number| (number, clauses[number].clone())).collect();
        let earlier = ExecutionTree::by_rank(&before, estimates);
        Some(Prefilter { tree, earlier })
    }
}

/// An entry, the candidates of a row, and the clauses that it serves.
type Served = (Entry, f64, Vec<usize>);

/// The entries of all clauses that some pair may satisfy, in the order of the first clause of each.
fn entries(kinds: &[AtomKind], clauses: &[Vec<usize>], statistics: &dyn Statistics) -> Vec<Served> {
    let mut by_keys: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    let possible = clauses.iter().enumerate().filter(|(_, clause)| statistics.is_possible(clause));
    for (number, clause) in possible {
        let keys: Vec<usize> = clause.iter().copied().filter(|&atom| kinds[atom].is_key()).collect();
        match by_keys.iter_mut().find(|(known, _)| *known == keys) {
            Some((_, numbers)) => numbers.push(number),
            None => by_keys.push((keys, vec![number])),
        }
    }
    let mut all: Vec<Served> = Vec::new();
    for (keys, numbers) in by_keys {
        let partners = statistics.partners(&keys);
        for (entry, found, served) in entries_within(kinds, clauses, &keys, partners, &numbers, statistics) {
            match all.iter_mut().find(|(known, ..)| *known == entry) {
                Some((.., known)) => known.extend(served),
                None => all.push((entry, found, served)),
            }
        }
    }
    all.sort_by_key(|(.., served)| served.first().copied());
    all
}

/// An entry for each of the clauses that share their equalities: one pass over the pairs that agree in these, for some
/// or all of them, or an index of another atom, by what either costs a probe row.
fn entries_within(
    kinds: &[AtomKind],
    clauses: &[Vec<usize>],
    keys: &[usize],
    partners: f64,
    numbers: &[usize],
    statistics: &dyn Statistics,
) -> Vec<Served> {
    let hash = Entry::Hash(keys.to_vec());
    let asked: Vec<usize> = numbers.iter().flat_map(|&number| clauses[number].iter().copied()).collect();
    let estimates = statistics.estimates(&hash, &asked);
    let verification = |clause: &[usize], decided: Option<usize>| {
        let left = clause.iter().copied().filter(|&atom| !keys.contains(&atom) && decided != Some(atom));
        ExecutionTree::expected_cost(&[(0, left.collect())], &estimates)
    };
    // an entry with its cost, and the candidates of a row
    let index = |clause: &[usize], atom: usize| {
        let keys = keys.to_vec();
        let found = partners * estimates[atom].passes;
        match kinds[atom] {
            AtomKind::Similarity(condition) => {
                // not asked where what an index finds takes longer than a look at all pairs
                let same = match found * cost::FOUND < partners * verification(clause, None) {
                    true => statistics.rows_of_value(&keys, atom),
                    false => 1.0,
                };
                let cost = cost::of_index(&condition, partners, same) + found * cost::FOUND;
                Some((cost, found, Entry::Index { atom, keys }))
            }
            AtomKind::Band => {
                let cost = cost::SORTED_ROW + found * (cost::PAIR + verification(clause, Some(atom)));
                Some((cost, found, Entry::Band { atom, keys }))
            }
            AtomKind::Equality | AtomKind::OneSided | AtomKind::EitherSide | AtomKind::Pair => None,
        }
    };
    let choices = numbers.iter().map(|&number| {
        let clause = clauses[number].as_slice();
        let indexed = clause.iter().filter_map(|&atom| index(clause, atom));
        let index = indexed.min_by(|(a, ..), (b, ..)| a.total_cmp(b));
        (number, partners * verification(clause, None), index)
    });
    let choices: Vec<_> = choices.collect();
    let cost = |index: &Option<(f64, f64, Entry)>| index.as_ref().map_or(f64::INFINITY, |(cost, ..)| *cost);
    let by_index: f64 = choices.iter().map(|(.., index)| cost(index)).sum();
    let with_hash =
        partners * cost::PAIR + choices.iter().map(|(_, verify, index)| cost(index).min(*verify)).sum::<f64>();
    // all pairs only where no atom of a clause has an index
    let all_pairs = !keys.iter().any(|&key| kinds[key] == AtomKind::Equality);
    let entry = |(number, verify, index): (usize, f64, Option<(f64, f64, Entry)>)| match index {
        Some((cost, found, entry)) if all_pairs || by_index < with_hash || cost < verify => {
            (entry, found, vec![number])
        }
        _ => (hash.clone(), partners, vec![number]),
    };
    choices.into_iter().map(entry).collect()
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
/// How selective a band is held to be, also where nothing is known of one side.
pub const IN_BAND: f64 = 0.05;
/// How selective anything else is held to be.
const OTHER: f64 = 0.5;
/// How many rows an input is held to have.
const ROWS: usize = 10_000;
/// Share of pairs for which a measure is assumed to be computed.
const OPEN: f64 = 0.1;
/// How long a key is held to be.
const LENGTH: f64 = 12.0;

impl Statistics for AssumedStatistics<'_> {
    fn partners(&self, keys: &[usize]) -> f64 {
        let passes = |&key: &usize| if self.kinds[key] == AtomKind::Equality { EQUAL } else { OTHER };
        (self.rows.unwrap_or(ROWS) as f64 * keys.iter().map(passes).product::<f64>()).max(1.0)
    }

    fn estimates(&self, _entry: &Entry, _atoms: &[usize]) -> Vec<AtomEstimate> {
        let estimate = |kind: &AtomKind| match kind {
            AtomKind::Equality => AtomEstimate::uniform(cost::EQUALITY, EQUAL),
            AtomKind::Similarity(condition) => cost::of_test(*condition, LENGTH, OPEN, SIMILAR),
            AtomKind::Band => AtomEstimate::uniform(cost::BAND, IN_BAND),
            AtomKind::OneSided | AtomKind::EitherSide => AtomEstimate::uniform(cost::ONE_SIDED, OTHER),
            AtomKind::Pair => AtomEstimate { last: true, ..AtomEstimate::uniform(cost::EXPRESSION, OTHER) },
        };
        self.kinds.iter().map(estimate).collect()
    }
}

#[cfg(test)]
mod tests {
    use similarity_measures::EditMeasure;

    use super::*;
    use crate::condition::Bounds;

    #[test]
    fn a_prefilter_leaves_atoms_out() {
        let edit = Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(1.0, true) };
        let similar = AtomKind::Similarity(edit);
        let kinds = [AtomKind::Equality, AtomKind::Equality, similar, similar, AtomKind::Pair];
        // of the first entry, of the second, and of the third
        let clauses = [vec![0, 2, 4], vec![0, 3], vec![1, 2, 3, 4], vec![0, 1, 4]];
        let statistics = AssumedStatistics { kinds: &kinds, rows: None };
        let all = |count, group: &(dyn Fn(usize) -> EntryGroup + Sync)| (0..count).map(group).collect();
        let plan = RulePlan::of(&kinds, &clauses, &statistics, all);
        let of_entries: Vec<&[usize]> = plan.groups.iter().map(|group| group.clauses.as_slice()).collect();
        assert_eq!(of_entries, [&[0, 1][..], &[2], &[3]]);
        let prefilter = |at| plan.prefilter(at, &clauses, |atom| atom != 4, |atom| atom != 4);
        let atoms = |tree: &ExecutionTree| {
            let mut atoms: Vec<usize> = tree.steps.iter().map(|step| step.atom).collect();
            atoms.sort_unstable();
            atoms
        };
        let shown = |at| prefilter(at).map(|Prefilter { tree, earlier }| (atoms(&tree), atoms(&earlier)));
        assert_eq!(shown(0), Some((vec![2, 3], vec![])));
        // of the two clauses before, one has an atom that is left out
        assert_eq!(shown(1), Some((vec![2, 3], vec![0, 3])));
        // nothing is left that tells candidates apart
        assert_eq!(shown(2), None);
        // what only filters tells them apart, and says nothing of the clauses before
        let filtered = |at| plan.prefilter(at, &clauses, |_| true, |atom| atom != 4);
        let shown = |at| filtered(at).map(|Prefilter { tree, earlier }| (atoms(&tree), atoms(&earlier)));
        assert_eq!(shown(2), Some((vec![4], vec![0, 3])));
        let witnesses: Vec<_> =
            prefilter(0).into_iter().flat_map(|of| of.tree.steps).map(|step| step.witness).collect();
        assert!(witnesses.iter().all(Option::is_some), "{witnesses:?}");
    }
}
