//! What a plan of rules is made from: the groups of the build side, and pairs drawn from them.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result};
use foldhash::fast::FixedState;

use super::grouping::{Grouping, GroupsByRow};
use crate::engine::atoms::{AtomColumn, AtomTest, BandColumn, RuleRows};
use crate::engine::cpu::columns::{Columns, Tests};
use crate::engine::cpu::edit::Detail;
use crate::engine::cpu::rules::probing::FEWEST_LANES;
use crate::engine::cuda::Budget;
use crate::engine::keys::NumberedBy;
use crate::engine::parallel::{each_in_parallel, in_turn, ranges, threads_within};
use crate::engine::{BuildContext, Cancel, Pairs};
use crate::program::{AtomEstimate, AtomKind, Entry, IN_BAND, Statistics, cost};

/// How many pairs are drawn for an entry.
const DRAWN: usize = 1024;

/// A grouping, and the group of each build row.
#[derive(Debug)]
pub(super) struct DrawnGroups {
    pub(super) grouping: Arc<Grouping>,
    pub(super) groups: GroupsByRow,
    /// Pairs of different rows, evenly drawn from those that share a group; from all pairs, where groups are single rows.
    drawn: Pairs,
    /// The same, as places among the sampled strings.
    places: Pairs,
    /// What came of them, by atom, as far as it has been asked.
    outcomes: Vec<OnceLock<Outcome>>,
}

/// Of drawn pairs.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    /// The share that passes.
    passes: f64,
    /// The share for which a measure has to be computed.
    open: f64,
    /// The mean length of keys, in characters or tokens.
    length: f64,
}

/// Rows that tell about all of them: those with the least fingerprints, so that it does not matter in which order rows
/// have come in.
pub(super) struct Sample {
    fingerprints: Vec<u64>,
    rows: Vec<u32>,
}

/// Of how many rows a sample consists.
const SAMPLED: usize = 1 << 13;

/// Below this many rows a thread costs more than it saves.
const WORTH_THREADS: usize = 1 << 16;

/// The rows with the `count` least fingerprints, in their order; of equal ones the first rows.
fn least(fingerprints: &[u64], count: usize, threads: usize) -> Vec<u32> {
    let up_to = |bound: u64| {
        let parts = each_in_parallel(ranges(fingerprints.len(), threads, WORTH_THREADS), |rows| {
            let least = rows.filter(|&row| fingerprints[row] <= bound);
            least.map(|row| (fingerprints[row], row as u32)).collect::<Vec<_>>()
        });
        parts.concat()
    };
    // fingerprints are spread evenly, but for rows that have the same one
    let share = (u64::MAX / fingerprints.len().max(1) as u64).saturating_mul(2 * count as u64);
    let mut rows = up_to(share);
    if rows.len() < count {
        rows = up_to(u64::MAX);
    }
    if rows.len() > count {
        rows.select_nth_unstable(count);
        rows.truncate(count);
    }
    rows.sort_unstable();
    rows.into_iter().map(|(_, row)| row).collect()
}

impl Sample {
    pub(super) fn of(columns: &Columns, tests: &Tests, keys: &[ArrayRef], threads: usize) -> Result<Self> {
        let by = |detail| {
            let fingerprints = columns.fingerprints(tests, keys, detail, threads)?;
            let rows = least(&fingerprints, SAMPLED, threads);
            Ok::<_, DataFusionError>(Self { fingerprints, rows })
        };
        // long strings are read only where rows are not told apart by what stands in their views
        let sample = by(Detail::Views)?;
        if sample.is_diverse() { Ok(sample) } else { by(Detail::Strings) }
    }

    /// Whether most of the rows have a fingerprint of their own.
    fn is_diverse(&self) -> bool {
        let differ = |rows: &&[u32]| self.fingerprints[rows[0] as usize] != self.fingerprints[rows[1] as usize];
        // equal ones stand side by side
        2 * self.rows.windows(2).filter(differ).count() + 2 >= self.rows.len()
    }

