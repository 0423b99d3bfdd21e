//! MinHash bands: sets that agree in all hashes of a band are candidates, for joins that may miss pairs.
//!
//! Two sets agree in a hash as likely as they are similar by Jaccard (Broder, 1997). Tokens of a probe row that the
//! build side lacks are not hashed, which makes pairs agree more often, never less.

use std::ops::Range;

use crate::error::Result;

use super::join::{AccessPath, Candidate, Path, Scratch, Sides, Work};
use super::minhash::{MinHashScratch, MinHashes};
use super::overlap::overlap_reaching;
use super::requirements::Requirements;
use crate::cpu::lsh::{BandTables, Bands, Plan, Sampled};
use crate::cpu::signature::Kernel;
use crate::metrics::MetricValue;
use crate::parallel::each_in_parallel;
use crate::recall::Recall;
use crate::sets::predicate::Sizes;
use crate::stored::stored;
use crate::{BuildContext, Cursor};

/// Nanoseconds of a hash of a token.
const HASH: f64 = 0.07;
/// A key that is made, written and looked up.
const KEY: f64 = 90.0;
/// A candidate whose signature is compared.
const CANDIDATE: f64 = 40.0;

/// A pair of a row of the sample.
const SAMPLED: f64 = 8.0;

/// Rows that stand for all, and pairs of each of them.
const ROWS: usize = 1024;
const PAIRS: usize = 256;

/// Candidates that are compared at once.
const AT_ONCE: usize = 1 << 16;

/// The bands of a build side.
#[derive(Debug)]
pub(super) struct MinHashBands {
    plan: Plan,
    hashes: MinHashes,
    /// The keys of all rows, row by row, where the side probes itself.
    keys: Vec<u32>,
    tables: BandTables,
    sampled: Sampled,
    kernel: Kernel,
}

stored!(MinHashBands { plan, hashes, keys, tables, sampled } with { kernel: Kernel::detect() });

/// The bands that suit a join, none where it may not miss a pair or pairs are accepted that share nearly nothing.
///
/// `sides` must have the build side on both.
pub(super) fn plan(sides: &Sides<'_>, recall: Recall, probe_rows: usize) -> Option<Plan> {
    let bound = sides.predicate.bounds.lower()?;
    let agreement = sides.predicate.measure.jaccard_floor(bound.value);
    let pairs = sampled_pairs(sides, probe_rows);
    let rows = (sides.build.len() + if sides.self_join { 0 } else { probe_rows }) as f64;
    let tokens = (0..sides.build.len()).map(|row| f64::from(sides.build.known(row))).sum::<f64>();
    let tokens = tokens / sides.build.len().max(1) as f64;
    Plan::cheapest(agreement, recall, |bands| {
        let hashing = rows * (tokens * bands.all_hashes() as f64 * HASH + bands.bands as f64 * KEY);
        let candidates = pairs.iter().map(|&(similarity, pairs)| pairs * bands.probability(similarity));
        hashing + candidates.sum::<f64>() * CANDIDATE
    })
}

/// The similarities of some pairs that size and group allow, and how many pairs each stands for.
fn sampled_pairs(sides: &Sides<'_>, probe_rows: usize) -> Vec<(f64, f64)> {
    let (sets, n) = (sides.build, sides.build.len());
    let mut requirements = Requirements::new(sides.predicate, sets.largest());
    let mut pairs = Vec::new();
    let sample = (0..n).step_by(1 + n / ROWS);
    let of_row = probe_rows as f64 / sample.len().max(1) as f64;
    for row in sample {
        let partners = sides.partners(row, requirements.reach_of_probe(sets.sizes[row]));
        // a stride that is odd does not fall into step with data that repeats
        let some = partners.clone().step_by((partners.len() / PAIRS) | 1).filter(|&partner| partner != row);
        let some: Vec<usize> = some.collect();
        let weight = of_row * partners.len() as f64 / some.len().max(1) as f64;
        pairs.extend(some.into_iter().map(|partner| {
            let (one, other) = (sets.tokens(row), sets.tokens(partner));
            let common = overlap_reaching(one, other, 0, true).unwrap_or(0) as usize;
            (common as f64 / (one.len() + other.len() - common) as f64, weight)
        }));
    }
    pairs
}

