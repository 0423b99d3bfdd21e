//! The most similar strings of a build side for each string of a probe side.
//!
//! ```text
//! probe row: samples of about its length --signatures--> the likeliest --measure--> a bound on the k-th score
//!            runs, from its own length outward --tiles--> candidates --measure--> the k best, a tighter bound
//! ```
//!
//! The condition that the tiles test is that a pair is as good as the k-th neighbour so far, ties included, so that
//! what they turn away is none. It tightens on the way; a direction ends at the first length at which nothing is
//! possible. Where the bound turns no pair away, or a group has few rows, all are scored.
//!
//! A first sample is small. Among strings that differ much from all others its best ones are so bad that the bound
//! turns nearly nothing away. So larger samples follow while many strings are left to be scored: to compare signatures
//! takes a small part of the time, and those of the nearest strings stand out.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};

use crate::error::Result;

use super::cost;
use super::lanes::Pattern;
use super::runs::Runs;
use super::sides::Sides;
use super::sorted::{Signers, SortedStrings};
use super::tiles::{TILE, Tested, Tiles};
use crate::condition::{Bounds, Condition};
use crate::cpu::kind::IndexKind;
use crate::cpu::signature::{Hit, LANES, Limits};
use crate::nearest::{Best, FEW_AT_ONCE, NearestIndex, Neighbour, float_key, float_of_key};
use crate::stored::{Sink, Source, Store, Stored};
use crate::strings::features::{Signature, WORDS, differing};
use crate::strings::predicate::EditPredicate;
use crate::views::string_views;
use crate::{BuildContext, Cancel, Counts, Index, IndexInfo, KeyColumn, PrepareContext, Prepared, Probe};
use similarity_measures::EditMeasure;

/// Strings of about the same length whose signatures are compared for a first bound.
const SAMPLE: usize = if cfg!(test) { 64 } else { 2048 };
/// How many times as many are compared for each bound after that.
const WIDER: usize = 16;
/// How many of them are scored, besides twice as many as are wanted.
const LIKELIEST: usize = 16;
/// Signatures that are compared in the time of one score, about.
const SCORE: f64 = 100.0;
/// Rows of a group below which all of them are scored.
const FEW: usize = 64;

/// A build side's strings, ready for being ranked.
#[derive(Debug)]
pub struct NearestStrings {
    measure: EditMeasure,
    signers: Signers,
    texts: SortedStrings,
    runs: Runs,
    tiles: Tiles,
    /// Ranks by row.
    ranks: Vec<u32>,
    info: IndexInfo,
}

impl NearestStrings {
    /// Makes the strings of `keys`, each row with a rank, ready for being ranked by `measure`.
    ///
    /// # Errors
    /// Keys that are no strings, a refused reservation, a cancelled build.
    pub fn try_new(
        measure: EditMeasure,
        keys: &KeyColumn,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let BuildContext { threads, cancel, reserve, .. } = *context;
        let mut texts = SortedStrings::try_new(&any(measure), keys, reserve)?;
        cancel.check()?;
        let signers = Signers::learn(&texts);
        reserve(texts.len() * signers.size() + Runs::size(&texts) + Tiles::size(texts.len()))?;
        texts.sign(&signers, threads, cancel);
        cancel.check()?;
        let runs = Runs::of(&texts);
        let predicate = typical(measure, &texts);
        let sides =
            Sides { predicate: &predicate, known: None, build: &texts, runs: &runs, probe: &texts, self_join: false };
        let tiles = Tiles::build(&texts, Tested { folded: false, ..cost::choose_tested(&sides) });
        let of_ranks = ranks.capacity() * size_of::<u32>();
        let info = IndexInfo {
            path: tiles.describe(),
            bytes: signers.memory() + texts.memory() + runs.memory() + tiles.memory() + of_ranks,
            unmatchable: texts.unmatchable,
            ..IndexInfo::default()
        };
        Ok(Self { measure, signers, texts, runs, tiles, ranks, info })
    }

    /// A score as an integer, less being better.
    fn key(&self, score: f64) -> i64 {
        if self.measure.is_distance() { float_key(score) } else { !float_key(score) }
    }