    /// Pairs of different rows, evenly drawn from those that share a group, as far as the sample reaches; of any rows,
    /// where none share one.
    fn draw(&self, grouping: &Grouping, groups: &GroupsByRow) -> Result<Pairs> {
        let hasher = FixedState::default();
        // all that is looked up at random is asked for before any of it is needed
        let of_rows = groups.of(&self.rows)?;
        let places: Vec<Range<usize>> = of_rows.iter().map(|&group| grouping.places(group)).collect();
        // a row is in as many pairs as its group has other rows: the least of exponential variates by these weights
        let mut weighted: Vec<(f64, usize)> = Vec::with_capacity(self.rows.len());
        for (at, (places, &row)) in
            places.iter().zip(&self.rows).enumerate().filter(|(_, (places, _))| places.len() > 1)
        {
            let random = (hasher.hash_one(self.fingerprints[row as usize]) >> 11) as f64 / (1u64 << 53) as f64;
            weighted.push((-random.max(f64::MIN_POSITIVE).ln() / (places.len() - 1) as f64, at));
        }
        // those of one group side by side, in their order
        let mut by_group: Vec<u64> =
            weighted.iter().map(|&(_, at)| u64::from(of_rows[at]) << u32::BITS | at as u64).collect();
        by_group.sort_unstable();
        let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if weighted.len() > DRAWN {
            weighted.select_nth_unstable_by(DRAWN, order);
            weighted.truncate(DRAWN);
        }
        weighted.sort_unstable_by(order);
        let sampled = |group: u32| {
            let behind = &by_group[by_group.partition_point(|other| other >> u32::BITS < u64::from(group))..];
            &behind[..behind.partition_point(|other| other >> u32::BITS == u64::from(group))]
        };
        // of groups of which no other row was sampled all rows are looked at
        let is_alone = |&&(_, at): &&(f64, usize)| sampled(of_rows[at]).len() < 2;
        let asked: Vec<u32> = weighted
            .iter()
            .filter(is_alone)
            .flat_map(|&(_, at)| places[at].clone())
            .map(|place| place as u32)
            .collect();
        let looked_at = grouping.rows_at(&asked)?;
        let mut looked_at = looked_at.as_slice();
        let mut pairs = Pairs::default();
        for (n, &(_, at)) in weighted.iter().enumerate() {
            let (row, others) = (self.rows[at], sampled(of_rows[at]));
            let partner = if others.len() > 1 {
                let place = others.partition_point(|&other| (other as u32 as usize) < at);
                let step = 1 + (hasher.hash_one(n) % (others.len() as u64 - 1)) as usize;
                self.rows[others[(place + step) % others.len()] as u32 as usize]
            } else {
                let own = self.fingerprints[row as usize];
                let distance = |other: &u32| hasher.hash_one(self.fingerprints[*other as usize] ^ own);
                let (group, behind) = looked_at.split_at(places[at].len());
                looked_at = behind;
                group.iter().copied().filter(|&other| other != row).min_by_key(distance).unwrap_or(row)
            };
            pairs.push(row, partner);
        }
        if pairs.is_empty() {
            self.rows.windows(2).take(DRAWN).for_each(|rows| pairs.push(rows[0], rows[1]));
        }
        Ok(pairs)
    }
}

/// Statistics over the build side, compared with itself.
#[derive(Debug)]
pub(super) struct BuildStatistics<'a> {
    tests: &'a Tests,
    build: &'a Columns,
    /// The codes and strings of rows that were drawn.
    sampled: Columns,
    cancel: &'a Cancel,
    /// By the keys of some clause.
    grouped: Vec<(Vec<usize>, DrawnGroups)>,
}