impl MinHashBands {
    pub(super) fn build(plan: Plan, sides: &Sides<'_>, probe_rows: usize, context: &BuildContext<'_>) -> Result<Self> {
        let (sets, Bands { bands, .. }) = (sides.build, plan.bands);
        (context.reserve)(sets.len() * bands * size_of::<u32>())?;
        let hashes = MinHashes::new(plan.bands);
        let mut keys = vec![0; sets.len() * bands];
        let rows_of_part = sets.len().div_ceil(context.threads.max(1)).max(1);
        let parts = keys.chunks_mut(rows_of_part * bands).enumerate();
        each_in_parallel(parts, |(part, keys)| {
            let mut scratch = MinHashScratch::default();
            for (at, keys) in keys.chunks_exact_mut(bands).enumerate().take_while(|_| !context.cancel.is_cancelled()) {
                let row = part * rows_of_part + at;
                hashes.keys(sets.tokens(row), sets.groups[row], &mut scratch, keys);
            }
        });
        context.cancel.check()?;
        (context.reserve)(BandTables::size(sets.len(), bands))?;
        // too few tokens are known of a row for any partner
        let least = |row: usize, requirements: &mut Requirements| requirements.reach_of_build(sets.sizes[row]).least;
        let mut requirements = Requirements::new(sides.predicate, sets.largest());
        (context.reserve)(sets.len())?;
        let kept: Vec<bool> = (0..sets.len()).map(|row| sets.known(row) >= least(row, &mut requirements)).collect();
        let tables = BandTables::build(&keys, bands, |row| kept[row], context.threads)?;
        context.cancel.check()?;
        let middle = sets.len() / 2;
        let partners = match sets.len() {
            0 => 0,
            _ => sides.partners(middle, requirements.reach_of_probe(sets.sizes[middle])).len(),
        };
        Ok(Self {
            plan,
            hashes,
            keys: if sides.self_join { keys } else { Vec::new() },
            tables,
            sampled: Sampled::new(probe_rows, partners as f64 * SAMPLED, plan.nanoseconds),
            kernel: Kernel::detect(),
        })
    }

    /// Collects the partners that agree with a probe row in a band, and returns the key of the first one.
    fn collect(&self, sides: &Sides<'_>, row: usize, partners: &Range<usize>, work: &mut Work<'_>) -> u32 {
        let Bands { bands, .. } = self.plan.bands;
        let Scratch { bands: scratch, .. } = &mut *work.scratch;
        let mut own = std::mem::take(&mut scratch.keys);
        let keys = match self.keys.get(row * bands..(row + 1) * bands) {
            Some(keys) => keys,
            None => {
                own.resize(bands, 0);
                self.hashes.keys(sides.probe.tokens(row), sides.probe.groups[row], &mut scratch.hashes, &mut own);
                &own
            }
        };
        work.scratch.next_step(sides.build.len());
        keys.iter().enumerate().for_each(|(band, &key)| self.tables.fetch(band, key));
        keys.iter().enumerate().for_each(|(band, &key)| self.tables.fetch_rows(band, key));
        for (band, &key) in keys.iter().enumerate().take_while(|_| !work.cancel.is_cancelled()) {
            for position in self.tables.with_key(band, key, partners) {
                work.done += 1;
                if work.scratch.is_first_meeting(position) {
                    add_candidate(sides, row, position, work.scratch);
                }
            }
        }
        let first = keys[0];
        work.scratch.bands.keys = own;
        first
    }

    /// Decides the candidates of a row, which are gone then.
    fn decide(&self, sides: &Sides<'_>, row: usize, work: &mut Work<'_>) {
        let mut candidates = std::mem::take(&mut work.scratch.candidates);
        work.counts.candidates += candidates.len();
        self.kernel.retain(&mut candidates, |c| sides.signatures(row, c.position as usize, c.least));
        for c in candidates.iter().take_while(|_| !work.cancel.is_cancelled()) {
            work.decide(sides, row, c.position as usize, c.least, (0, 0));
        }
        work.scratch.candidates = candidates;
        work.scratch.candidates.clear();
    }