    /// The condition that a score is at least as good as the one with this key; none where that turns no pair away.
    fn condition(&self, key: i64) -> Option<EditPredicate> {
        let measure = self.measure;
        let bounds = match measure.is_distance() {
            true => Bounds::at_most(float_of_key(key), true),
            false => Bounds::at_least(float_of_key(!key), true),
        };
        Condition::Edit { measure, bounds }.is_selective().then_some(EditPredicate { measure, bounds })
    }

    /// The runs of a group that have a score with strings of `length` characters, and the first that is not shorter.
    fn scored(&self, group: u32, length: u32) -> (Range<usize>, usize) {
        let (runs, middle) = self.runs.around(group, length);
        if !self.measure.needs_equal_lengths() {
            return (runs, middle);
        }
        let equal = runs.contains(&middle) && self.runs.all()[middle].length == length;
        (middle..middle + usize::from(equal), middle)
    }
}

/// What only the order of texts is asked of.
fn any(measure: EditMeasure) -> EditPredicate {
    EditPredicate { measure, bounds: Bounds::everything() }
}

/// A condition such as neighbours might satisfy.
fn typical(measure: EditMeasure, texts: &SortedStrings) -> EditPredicate {
    let characters: usize = texts.lengths.iter().map(|&length| length as usize).sum();
    EditPredicate { measure, bounds: bounds_of(measure, characters as f64 / texts.len().max(1) as f64) }
}

/// Bounds such as neighbours might satisfy among strings of so many characters.
fn bounds_of(measure: EditMeasure, mean: f64) -> Bounds {
    match measure.is_distance() {
        true => Bounds::at_most(1.0 + mean / 4.0, true),
        false => Bounds::at_least(0.75, true),
    }
}

/// Bounds such as neighbours might satisfy among some strings, by their bytes.
///
/// # Errors
/// Keys that are no strings.
pub fn typical_bounds(measure: EditMeasure, values: &ArrayRef) -> Result<Bounds> {
    let views = string_views(values)?;
    let bytes: usize = views.lengths().map(|length| length as usize).sum();
    Ok(bounds_of(measure, bytes as f64 / (views.len() - views.null_count()).max(1) as f64))
}

impl Index for NearestStrings {
    type Batch = PreparedStrings;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<PreparedStrings>> {
        let mut texts = SortedStrings::try_new(&any(self.measure), keys, &|_| Ok(()))?;
        texts.sign(&self.signers, 1, context.cancel);
        context.cancel.check()?;
        let (len, unmatchable) = (texts.len(), texts.unmatchable);
        Ok(Prepared::new(PreparedStrings(texts), len, unmatchable))
    }
}

impl Store for NearestStrings {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Strings.store(sink)?;
        let Self { signers, texts, tiles, ranks, info, .. } = self;
        signers.store(sink)?;
        texts.store(sink)?;
        tiles.store(sink)?;
        ranks.store(sink)?;
        info.store(sink)
    }
}

impl NearestStrings {
    /// Reads the index of [`try_new`](Self::try_new) with the same measure.
    ///
    /// # Errors
    /// Bytes that are no such index.
    pub fn load(measure: EditMeasure, source: &mut Source<'_>) -> Result<Self> {
        let signers = Signers::load(source)?;
        let texts = SortedStrings::load(source)?;
        let runs = Runs::of(&texts);
        let tiles = Tiles::load(&texts, source)?;
        let ranks = Vec::load(source)?;
        // the name of the path tells what this machine has
        let info = IndexInfo { path: tiles.describe(), ..IndexInfo::load(source)? };
        Ok(Self { measure, signers, texts, runs, tiles, ranks, info })
    }
}

impl NearestIndex for NearestStrings {
    fn positions_at_once(&self, _: Probe<'_, PreparedStrings>, _: usize) -> Result<usize> {
        Ok(FEW_AT_ONCE)
    }

    fn order<'a>(&'a self, probe: Probe<'a, PreparedStrings>) -> Result<&'a [u32]> {
        Ok(&probe.batch()?.0.rows)
    }