impl<'a> BuildStatistics<'a> {
    /// Groups the rows by the keys of each clause, with up to so many threads as `context` says, or on a device.
    pub(super) fn new(
        tests: &'a Tests,
        build: &'a Columns,
        sample: Sample,
        clauses: &[Vec<usize>],
        device: Option<&Budget>,
        &BuildContext { threads, own, cancel, .. }: &BuildContext<'a>,
    ) -> Result<Self> {
        let mut wanted: Vec<Vec<usize>> = Vec::new();
        for clause in clauses {
            let is_key = |&atom: &usize| AtomKind::from(&tests.kinds[atom]).is_key();
            let keys: Vec<usize> = clause.iter().copied().filter(is_key).collect();
            if !wanted.contains(&keys) {
                wanted.push(keys);
            }
        }
        let by = NumberedBy { threads: threads_within(wanted.len(), threads), own, device };
        let grouped = in_turn(wanted.len(), threads, |at| {
            let (grouping, groups) = Grouping::build(build, (&tests.kinds, &wanted[at]), &by)?;
            let drawn = sample.draw(&grouping, &groups)?;
            let outcomes = tests.kinds.iter().map(|_| OnceLock::new()).collect();
            Ok(DrawnGroups { grouping: Arc::new(grouping), groups, drawn, places: Pairs::default(), outcomes })
        })?;
        let mut grouped: Vec<(Vec<usize>, DrawnGroups)> = wanted.into_iter().zip(grouped).collect();
        let mut rows: Vec<u32> = Vec::new();
        for (_, DrawnGroups { drawn, places, .. }) in &mut grouped {
            for (drawn, places) in [(&drawn.build, &mut places.build), (&drawn.probe, &mut places.probe)] {
                places.extend(rows.len() as u32..(rows.len() + drawn.len()) as u32);
                rows.extend_from_slice(drawn);
            }
        }
        let sampled = build.sampled(&rows, threads)?;
        let statistics = Self { tests, build, sampled, cancel, grouped };
        statistics.foresee(clauses, threads)?;
        Ok(statistics)
    }

    /// Finds out side by side what a plan asks one after the other: about the clauses of some keys, and all before them.
    fn foresee(&self, clauses: &[Vec<usize>], threads: usize) -> Result<()> {
        let mut asked = Vec::new();
        for (keys, grouped) in &self.grouped {
            let are_keys = |clause: &Vec<usize>| keys.iter().all(|key| clause.contains(key));
            let last = clauses.iter().rposition(are_keys).unwrap_or(0);
            let mut atoms: Vec<usize> = clauses[..=last].concat();
            atoms.sort_unstable();
            atoms.dedup();
            asked.extend(atoms.into_iter().filter(|atom| !keys.contains(atom)).map(|atom| (grouped, atom)));
        }
        in_turn(asked.len(), threads, |at| {
            self.outcome(asked[at].0, asked[at].1);
            Ok(())
        })?;
        Ok(())
    }

    /// The groups by these keys, those of some clause.
    pub(super) fn groups(&self, keys: &[usize]) -> Option<&DrawnGroups> {
        self.grouped.iter().find(|(known, _)| known == keys).map(|(_, grouped)| grouped)
    }

    /// What becomes of the drawn pairs; `None` for atoms that nothing is known of before a query runs.
    fn outcome(&self, grouped: &DrawnGroups, atom: usize) -> Option<Outcome> {
        match (self.tests.kinds[atom], &self.build.atoms[atom]) {
            (AtomTest::Pair, _) => return None,
            (_, AtomColumn::Band(BandColumn { accepted, .. })) if accepted.is_empty() => return None,
            _ => {}
        }
        let (columns, drawn) = match self.build.is_sampled(atom) {
            true => (&self.sampled, &grouped.places),
            false => (self.build, &grouped.drawn),
        };
        Some(*grouped.outcomes[atom].get_or_init(|| {
            let (places, mut passed) = ((0..drawn.len() as u16).collect::<Vec<_>>(), Vec::new());
            let stop = || self.cancel.is_cancelled();
            self.tests.select(atom, (columns, columns), drawn, &places, &stop, &mut passed);
            Outcome {
                passes: (passed.len() as f64 + 0.5) / (drawn.len() as f64 + 1.0),
                open: self.tests.open(atom, columns, drawn) as f64 / drawn.len().max(1) as f64,
                length: columns.mean_length(atom),
            }
        }))
    }

    fn estimate(&self, atom: usize, grouped: &DrawnGroups, side_by_side: bool) -> AtomEstimate {
        let Some(Outcome { passes, open, length }) = self.outcome(grouped, atom) else {
            return match self.tests.kinds[atom] {
                AtomTest::Band => AtomEstimate::uniform(cost::BAND, IN_BAND),
                _ => AtomEstimate { last: true, ..AtomEstimate::uniform(cost::EXPRESSION, 0.5) },
            };
        };
        match self.tests.kinds[atom] {
            AtomTest::Similarity { test, .. } => {
                let estimate = cost::of_test(test, length, open, passes);
                match self.build.first_of_key(atom) {
                    _ if side_by_side => estimate,
                    key => cost::one_by_one(estimate, key),
                }
            }
            AtomTest::Equality => AtomEstimate::uniform(cost::EQUALITY, passes),
            AtomTest::Band => AtomEstimate::uniform(cost::BAND, passes),
            AtomTest::OneSided | AtomTest::Pair => AtomEstimate::uniform(cost::ONE_SIDED, passes),
        }
    }
}

