//! What a plan of rules is made from: the groups of the build side, and pairs drawn from them.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use foldhash::fast::FixedState;

use super::grouping::{GroupedByKeys, Grouping};
use crate::accelerator::Accelerator;
use crate::accelerator::rules::DeviceRules;
use crate::atoms::{AtomColumn, AtomCondition, RuleRows};
use crate::condition::Condition;
use crate::cpu::columns::{AtomDeciders, BuildAtoms, Columns};
use crate::cpu::fingerprints::{Detail, Fingerprints, bound};
use crate::cpu::rules::probing::FEWEST_LANES;
use crate::equality::Numberer;
use crate::parallel::{both, in_turn, threads_within};
use crate::plan::{AtomEstimate, AtomKind, Entry, IN_BAND, Statistics, cost};
use crate::repeated::{FEWEST_ROWS, estimated_mean_rows};
use crate::{BuildContext, Cancel, ColumnPair, KeyColumn, Pairs};

/// How many pairs are drawn for an entry.
const DRAWN: usize = 512;

/// Rows grouped by some keys, and pairs drawn from the groups.
#[derive(Debug)]
struct DrawnGroups {
    of: GroupedByKeys,
    /// Pairs of different rows, evenly drawn from those that share a group; from all pairs, where groups are single
    /// rows.
    drawn: Pairs,
    /// Drawn pairs as places among the sampled strings.
    places: Pairs,
    /// The groups of the first rows of the sample.
    sampled: Vec<u32>,
    /// Outcome of the drawn pairs by atom, as far as it has been asked.
    outcomes: Vec<OnceLock<Outcome>>,
}

/// Outcome of drawn pairs.
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
pub struct Sample {
    /// Rows, ascending by fingerprint.
    pub rows: Vec<u32>,
    /// An exponential variate for each.
    pub variates: Vec<f64>,
    /// What fingerprints are made of.
    pub detail: Detail,
}

/// Rows of a sample.
pub const SAMPLED: usize = 1 << 13;

/// Rows of a sample that tell how many rows have the same value.
const COUNTED: usize = 1 << 11;

/// Rows of a group, itself included, that are looked at for a row without another of its group in the sample, unless
/// too few rows have one.
const LOOKED_AT: usize = 1 << 4;

/// Whether most of some fingerprints, ascending, are of one row.
fn are_diverse(least: &[(u64, u32)]) -> bool {
    2 * least.chunk_by(|one, other| one.0 == other.0).count() >= least.len()
}

impl Sample {
    /// Sample of a build side. A device to which the side has been brought draws it where it can; otherwise up to so
    /// many threads do.
    pub fn of(
        BuildAtoms { deciders, columns }: BuildAtoms<'_>,
        keys: &[ArrayRef],
        device: Option<&mut Box<dyn DeviceRules>>,
        threads: usize,
    ) -> Result<Self> {
        let rows = columns.rows;
        let draw = |rules: &mut Box<dyn DeviceRules>| rules.least_prints(rows, SAMPLED, bound(rows, SAMPLED));
        let drawn = device.map(draw).transpose()?.flatten();
        let least = |detail| Fingerprints::new(columns, deciders, keys, detail)?.least(SAMPLED, threads);
        // long strings are read only where rows are not told apart by what stands in their views
        let (mut detail, mut sampled) = (Detail::Views, drawn.map_or_else(|| least(Detail::Views), Ok)?);
        if !are_diverse(&sampled) {
            (detail, sampled) = (Detail::Strings, least(Detail::Strings)?);
        }
        Ok(Self::new(sampled, detail))
    }

    fn new(sampled: Vec<(u64, u32)>, detail: Detail) -> Self {
        let hasher = FixedState::default();
        let variate = |&(print, _): &(u64, u32)| {
            let uniform = (hasher.hash_one(print) >> 11) as f64 / (1u64 << 53) as f64;
            -uniform.max(f64::MIN_POSITIVE).ln()
        };
        let variates = sampled.iter().map(variate).collect();
        Self { rows: sampled.into_iter().map(|(_, row)| row).collect(), variates, detail }
    }