    fn nearest(
        &self,
        probe: Probe<'_, PreparedStrings>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let PreparedStrings(probe) = probe.batch()?;
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        for (&position, best) in positions.iter().zip(best).take_while(|_| !cancel.is_cancelled()) {
            let row = position as usize;
            let mut walk = Walk { index: self, probe, row, best, cancel, counts: Counts::default() };
            walk.run(&mut scratch);
            counts.candidates += walk.counts.candidates;
            counts.verified += walk.counts.verified;
        }
        Ok(counts)
    }
}

/// Memory that is needed for row after row.
#[derive(Default)]
struct Scratch {
    sample: Sample,
    keys: Vec<i64>,
    limits: Vec<Limits>,
    hits: Vec<Hit>,
    columns: Vec<u32>,
    limits_by_column: Vec<u32>,
}

/// Strings whose signatures have been compared with that of a probe row.
#[derive(Default)]
struct Sample {
    /// How much the likeliest differ, and where they are.
    likeliest: Vec<(i64, u32)>,
    /// How many of them are kept.
    kept: usize,
    /// How many strings of the first sample differ in each number of bits.
    differing: Vec<usize>,
    sampled: usize,
}

impl Sample {
    /// A sample of no strings, whose likeliest `kept` are to stay.
    fn start(&mut self, kept: usize) {
        self.likeliest.clear();
        self.differing.clear();
        self.differing.resize(64 * WORDS + 1, 0);
        (self.kept, self.sampled) = (kept, 0);
    }

    /// Adds a string to those that say how much strings differ.
    fn add_to_first(&mut self, differing: i64, column: u32) {
        self.differing[differing as usize] += 1;
        self.sampled += 1;
        self.add(differing, column);
    }

    fn add(&mut self, differing: i64, column: u32) {
        self.likeliest.push((differing, column));
        if self.likeliest.len() == 2 * self.kept {
            self.keep_likeliest();
        }
    }

    /// Drops all but the likeliest, each of which is there once.
    fn keep_likeliest(&mut self) {
        self.likeliest.sort_unstable();
        self.likeliest.dedup();
        self.likeliest.truncate(self.kept);
    }

    /// How many bits a string may differ in to be among the likeliest.
    fn most(&self) -> i64 {
        match self.likeliest.get(self.kept - 1) {
            // those that come later are not sorted in
            Some(&(differing, _)) => differing - 1,
            None => i64::MAX,
        }
    }

    /// The share of strings that differ in no more than `most` bits.
    fn share(&self, most: i64) -> f64 {
        let within = usize::try_from(most).map_or(0, |most| (most + 1).min(self.differing.len()));
        self.differing[..within].iter().sum::<usize>() as f64 / self.sampled.max(1) as f64
    }
}

/// A probe row on its way through the build side.
struct Walk<'a> {
    index: &'a NearestStrings,
    probe: &'a SortedStrings,
    row: usize,
    best: &'a mut Best<i64>,
    cancel: &'a Cancel,
    counts: Counts,
}

/// The condition that what is still looked for satisfies.
struct Bar {
    key: i64,
    predicate: EditPredicate,
}