impl Statistics for BuildStatistics<'_> {
    fn partners(&self, keys: &[usize]) -> f64 {
        self.groups(keys).map_or(0.0, |grouped| grouped.grouping.mean_partners())
    }

    fn estimates(&self, entry: &Entry, atoms: &[usize]) -> Vec<AtomEstimate> {
        let grouped = self.groups(entry.keys());
        let side_by_side = match entry {
            Entry::Hash(keys) | Entry::Band { keys, .. } => self.partners(keys) >= FEWEST_LANES as f64,
            Entry::Index { .. } => false,
        };
        let estimate = |atom| match grouped {
            Some(grouped) if atoms.contains(&atom) => self.estimate(atom, grouped, side_by_side),
            _ => AtomEstimate::UNKNOWN,
        };
        (0..self.tests.kinds.len()).map(estimate).collect()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;

    use super::*;
    use crate::engine::atoms::SideColumns;
    use crate::measure::EditMeasure;
    use crate::predicate::{Bounds, Test};

    /// The fingerprints of a sample of some strings.
    fn fingerprints(texts: impl Iterator<Item = Option<String>>) -> Vec<u64> {
        let key: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        let test = Test::Edit { measure: EditMeasure::Levenshtein, bounds: Bounds::at_most(1.0, true) };
        let kinds = vec![AtomTest::Similarity { key: 0, test }];
        let keys = vec![key];
        let side = SideColumns { rows: keys[0].len(), atoms: vec![AtomColumn::None], keys: keys.clone() };
        let cancel = Cancel::default();
        let (tests, columns) = Tests::build(kinds, side, &BuildContext::new(2, &cancel, &|_| Ok(()))).unwrap();
        Sample::of(&columns, &tests, &keys, 2).unwrap().fingerprints
    }

    fn distinct(mut fingerprints: Vec<u64>) -> usize {
        fingerprints.sort_unstable();
        fingerprints.dedup();
        fingerprints.len()
    }

    #[test]
    fn long_strings_are_read_where_views_do_not_tell_rows_apart() {
        let rows = 20_000u32;
        // of the same length, with the same beginning
        assert_eq!(
            distinct(fingerprints((0..rows).map(|row| Some(format!("a long string, {row:0>9}"))))),
            rows as usize
        );
        // most of them told apart by their length and four bytes: as far as these go
        let mixed = |row: u32| Some(if row % 10 == 0 { format!("a long string, {row:0>9}") } else { row.to_string() });
        assert_eq!(distinct(fingerprints((0..rows).map(mixed))), 9 * rows as usize / 10 + 1);
        // nothing more is to be read of what is the same
        assert_eq!(distinct(fingerprints((0..rows).map(|row| (row % 3 > 0).then(|| "the same, of all".into())))), 2);
        assert_eq!(distinct(fingerprints(std::iter::empty())), 0);
    }

    #[test]
    fn the_least_fingerprints_are_found() {
        let hasher = FixedState::default();
        let spread = |row: u64| hasher.hash_one(row);
        // some rows are many times the same
        let clustered = |row: u64| if !row.is_multiple_of(3) { u64::MAX - row % 2 } else { hasher.hash_one(row) };
        let all = |of: &dyn Fn(u64) -> u64, rows: u64| (0..rows).map(of).collect::<Vec<_>>();
        for fingerprints in [all(&spread, 200_000), all(&clustered, 150_000), all(&spread, 40), Vec::new()] {
            let mut expected: Vec<u32> = (0..fingerprints.len() as u32).collect();
            expected.sort_by_key(|&row| fingerprints[row as usize]);
            for count in [1, 50, 100_000, 200_000] {
                let expected = &expected[..count.min(expected.len())];
                assert_eq!(least(&fingerprints, count, 3), expected, "{count} of {}", fingerprints.len());
            }
        }
    }
}