    /// Counts the partners of a row of the sample that match although the bands have left them out.
    fn missed(&self, sides: &Sides<'_>, row: usize, partners: Range<usize>, work: &mut Work<'_>) -> usize {
        let mut missed = 0;
        for start in partners.clone().step_by(AT_ONCE).take_while(|_| !work.cancel.is_cancelled()) {
            for position in start..partners.end.min(start + AT_ONCE) {
                if work.scratch.is_first_meeting(position) {
                    add_candidate(sides, row, position, work.scratch);
                }
            }
            let mut candidates = std::mem::take(&mut work.scratch.candidates);
            self.kernel.retain(&mut candidates, |c| sides.signatures(row, c.position as usize, c.least));
            let matches = |c: &&Candidate| sides.matches(row, c.position as usize, c.least, (0, 0));
            missed += candidates.iter().filter(matches).count();
            work.scratch.candidates = candidates;
            work.scratch.candidates.clear();
        }
        missed
    }
}

/// Keeps a partner of a row as a candidate if enough tokens are known of both.
fn add_candidate(sides: &Sides<'_>, row: usize, position: usize, scratch: &mut Scratch) {
    let sizes = Sizes { build: sides.build.sizes[position], probe: sides.probe.sizes[row] };
    let most = sides.probe.known(row).min(sides.build.known(position));
    if let Some(least) = scratch.requirements.min_overlap(sizes).filter(|&least| least <= most) {
        let position = position as u32;
        scratch.candidates.push(Candidate { position, least, probe_from: 0, build_rest: 0 });
    }
}

impl Path for MinHashBands {
    fn name(&self) -> String {
        let Plan { bands, found, .. } = self.plan;
        format!("minhash bands: {bands}, which find a pair at the threshold with a probability of {found:.3}")
    }

    fn kind(&self) -> AccessPath {
        AccessPath::Bands
    }

    fn memory(&self) -> usize {
        self.keys.capacity() * size_of::<u32>() + self.tables.memory()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.sampled.metrics()
    }