impl Walk<'_> {
    fn run(&mut self, scratch: &mut Scratch) {
        let (group, length) = (self.probe.groups[self.row], self.probe.lengths[self.row]);
        let (runs, middle) = self.index.scored(group, length);
        let Some(positions) = self.index.runs.positions(runs.clone()) else { return };
        let bar = match positions.len() > FEW.max(2 * self.best.wanted().rows.min(positions.len())) {
            true => self.first_bar(runs.clone(), middle, scratch),
            false => None,
        };
        match bar {
            Some(bar) => self.outward(runs, middle, bar, scratch),
            None => self.offer_all(positions),
        }
    }

    fn offer_all(&mut self, positions: Range<usize>) {
        let (index, text) = (self.index, self.probe.text(self.row));
        self.counts.candidates += positions.len();
        self.counts.verified += positions.len();
        for column in positions.take_while(|_| !self.cancel.is_cancelled()) {
            if let Some(score) = index.measure.score(index.texts.text(column), text) {
                self.offer(column, index.key(score));
            }
        }
    }

    fn offer(&mut self, column: usize, score: i64) {
        let row = self.index.texts.rows[column];
        self.best.offer(Neighbour { score, rank: self.index.ranks[row as usize], row });
    }

    /// The k-th best score of some strings of about the same length, in the run `middle` and around it, and then of
    /// more strings while that leaves many to be scored.
    fn first_bar(&self, runs: Range<usize>, middle: usize, scratch: &mut Scratch) -> Option<Bar> {
        let index = self.index;
        let positions = index.runs.positions(runs.clone())?;
        let same_length = match runs.contains(&middle) {
            true => index.runs.all()[middle].positions(),
            false => positions.end..positions.end,
        };
        let spare = SAMPLE.saturating_sub(same_length.len()) / 2;
        let start = same_length.start.saturating_sub(spare).max(positions.start);
        let around = start..(same_length.end + spare).min(positions.end);
        let signature = self.signature(self.probe, self.row);
        scratch.sample.start(2 * self.best.wanted().rows + LIKELIEST);
        let step = 1 + around.len() / (SAMPLE + 1);
        for column in around.step_by(step) {
            scratch.sample.add_to_first(differing(self.signature(&index.texts, column), signature), column as u32);
        }
        let mut bar = self.bar_of_likeliest(scratch)?;
        let (length, group) = (self.probe.lengths[self.row], self.probe.groups[self.row]);
        let mut compared = scratch.sample.sampled;
        while !self.cancel.is_cancelled() {
            let possible = |other: u32| bar.predicate.is_possible(length as usize, other as usize, usize::MAX);
            let near = index.runs.within(group, length, possible);
            let near = near.start.max(runs.start)..near.end.min(runs.end);
            let Some(near) = index.runs.positions(near) else { break };
            let wider = near.len().min(WIDER * compared);
            let scored = near.len() as f64 * scratch.sample.share(index.tiles.slack(&bar.predicate, length as usize));
            if wider <= compared || scored * SCORE <= wider as f64 {
                break;
            }
            self.compare(near.clone(), near.len().div_ceil(wider), scratch);
            compared = wider;
            bar = self.bar_of_likeliest(scratch).filter(|next| next.key < bar.key).unwrap_or(bar);
        }
        Some(bar)
    }

    /// Compares the signatures of every `step`-th tile of `columns` with that of the probe row.
    fn compare(&self, columns: Range<usize>, step: usize, scratch: &mut Scratch) {
        let (index, signature) = (self.index, self.signature(self.probe, self.row));
        let Scratch { sample, limits, hits, .. } = scratch;
        let last = columns.end.div_ceil(LANES);
        for first in (columns.start / LANES..last).step_by(TILE * step).take_while(|_| !self.cancel.is_cancelled()) {
            index.tiles.nearest(&index.texts, signature, first..last.min(first + TILE), sample.most(), limits, hits);
            for hit in hits.iter() {
                let column = first * LANES + hit.column as usize;
                if columns.contains(&column) {
                    sample.add(differing(self.signature(&index.texts, column), signature), column as u32);
                }
            }
        }
    }

    /// The k-th best score of the likeliest strings of a sample.
    fn bar_of_likeliest(&self, scratch: &mut Scratch) -> Option<Bar> {
        let (index, text, wanted) = (self.index, self.probe.text(self.row), self.best.wanted().rows);
        let Scratch { sample, keys, .. } = scratch;
        sample.keep_likeliest();
        keys.clear();
        let score = |&(_, column): &(i64, u32)| index.measure.score(index.texts.text(column as usize), text);
        keys.extend(sample.likeliest.iter().filter_map(score).map(|score| index.key(score)));
        if keys.len() < wanted {
            return None;
        }
        let key = *keys.select_nth_unstable(wanted - 1).1;
        Some(Bar { key, predicate: index.condition(key)? })
    }

    fn signature<'a>(&self, texts: &'a SortedStrings, position: usize) -> &'a Signature {
        &self.index.tiles.signatures(texts)[position]
    }

    /// Visits the runs with the next length first.
    fn outward(&mut self, runs: Range<usize>, middle: usize, mut bar: Bar, scratch: &mut Scratch) {
        let length = self.probe.lengths[self.row];
        let all = self.index.runs.all();
        let apart = |run: usize| all[run].length.abs_diff(length);
        let (mut shorter, mut others) = (runs.start..middle, middle..runs.end);
        while !self.cancel.is_cancelled() {
            let next = match (shorter.clone().next_back(), others.clone().next()) {
                (Some(run), Some(other)) if apart(run) < apart(other) => shorter.next_back(),
                (_, Some(_)) => others.next(),
                _ => shorter.next_back(),
            };
            let Some(run) = next else { return };
            if bar.predicate.is_possible(length as usize, all[run].length as usize, usize::MAX) {
                self.visit(run, &mut bar, scratch);
            } else if run < middle {
                shorter = middle..middle;
            } else {
                others = runs.end..runs.end;
            }
        }
    }

    fn visit(&mut self, run: usize, bar: &mut Bar, scratch: &mut Scratch) {
        let index = self.index;
        let positions = index.runs.all()[run].positions();
        let last = positions.end.div_ceil(LANES);
        for first in (positions.start / LANES..last).step_by(TILE) {
            if self.cancel.is_cancelled() {
                return;
            }
            let blocks = first..last.min(first + TILE);
            let (rows, sides) = (self.row..self.row + 1, self.sides(&bar.predicate));
            let Scratch { limits, hits, .. } = &mut *scratch;
            index.tiles.find(&sides, &rows, blocks, &mut (run..run + 1), limits, hits);
            self.meet_all(first * LANES, bar, scratch);
        }
    }

    fn sides<'b>(&'b self, predicate: &'b EditPredicate) -> Sides<'b> {
        let NearestStrings { texts, runs, .. } = self.index;
        Sides { predicate, known: None, build: texts, runs, probe: self.probe, self_join: false }
    }

    /// Scores the hits of a tile whose first column is `origin`, unless they cannot be good enough.
    fn meet_all(&mut self, origin: usize, bar: &mut Bar, scratch: &mut Scratch) {
        let Scratch { hits, columns, limits_by_column, .. } = scratch;
        self.counts.candidates += hits.len();
        columns.clear();
        columns.extend(hits.iter().map(|hit| origin as u32 + hit.column));
        let possible = match Pattern::that_pays(self.probe.text(self.row), columns.len()) {
            Some(pattern) => pattern.possible(&self.sides(&bar.predicate), self.row, columns, limits_by_column),
            None => columns,
        };
        possible.iter().for_each(|&column| self.meet(column as usize, bar));
    }

    /// Scores a pair unless it cannot be good enough.
    fn meet(&mut self, column: usize, bar: &mut Bar) {
        if !self.sides(&bar.predicate).is_candidate(self.row, column) {
            return;
        }
        self.counts.verified += 1;
        let (index, probe) = (self.index, self.probe);
        let longest = index.texts.lengths[column].max(probe.lengths[self.row]) as usize;
        let (left, right) = (index.texts.text(column), probe.text(self.row));
        let score = bar.predicate.score(left, right, longest, &|| self.cancel.is_cancelled());
        let Some(key) = score.map(|score| index.key(score)).filter(|key| *key <= bar.key) else { return };
        self.offer(column, key);
        if let Some(worst) = self.best.worst().map(|worst| worst.score).filter(|worst| *worst < bar.key)
            && let Some(predicate) = index.condition(worst)
        {
            *bar = Bar { key: worst, predicate };
        }
    }
}