    /// Pairs of different rows, evenly drawn from those that share a group, as far as the sample reaches, but for
    /// groups of many rows of which one alone was sampled: they come last. Of any rows, where none share a group. The
    /// sampled rows have the groups `of_rows`.
    fn draw(&self, grouping: &Grouping, of_rows: &[u32], fingerprints: &Fingerprints<'_>) -> Result<Pairs> {
        let hasher = FixedState::default();
        // all that is looked up at random is asked for before any of it is needed
        let places: Vec<Range<usize>> = of_rows.iter().map(|&group| grouping.places(group)).collect();
        let with_partners: Vec<usize> = (0..self.rows.len()).filter(|&at| places[at].len() > 1).collect();
        // those of one group side by side, in their order
        let mut by_group: Vec<u64> =
            with_partners.iter().map(|&at| u64::from(of_rows[at]) << u32::BITS | at as u64).collect();
        by_group.sort_unstable();
        let mut others: Vec<&[u64]> = vec![&[]; self.rows.len()];
        for group in by_group.chunk_by(|one, other| one >> u32::BITS == other >> u32::BITS) {
            group.iter().for_each(|&at| others[at as u32 as usize] = group);
        }
        // a row is in as many pairs as its group has other rows: the least of exponential variates by these weights;
        // rows whose partners have to be looked for among many come last
        let is_far = |at: usize| others[at].len() < 2 && places[at].len() > LOOKED_AT;
        let mut weighted: Vec<(bool, f64, usize)> = with_partners
            .into_iter()
            .map(|at| (is_far(at), self.variates[at] / (places[at].len() - 1) as f64, at))
            .collect();
        let order = |a: &(bool, f64, usize), b: &(bool, f64, usize)| {
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        };
        if weighted.len() > DRAWN {
            weighted.select_nth_unstable_by(DRAWN, order);
            weighted.truncate(DRAWN);
        }
        weighted.sort_unstable_by(order);
        // of groups of which no other row was sampled all rows are looked at, and their fingerprints where there is a
        // choice
        let alone = || weighted.iter().map(|&(.., at)| at).filter(|&at| others[at].len() < 2);
        let asked: Vec<u32> = alone().flat_map(|at| places[at].clone()).map(|place| place as u32).collect();
        let asked = grouping.rows_at(&asked)?;
        let (mut chosen_from, mut rest) = (Vec::with_capacity(asked.len()), asked.as_slice());
        for at in alone() {
            let (group, behind) = rest.split_at(places[at].len());
            chosen_from.extend_from_slice(if group.len() > 2 { group } else { &[] });
            rest = behind;
        }
        let prints = fingerprints.of_rows(&chosen_from)?;
        let (mut asked, mut prints) = (asked.as_slice(), prints.as_slice());
        let mut pairs = Pairs::default();
        for (n, &(.., at)) in weighted.iter().enumerate() {
            let (row, others) = (self.rows[at], others[at]);
            let partner = if others.len() > 1 {
                let place = others.partition_point(|&other| (other as u32 as usize) < at);
                let step = 1 + (hasher.hash_one(n) % (others.len() as u64 - 1)) as usize;
                self.rows[others[(place + step) % others.len()] as u32 as usize]
            } else {
                let (group, behind) = asked.split_at(places[at].len());
                asked = behind;
                let partner = if group.len() > 2 {
                    let (of_group, behind) = prints.split_at(group.len());
                    prints = behind;
                    let own = group.iter().position(|&other| other == row).map_or(0, |own| of_group[own]);
                    let partners = group.iter().zip(of_group).filter(|(other, _)| **other != row);
                    partners.min_by_key(|(_, print)| hasher.hash_one(*print ^ own)).map(|(other, _)| other)
                } else {
                    group.iter().find(|other| **other != row)
                };
                partner.copied().unwrap_or(row)
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
pub struct BuildStatistics<'a> {
    deciders: &'a AtomDeciders,
    build: &'a Columns,
    /// Keys of similarities.
    keys: &'a [ArrayRef],
    /// The first rows of the sample; none where an index compares rows, whatever their values are.
    counted: Vec<u32>,
    /// The codes and strings of rows that were drawn.
    sampled: Columns,
    cancel: &'a Cancel,
    /// Drawn groups by the keys of each clause.
    grouped: Vec<DrawnGroups>,
    /// The atoms that no pair passes; in a self-join alone this is known before a row is probed.
    impossible: Vec<bool>,
}

impl<'a> BuildStatistics<'a> {
    /// Groups the rows by the keys of each clause, with up to so many threads as `context` says, or on a device, and
    /// draws pairs of those of a sample, which is taken meanwhile.
    pub fn new(
        BuildAtoms { deciders, columns: build }: BuildAtoms<'a>,
        keys: &'a [ArrayRef],
        sample: impl FnOnce() -> Result<Sample>,
        clauses: &[Vec<usize>],
        device: Option<&dyn Accelerator>,
        &BuildContext { threads, self_join, cancel, overrides, .. }: &BuildContext<'a>,
    ) -> Result<Self> {
        let mut wanted: Vec<Vec<usize>> = Vec::new();
        for clause in clauses {
            let is_key = |&atom: &usize| AtomKind::from(&deciders.conditions[atom]).is_key();
            let keys: Vec<usize> = clause.iter().copied().filter(is_key).collect();
            if !wanted.contains(&keys) {
                wanted.push(keys);
            }
        }
        let by = Numberer { threads: threads_within(wanted.len(), threads), self_join, device };
        let group = |at: usize| Grouping::build(build, &deciders.conditions, &wanted[at], &by);
        let (groupings, sample) = both(|| in_turn(wanted.len(), threads, group), sample);
        let (groupings, sample) = (groupings?, sample?);
        let fingerprints = Fingerprints::new(build, deciders, keys, sample.detail)?;
        let drawn = in_turn(groupings.len(), threads, |at| {
            let (grouping, groups) = &groupings[at];
            let mut sampled = groups.of(&sample.rows)?;
            let drawn = sample.draw(grouping, &sampled, &fingerprints)?;
            sampled.truncate(COUNTED);
            Ok((drawn, sampled))
        })?;
        let of_keys = |((keys, (grouping, groups)), (drawn, sampled))| {
            let outcomes = deciders.conditions.iter().map(|_| OnceLock::new()).collect();
            let of = GroupedByKeys { keys, grouping: Arc::new(grouping), groups };
            DrawnGroups { of, drawn, places: Pairs::default(), sampled, outcomes }
        };
        let mut grouped: Vec<DrawnGroups> = wanted.into_iter().zip(groupings).zip(drawn).map(of_keys).collect();
        let mut rows: Vec<u32> = Vec::new();
        for DrawnGroups { drawn, places, .. } in &mut grouped {
            for (drawn, places) in [(&drawn.build, &mut places.build), (&drawn.probe, &mut places.probe)] {
                places.extend(rows.len() as u32..(rows.len() + drawn.len()) as u32);
                rows.extend_from_slice(drawn);
            }
        }
        let sampled = build.sampled(&rows, threads)?;
        let impossible = if self_join { build.impossible(build) } else { vec![false; deciders.conditions.len()] };
        let mut counted = if overrides.repeated { sample.rows } else { Vec::new() };
        counted.truncate(COUNTED);
        let statistics = Self { deciders, build, keys, counted, sampled, cancel, grouped, impossible };
        statistics.foresee(clauses, threads)?;
        Ok(statistics)
    }

    /// Finds out side by side what a plan asks one after the other: about the clauses of some keys, and all before
    /// them.
    fn foresee(&self, clauses: &[Vec<usize>], threads: usize) -> Result<()> {
        let mut asked = Vec::new();
        for grouped in &self.grouped {
            let keys = &grouped.of.keys;
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

    /// The groups by the keys of each clause.
    pub(super) fn into_groups(self) -> Vec<GroupedByKeys> {
        self.grouped.into_iter().map(|grouped| grouped.of).collect()
    }

    /// The groups by these keys, those of some clause.
    fn groups(&self, keys: &[usize]) -> Option<&DrawnGroups> {
        self.grouped.iter().find(|grouped| grouped.of.keys == keys)
    }

    /// What becomes of the drawn pairs; `None` for atoms that nothing is known of before a query runs.
    fn outcome(&self, grouped: &DrawnGroups, atom: usize) -> Option<Outcome> {
        match (self.deciders.conditions[atom], &self.build.atoms[atom]) {
            (AtomCondition::Pair, _) => return None,
            (_, AtomColumn::Band(band)) if band.accepted.is_empty() => return None,
            _ => {}
        }
        let (columns, drawn) = match self.build.is_sampled(atom) {
            true => (&self.sampled, &grouped.places),
            false => (self.build, &grouped.drawn),
        };
        Some(*grouped.outcomes[atom].get_or_init(|| {
            let (places, mut passed) = ((0..drawn.len() as u16).collect::<Vec<_>>(), Vec::new());
            let stop = || self.cancel.is_cancelled();
            let both = ColumnPair { build: columns, probe: columns };
            self.deciders.select(atom, both, drawn, &places, &stop, &mut passed);
            Outcome {
                passes: (passed.len() as f64 + 0.5) / (drawn.len() as f64 + 1.0),
                open: self.deciders.open(atom, columns, drawn) as f64 / drawn.len().max(1) as f64,
                length: columns.mean_length(atom),
            }
        }))
    }

    fn estimate(&self, atom: usize, grouped: &DrawnGroups, side_by_side: bool) -> AtomEstimate {
        let Some(Outcome { passes, open, length }) = self.outcome(grouped, atom) else {
            return match self.deciders.conditions[atom] {
                AtomCondition::Band => AtomEstimate::uniform(cost::BAND, IN_BAND),
                _ => AtomEstimate { last: true, ..AtomEstimate::uniform(cost::EXPRESSION, 0.5) },
            };
        };
        match self.deciders.conditions[atom] {
            AtomCondition::Similarity { condition, .. } => {
                let estimate = cost::of_test(condition, length, open, passes);
                match self.build.first_of_key(atom) {
                    _ if side_by_side => estimate,
                    key => cost::one_by_one(estimate, key),
                }
            }
            AtomCondition::Equality => AtomEstimate::uniform(cost::EQUALITY, passes),
            AtomCondition::Band => AtomEstimate::uniform(cost::BAND, passes),
            AtomCondition::OneSided | AtomCondition::EitherSide | AtomCondition::Pair => {
                AtomEstimate::uniform(cost::ONE_SIDED, passes)
            }
        }
    }
}

impl Statistics for BuildStatistics<'_> {
    fn is_possible(&self, clause: &[usize]) -> bool {
        !clause.iter().any(|&atom| self.impossible[atom])
    }

    fn partners(&self, keys: &[usize]) -> f64 {
        self.groups(keys).map_or(0.0, |grouped| grouped.of.grouping.mean_partners())
    }

    fn rows_of_value(&self, keys: &[usize], atom: usize) -> f64 {
        let (AtomCondition::Similarity { key, condition: Condition::Edit { .. } }, Some(grouped), false) =
            (self.deciders.conditions[atom], self.groups(keys), self.counted.is_empty())
        else {
            return 1.0;
        };
        // values that cannot be read fail where they are indexed
        let sampled = take(&self.keys[key], &UInt32Array::from(self.counted.clone()), None).map_err(Error::from);
        let sampled = sampled.map(|values| KeyColumn { values, groups: Some(grouped.sampled.clone()) });
        let rows = sampled.and_then(|sampled| estimated_mean_rows(&sampled, self.build.rows)).unwrap_or(1.0);
        if rows >= FEWEST_ROWS { rows } else { 1.0 }
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
        (0..self.deciders.conditions.len()).map(estimate).collect()
    }
}