    fn probe(&self, sides: &Sides<'_>, cursor: &mut Cursor, work: &mut Work<'_>) {
        while !cursor.is_done() && !work.is_enough() {
            let row = cursor.next;
            work.done += 1;
            let reach = work.scratch.requirements.reach_of_probe(sides.probe.sizes[row]);
            let partners = sides.partners(row, reach);
            if !partners.is_empty() && sides.probe.known(row) >= reach.least {
                let before = work.matched();
                let key = self.collect(sides, row, &partners, work);
                self.decide(sides, row, work);
                if self.sampled.takes(key) {
                    let found = work.matched() - before;
                    work.done += partners.len();
                    let missed = self.missed(sides, row, partners, work);
                    self.sampled.note(found + missed, found);
                }
            }
            cursor.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::index::SetIndex;
    use super::super::join::AccessPath;
    use crate::condition::Bounds;
    use crate::recall::Recall;
    use crate::sets::predicate::SetPredicate;
    use crate::test_oracle::sets::*;
    use crate::{BuildContext, Cancel, Index, KeyColumn};
    use similarity_measures::SetMeasure;

    /// Texts of which many have copies with some other words, so that similarities of all sizes occur.
    fn copies(rng: &mut StdRng, rows: usize) -> Values {
        let mut texts: Vec<Vec<u32>> = Vec::new();
        let words = rng.random_range(100..3000);
        for row in 0..rows {
            let text = match row % 4 {
                0 => (0..rng.random_range(1..60)).map(|_| rng.random_range(0..words)).collect(),
                _ => {
                    let noise = rng.random_range(0.0..0.5);
                    let of = texts[row - row % 4].clone();
                    let change = |word| if rng.random_bool(noise) { rng.random_range(0..words) } else { word };
                    of.into_iter().map(change).collect()
                }
            };
            texts.push(text);
        }
        texts.into_iter().map(|text| Some(text.into_iter().map(|word| format!("w{word} ")).collect())).collect()
    }

    fn index(
        predicate: SetPredicate,
        (path, recall): (Option<AccessPath>, f64),
        keys: &KeyColumn,
        self_join: bool,
    ) -> SetIndex {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let recall = Recall::new(recall);
        let context = BuildContext { self_join, recall, ..BuildContext::new(2, &cancel, &reserve) };
        SetIndex::try_new(WORDS, predicate, path, keys.clone(), &context).unwrap()
    }

    #[test]
    fn found_pairs_match_and_as_many_are_found_as_was_asked() {
        let (mut below, mut missed, mut counted) = (0, 0, 0);
        for seed in 0..100 {
            let mut rng = StdRng::seed_from_u64(seed);
            let values = copies(&mut rng, 600);
            let count = [0, 1, 2, 5][seed as usize % 4];
            let keys = key_column(&values, &groups(600, count, seed));
            let measure = [SetMeasure::JACCARD, SetMeasure::DICE, SetMeasure::SET_COSINE][seed as usize % 3];
            let threshold = rng.random_range(3..10) as f64 / 10.0;
            let predicate = SetPredicate { measure, bounds: Bounds::at_least(threshold, true) };
            let recall = rng.random_range(0.5..0.99);
            let bands = (Some(AccessPath::Bands), recall);
            let (exact, found, index) = if seed % 2 == 0 {
                let banded = index(predicate, bands, &keys, true);
                let exact = self_join_pairs(&index(predicate, (None, 1.0), &keys, true), 99, UNLIMITED);
                (exact, self_join_pairs(&banded, 77, UNLIMITED), banded)
            } else {
                let banded = index(predicate, bands, &keys, false);
                let exact = batch(&index(predicate, (None, 1.0), &keys, false), &keys, 99, UNLIMITED);
                (exact, batch(&banded, &keys, 77, UNLIMITED), banded)
            };
            assert!(index.info().path.contains("minhash bands"), "{}", index.info().path);
            assert!(found.is_subset(&exact), "seed {seed}");
            below += usize::from((found.len() as f64) < recall * exact.len() as f64);
            missed += exact.len() - found.len();
            let metrics = index.metrics();
            assert!(metrics[0].as_usize() >= metrics[1].as_usize());
            counted += metrics[0].as_usize();
        }
        assert!(below <= 1, "{below} of 100");
        assert!(missed > 0 && counted > 50, "{missed} {counted}");
    }

    #[test]
    fn bands_are_taken_where_they_are_cheaper_and_allowed() {
        let mut rng = StdRng::seed_from_u64(1);
        // few words, so that prefixes are of frequent ones and signatures alike
        let text = |_| Some((0..60).map(|_| format!("w{} ", rng.random_range(0..400))).collect());
        let values: Values = (0..40_000).map(text).collect();
        let keys = key_column(&values, &None);
        let predicate = |least| SetPredicate { measure: SetMeasure::JACCARD, bounds: Bounds::at_least(least, true) };
        let path = |least, recall| index(predicate(least), (None, recall), &keys, true).info().path.clone();
        assert!(path(0.7, 0.9).contains("minhash bands"), "{}", path(0.7, 0.9));
        assert!(!path(0.7, 1.0).contains("minhash bands"));
        let few = key_column(&values[..200].to_vec(), &None);
        assert!(!index(predicate(0.7), (None, 0.9), &few, true).info().path.contains("minhash bands"));
        for none in [vec![], vec![None, Some(String::new())]] {
            let keys = key_column(&none, &None);
            let empty = index(predicate(0.7), (Some(AccessPath::Bands), 0.9), &keys, false);
            assert!(batch(&empty, &few, 9, UNLIMITED).is_empty() && batch(&empty, &keys, 9, UNLIMITED).is_empty());
        }
        // pairs that share next to nothing are accepted
        let one = SetPredicate { measure: SetMeasure::OVERLAP_COUNT, bounds: Bounds::at_least(1.0, true) };
        let forced = index(one, (Some(AccessPath::Bands), 0.9), &few, true);
        assert!(forced.info().path.contains("prefix index"), "{}", forced.info().path);
    }
}