/// A probe batch in the order of the index.
#[derive(Debug)]
pub struct PreparedStrings(SortedStrings);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::NO_GROUP;
    use crate::nearest::Wanted;

    type Values = Vec<Option<String>>;

    /// Strings of a few letters and noisy copies of them: empty, short, long, non-ASCII ones and NULLs.
    fn strings(rows: usize, rng: &mut StdRng) -> Values {
        let letters = ['a', 'b', 'c', 'd', 'e', 'é', '日', ' '];
        let mut made: Vec<Vec<char>> = Vec::new();
        for row in 0..rows {
            let mut text = match row > 0 && rng.random_bool(0.7) {
                true => made[rng.random_range(0..row)].clone(),
                false => {
                    let length = [0, 1, 4, 9, 9, 14, 70][rng.random_range(0..7)];
                    (0..length).map(|_| letters[rng.random_range(0..letters.len())]).collect()
                }
            };
            for _ in 0..rng.random_range(0..4) {
                let at = rng.random_range(0..=text.len());
                match rng.random_range(0..4) {
                    0 => text.insert(at, letters[0]),
                    1 if at < text.len() => drop(text.remove(at)),
                    2 if at < text.len() => text[at] = letters[1],
                    _ if at > 1 => text.swap(at - 1, at - 2),
                    _ => {}
                }
            }
            made.push(text);
        }
        let mut texts: Values = made.into_iter().map(|text| Some(text.into_iter().collect())).collect();
        texts.iter_mut().step_by(13).for_each(|text| *text = None);
        texts
    }

    fn keys(values: &Values, groups: &Option<Vec<u32>>) -> KeyColumn {
        KeyColumn { values: Arc::new(StringArray::from(values.clone())), groups: groups.clone() }
    }

    #[test]
    fn finds_what_scoring_all_finds() {
        let mut rng = StdRng::seed_from_u64(3);
        let raised = [[0.25, 0.0], [0.25, 0.7], [0.1, 0.0]].map(|w| EditMeasure::JARO_WINKLER.with(&w).unwrap());
        let measures = [EditMeasure::ALL, &raised].concat();
        for case in 0..300 {
            let measure = measures[case % measures.len()];
            let rows = [0, 3, 100, 700][rng.random_range(0..4)];
            let (build, probe) = (strings(rows, &mut rng), strings(20, &mut rng));
            // some of the probe rows are near some of the build rows
            let probe: Values = probe.into_iter().chain(build.iter().take(20).cloned()).collect();
            let grouped = case % 2 == 1;
            let mut groups = |rows: usize| -> Option<Vec<u32>> {
                grouped.then(|| (0..rows).map(|_| [0, 0, 0, 1, NO_GROUP][rng.random_range(0..5)]).collect())
            };
            let (build_groups, probe_groups) = (groups(rows), groups(probe.len()));
            let ranks: Vec<u32> = (0..rows).map(|_| rng.random_range(0..40)).collect();
            let cancel = Cancel::default();
            let context = BuildContext::new(2, &cancel, &|_| Ok(()));
            let index =
                NearestStrings::try_new(measure, &keys(&build, &build_groups), ranks.clone(), &context).unwrap();
            let prepared = index.prepare(&keys(&probe, &probe_groups), &PrepareContext::by(1)).unwrap();
            let wanted = Wanted { rows: [1, 3, 5, 90, 5000][rng.random_range(0..5)], ties: rng.random_bool(0.5) };
            let order = index.order(Probe::Batch(&prepared.batch)).unwrap();
            let mut best: Vec<_> = order.iter().map(|_| Best::new(wanted)).collect();
            let positions: Vec<u32> = (0..order.len() as u32).collect();
            index.nearest(Probe::Batch(&prepared.batch), &positions, &mut best, &cancel).unwrap();
            for (&row, best) in order.iter().zip(&mut best) {
                let mut found = Vec::new();
                best.take_into(&mut found);
                let self_join = probe[row as usize].as_ref().expect("NULL is not searched");
                let together = |other: usize| match (&build_groups, &probe_groups) {
                    (Some(build), Some(probe)) => build[other] == probe[row as usize],
                    _ => true,
                };
                let neighbour = |(other, text): (usize, &Option<String>)| {
                    let score = measure.score(text.as_ref()?, self_join).filter(|_| together(other))?;
                    Some(Neighbour { score: index.key(score), rank: ranks[other], row: other as u32 })
                };
                let mut expected: Vec<_> = build.iter().enumerate().filter_map(neighbour).collect();
                expected.sort_unstable();
                expected.truncate(wanted.of(&expected));
                assert_eq!(found, expected, "case {case}: {measure:?} {wanted:?} {self_join:?}");
            }
        }
    }
}
