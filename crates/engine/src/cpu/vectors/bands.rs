//! Bands of random projections: vectors that agree in all projections of a band are candidates, for joins that may miss
//! pairs.
//!
//! | measure | a projection keeps | probability that two vectors agree |
//! |---|---|---|
//! | cosine | on which side of a random plane the vector lies (Charikar, 2002) | [`simhash::agreement`] |
//! | Euclidean distance | which slot of a random line it falls into (Datar and others, 2004) | [`e2lsh::agreement`] |

use std::ops::Range;

use crate::error::{Result, internal_err};

use super::decision::Decision;
use super::points::{Points, Rows};
use super::projections::{Projections, Rounding};
use crate::condition::VectorCondition;
use crate::cpu::kind::IndexKind;
use crate::cpu::lsh::{BandTables, Bands, Plan, Sampled};
use crate::metrics::MetricValue;
use crate::parallel::each_in_parallel;
use crate::recall::Recall;
use crate::stored::{Sink, Source, Store, Stored, stored};
use crate::vectors::Vectors;
use crate::{
    BuildContext, Cancel, Counts, Cursor, Index, IndexInfo, KeyColumn, Limit, PairIndex, Pairs, PrepareContext,
    Prepared, Probe,
};
use similarity_measures::{VectorMeasure, e2lsh, simhash};

/// In fewer dimensions boxes tell vectors apart.
const FEWEST_DIMENSIONS: usize = 16;

/// Nanoseconds of a projection, for each dimension.
const PROJECTION: f64 = 0.03;
/// A key that is made, written and looked up.
const KEY: f64 = 90.0;
/// A candidate whose score is computed: in any case, and for each dimension, which come from beyond the caches.
const CANDIDATE: (f64, f64) = (60.0, 4.0);
/// A pair that an exact join compares, for each dimension.
const COMPARED: f64 = 0.013;

/// Rows that stand for all, and pairs of each of them.
const ROWS: usize = 512;
const PAIRS: usize = 128;

/// Widths of slots that are weighed against each other, in distances at the threshold.
const WIDTHS: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Norms beyond so many times the distance at the threshold are not told apart by single precision.
const MOST_DISTANCES: f64 = 1e4;

/// What projections keep, and how likely two vectors agree in one.
#[derive(Debug, Clone, Copy)]
enum Family {
    /// Sides of planes.
    Sides,
    /// Slots of a width.
    Slots { width: f64 },
}

impl Family {
    /// The probability that vectors of this score agree.
    fn agreement(self, measure: VectorMeasure, score: f64) -> f64 {
        match (self, measure) {
            (Self::Slots { width }, _) => e2lsh::agreement(score / width),
            (Self::Sides, VectorMeasure::CosineDistance) => simhash::agreement(1.0 - score),
            (Self::Sides, _) => simhash::agreement(score),
        }
    }
}

/// The bands that suit a join better than an exact one, if any do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    plan: Plan,
    family: Family,
}

/// What suits the vectors of a build side. With `forced` the cost of an exact join is not asked for.
pub(super) fn chosen(
    condition: &VectorCondition,
    points: &Points,
    recall: Recall,
    forced: bool,
    context: &BuildContext<'_>,
) -> Option<Chosen> {
    let (measure, rows) = (condition.measure, points.filterable.len());
    if points.dimension < FEWEST_DIMENSIONS || rows < 2 {
        return None;
    }
    let (lower, upper) = (condition.bounds.lower(), condition.bounds.upper());
    let (threshold, families): (f64, Vec<Family>) = match measure {
        VectorMeasure::Cosine => (lower?.value, vec![Family::Sides]),
        VectorMeasure::CosineDistance => (upper?.value, vec![Family::Sides]),
        VectorMeasure::L2 => {
            let distance = upper?.value;
            let largest = (0..rows).step_by(1 + rows / ROWS).map(|at| norm(points.filterable(at))).fold(0.0, f64::max);
            let in_range = |x: f64| (1e-30..1e30).contains(&x);
            let told_apart = in_range(distance) && largest < MOST_DISTANCES * distance && largest < 1e30;
            (
                distance,
                WIDTHS.iter().filter(|_| told_apart).map(|width| Family::Slots { width: width * distance }).collect(),
            )
        }
        _ => return None,
    };
    let probe_rows = context.expected_probe_rows(rows) as f64;
    let all_pairs = rows as f64 * probe_rows / if context.self_join { 2.0 } else { 1.0 };
    let scores = sampled_scores(measure, points);
    let of_score = all_pairs / scores.len().max(1) as f64;
    let hashed = rows as f64 + if context.self_join { 0.0 } else { probe_rows };
    let dimension = points.dimension as f64;
    let plans = families.into_iter().filter_map(|family| {
        let agreements: Vec<f64> = scores.iter().map(|&score| family.agreement(measure, score)).collect();
        let plan = Plan::cheapest(family.agreement(measure, threshold), recall, |bands| {
            let hashing = hashed * (dimension * bands.all_hashes() as f64 * PROJECTION + bands.bands as f64 * KEY);
            let candidates: f64 = agreements.iter().map(|&agreement| bands.probability(agreement)).sum();
            hashing + candidates * of_score * of_candidate(points.dimension)
        });
        Some(Chosen { plan: plan?, family })
    });
    let best = plans.min_by(|one, other| one.plan.nanoseconds.total_cmp(&other.plan.nanoseconds))?;
    (forced || best.plan.nanoseconds < all_pairs * dimension * COMPARED).then_some(best)
}

/// Nanoseconds of a candidate in so many dimensions.
fn of_candidate(dimension: usize) -> f64 {
    CANDIDATE.0 + CANDIDATE.1 * dimension as f64
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The scores of some pairs of different rows.
fn sampled_scores(measure: VectorMeasure, points: &Points) -> Vec<f64> {
    let rows = points.filterable.len();
    let mut scores = Vec::new();
    for row in (0..rows).step_by(1 + rows / ROWS) {
        // a stride that is odd does not fall into step with data that repeats
        for other in (0..rows).step_by((rows / PAIRS) | 1).filter(|&other| other != row) {
            if points.filterable.groups[row] == points.filterable.groups[other] {
                scores.extend(measure.score(points.filterable(row), points.filterable(other)));
            }
        }
    }
    scores
}

/// The vectors of one side, group by group.
#[derive(Debug)]
pub(super) struct BandedVectors {
    vectors: Vectors,
    rows: Vec<u32>,
    groups: Vec<u32>,
    unfilterable: Rows,
}

impl BandedVectors {
    /// The rows of `points`, of which those beyond the norm `most` are not hashed.
    fn of(points: Points, most: f64) -> Self {
        let Points { vectors, filterable: Rows { rows, groups }, mut unfilterable, .. } = points;
        let is_short = |row: u32| most == f64::INFINITY || norm(vectors.given(row as usize)) <= most;
        let (mut order, long): (Vec<_>, Vec<_>) = groups.into_iter().zip(rows).partition(|&(_, row)| is_short(row));
        unfilterable.rows.extend(long.iter().map(|(_, row)| row));
        unfilterable.groups.extend(long.iter().map(|(group, _)| group));
        order.sort_unstable();
        let (groups, rows) = order.into_iter().unzip();
        Self { vectors, rows, groups, unfilterable }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn vector(&self, position: usize) -> &[f64] {
        self.vectors.given(self.rows[position] as usize)
    }

    /// The positions of a group.
    fn positions(&self, group: u32) -> Range<usize> {
        let start = self.groups.partition_point(|&other| other < group);
        start..start + self.groups[start..].partition_point(|&other| other == group)
    }

    fn memory(&self) -> usize {
        self.vectors.memory() + (self.rows.capacity() + self.groups.capacity()) * 4 + self.unfilterable.memory()
    }
}

stored!(BandedVectors { vectors, rows, groups, unfilterable });

/// A build side's bands.
#[derive(Debug)]
pub(super) struct VectorBands {
    condition: VectorCondition,
    decision: Decision,
    bands: Bands,
    dimension: usize,
    projections: Projections,
    side: BandedVectors,
    /// The keys of all rows, row by row, where the side probes itself.
    keys: Vec<u32>,
    tables: BandTables,
    sampled: Sampled,
    /// The norm up to which vectors are hashed.
    most: f64,
    self_join: bool,
    info: IndexInfo,
}

impl Store for VectorBands {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Bands.store(sink)?;
        let Self { bands, dimension, projections, side, keys, tables, sampled, most, info, .. } = self;
        bands.store(sink)?;
        dimension.store(sink)?;
        projections.store(sink)?;
        side.store(sink)?;
        keys.store(sink)?;
        tables.store(sink)?;
        sampled.store(sink)?;
        most.store(sink)?;
        info.store(sink)
    }
}

impl VectorBands {
    /// Reads what follows the kind of index.
    pub(super) fn load(
        condition: VectorCondition,
        source: &mut Source<'_>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        Ok(Self {
            condition,
            decision: Decision::new(condition),
            bands: Stored::load(source)?,
            dimension: Stored::load(source)?,
            projections: Stored::load(source)?,
            side: Stored::load(source)?,
            keys: Stored::load(source)?,
            tables: Stored::load(source)?,
            sampled: Stored::load(source)?,
            most: Stored::load(source)?,
            self_join: context.self_join,
            info: Stored::load(source)?,
        })
    }

    pub(super) fn try_new(
        condition: VectorCondition,
        Chosen { plan, family }: Chosen,
        points: Points,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let Bands { bands, .. } = plan.bands;
        let (dimension, unmatchable) = (points.dimension, points.unmatchable);
        let (rounding, most) = match family {
            Family::Sides => (Rounding::Sign, f64::INFINITY),
            Family::Slots { width } => (Rounding::Slot { width: width as f32 }, MOST_DISTANCES * width),
        };
        let projections = Projections::new(plan.bands, dimension, rounding);
        (context.reserve)(points.filterable.len() * 2 * size_of::<(u32, u32)>())?;
        let side = BandedVectors::of(points, most);
        (context.reserve)(projections.memory() + side.len() * bands * size_of::<u32>())?;
        let mut keys = vec![0; side.len() * bands];
        let rows_of_part = side.len().div_ceil(context.threads.max(1)).max(1);
        each_in_parallel(keys.chunks_mut(rows_of_part * bands).enumerate(), |(part, keys)| {
            let mut scratch = Vec::new();
            for (at, keys) in keys.chunks_exact_mut(bands).enumerate().take_while(|_| !context.cancel.is_cancelled()) {
                let row = part * rows_of_part + at;
                projections.keys(side.vector(row), side.groups[row], &mut scratch, keys);
            }
        });
        context.cancel.check()?;
        (context.reserve)(BandTables::size(side.len(), bands))?;
        let tables = BandTables::build(&keys, bands, |_| true, context.threads)?;
        context.cancel.check()?;
        let keys = if context.self_join { keys } else { Vec::new() };
        let info = IndexInfo {
            path: format!(
                "projection bands: {}, which find a pair at the threshold with a probability of {:.3}",
                plan.bands, plan.found
            ),
            bytes: side.memory() + tables.memory() + projections.memory() + keys.capacity() * size_of::<u32>(),
            unmatchable,
            undecided: condition.undecided_from.is_some() && !side.unfilterable.is_empty(),
            self_join_len: side.len() + side.unfilterable.len(),
            ..IndexInfo::default()
        };
        let partners = side.len() as f64 / if context.self_join { 2.0 } else { 1.0 };
        // all rows one after the other
        let of_row = partners * of_candidate(dimension) / 4.0;
        Ok(Self {
            condition,
            decision: Decision::new(condition),
            bands: plan.bands,
            dimension,
            projections,
            keys,
            tables,
            sampled: Sampled::new(context.expected_probe_rows(side.len()), of_row, plan.nanoseconds),
            side,
            most,
            self_join: context.self_join,
            info,
        })
    }

    /// The pairs of a hashed row of a probe side.
    fn probe_hashed(&self, probe: &BandedVectors, at: usize, scratch: &mut Scratch, work: &mut Work<'_>) {
        let (row, group, vector) = (probe.rows[at], probe.groups[at], probe.vector(at));
        let mut partners = self.side.positions(group);
        if self.self_join {
            partners.end = partners.end.min(at);
        }
        let Bands { bands, .. } = self.bands;
        scratch.own.resize(bands, 0);
        let keys = match self.keys.get(at * bands..(at + 1) * bands) {
            Some(keys) => keys,
            None => {
                self.projections.keys(vector, group, &mut scratch.projected, &mut scratch.own);
                &scratch.own
            }
        };
        let before = work.out.len();
        scratch.met.clear();
        for (band, &key) in keys.iter().enumerate() {
            scratch.met.extend(self.tables.with_key(band, key, &partners).map(|position| position as u32));
            if scratch.met.len() > partners.len() {
                scratch.met.sort_unstable();
                scratch.met.dedup();
            }
            // all partners are alike, or nobody waits for them
            if scratch.met.len() == partners.len() || work.cancel.is_cancelled() {
                break;
            }
        }
        scratch.met.sort_unstable();
        scratch.met.dedup();
        for &build in &scratch.met {
            work.count();
            if self.decision.holds(self.side.vector(build as usize), vector) {
                work.out.push(self.side.rows[build as usize], row);
            }
        }
        if keys.first().is_some_and(|&key| self.sampled.takes(key)) {
            let found = work.out.len() - before;
            work.done += partners.len();
            let others = partners.take_while(|_| !work.cancel.is_cancelled());
            let others = others.filter(|&build| scratch.met.binary_search(&(build as u32)).is_err());
            let missed = others.filter(|&build| self.decision.holds(self.side.vector(build), vector)).count();
            self.sampled.note(found + missed, found);
        }
        if !self.self_join {
            self.pair_unfilterable(row, group, vector, 0, work);
        }
    }

    /// The pairs of a row of a probe side that is not hashed.
    fn probe_unfilterable(&self, probe: &BandedVectors, at: usize, work: &mut Work<'_>) {
        let (row, group) = (probe.unfilterable.rows[at], probe.unfilterable.groups[at]);
        let vector = probe.vectors.given(row as usize);
        for build in self.side.positions(group) {
            work.count();
            if self.decision.may_hold(self.side.vector(build), vector) {
                work.out.push(self.side.rows[build], row);
            }
        }
        self.pair_unfilterable(row, group, vector, if self.self_join { at + 1 } else { 0 }, work);
    }

    /// The pairs of any row with those of the build side that are not hashed, from one on.
    fn pair_unfilterable(&self, row: u32, group: u32, vector: &[f64], from: usize, work: &mut Work<'_>) {
        let Rows { rows, groups } = &self.side.unfilterable;
        for (&build, _) in rows.iter().zip(groups).skip(from).filter(|(_, other)| **other == group) {
            work.count();
            if self.decision.may_hold(self.side.vectors.given(build as usize), vector) {
                work.out.push(build, row);
            }
        }
    }
}

/// What one call does.
struct Work<'a> {
    cancel: &'a Cancel,
    out: &'a mut Pairs,
    counts: Counts,
    done: usize,
}

impl Work<'_> {
    /// Counts a pair that is decided.
    fn count(&mut self) {
        self.counts.candidates += 1;
        self.counts.verified += 1;
        self.done += 1;
    }
}

/// Memory that probing needs over and over.
#[derive(Debug, Default)]
struct Scratch {
    own: Vec<u32>,
    projected: Vec<f32>,
    met: Vec<u32>,
}

impl Index for VectorBands {
    type Batch = BandedVectors;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.sampled.metrics()
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<BandedVectors>> {
        if self.self_join {
            return internal_err!("a vector index was built for a self-join and given another input");
        }
        let points = Points::try_new(&self.condition, keys, Some(self.dimension), context)?;
        let unmatchable = points.unmatchable;
        let side = BandedVectors::of(points, self.most);
        let len = side.len() + side.unfilterable.len();
        Ok(Prepared::new(side, len, unmatchable))
    }
}

impl PairIndex for VectorBands {
    fn probe(
        &self,
        probe: Probe<'_, BandedVectors>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let probe = match probe {
            Probe::SelfJoin if self.self_join => &self.side,
            Probe::Batch(side) if !self.self_join => side,
            _ => return internal_err!("a vector index was built for the other kind of probe"),
        };
        let (before, mut scratch) = (out.len(), Scratch::default());
        let mut work = Work { cancel, out, counts: Counts::default(), done: 0 };
        while !cursor.is_done()
            && work.out.len() - before < limit.pairs
            && work.done < limit.work
            && !cancel.is_cancelled()
        {
            match cursor.next.checked_sub(probe.len()) {
                None => self.probe_hashed(probe, cursor.next, &mut scratch, &mut work),
                Some(at) => self.probe_unfilterable(probe, at, &mut work),
            }
            work.done += 1;
            cursor.next += 1;
        }
        Ok(Counts { matched: work.out.len() - before, ..work.counts })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, FixedSizeListArray};
    use arrow::datatypes::Float64Type;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::epsilon::build;
    use super::*;
    use crate::access_path::AccessPath;
    use crate::condition::Bounds;
    use crate::overrides::Overrides;
    use crate::test_oracle::sets::{Found, UNLIMITED, batch, groups, self_join_pairs};
    use crate::{AnyBatch, DynPairIndex};

    /// Clusters of vectors, with scatter of all sizes.
    fn clustered(rng: &mut StdRng, rows: usize, dimension: usize) -> Vec<Option<Vec<Option<f64>>>> {
        let mut centre = vec![0.0; dimension];
        let row = |row: usize| {
            if row.is_multiple_of(5) {
                centre.iter_mut().for_each(|x| *x = rng.random_range(-1.0..1.0));
            }
            let scatter = rng.random_range(0.0..0.5);
            let vector = centre.iter().map(|x| Some(x + scatter * rng.random_range(-1.0..1.0))).collect();
            (row % 97 != 3).then_some(vector)
        };
        (0..rows).map(row).collect()
    }

    fn index(
        condition: VectorCondition,
        recall: Option<Recall>,
        keys: &KeyColumn,
        self_join: bool,
    ) -> Box<DynPairIndex> {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let overrides = Overrides { access_path: Some(AccessPath::HashBands), ..Overrides::NONE };
        let context = BuildContext { self_join, recall, overrides, ..BuildContext::new(2, &cancel, &reserve) };
        build(condition, keys, &context).unwrap()
    }

    fn pairs(index: &dyn PairIndex<Batch = AnyBatch>, keys: &KeyColumn, self_join: bool) -> Found {
        if self_join { self_join_pairs(index, 50, UNLIMITED) } else { batch(index, keys, 50, UNLIMITED) }
    }

    #[test]
    fn found_pairs_match_and_as_many_are_found_as_was_asked() {
        let (mut below, mut missed, mut sampled) = (0, 0, 0);
        for seed in 0..90 {
            let mut rng = StdRng::seed_from_u64(seed);
            let dimension = rng.random_range(16..80);
            let rows = clustered(&mut rng, 500, dimension);
            let lists = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(rows, dimension as i32);
            let values: ArrayRef = Arc::new(lists);
            let keys = KeyColumn { values, groups: groups(500, [0, 1, 3][seed as usize % 3], seed) };
            let cosine = rng.random_range(0.6..0.98);
            let (measure, bounds) = match seed % 3 {
                0 => (VectorMeasure::Cosine, Bounds::at_least(cosine, true)),
                1 => (VectorMeasure::CosineDistance, Bounds::at_most(1.0 - cosine, true)),
                _ => (VectorMeasure::L2, Bounds::at_most((dimension as f64).sqrt() * (1.0 - cosine), true)),
            };
            let condition = VectorCondition { bounds, ..VectorCondition::every_score(measure) };
            let recall = rng.random_range(0.5..0.99);
            let self_join = seed % 2 == 0;
            let banded = index(condition, Recall::new(recall), &keys, self_join);
            assert!(banded.info().path.contains("projection bands"), "{}", banded.info().path);
            let exact = pairs(&*index(condition, None, &keys, self_join), &keys, self_join);
            let found = pairs(&*banded, &keys, self_join);
            assert!(found.is_subset(&exact), "seed {seed}");
            below += usize::from((found.len() as f64) < recall * exact.len() as f64);
            missed += exact.len() - found.len();
            sampled += banded.metrics()[0].as_usize();
        }
        assert!(below <= 1 && missed > 0 && sampled > 100, "{below} {missed} {sampled}");
    }

    #[test]
    fn vectors_that_are_not_hashed_are_paired_with_all() {
        let mut rng = StdRng::seed_from_u64(4);
        let mut rows = clustered(&mut rng, 60, 20);
        for (row, value) in [(1, f64::NAN), (7, f64::INFINITY)] {
            rows[row] = Some(vec![Some(value); 20]);
        }
        rows[40] = Some(vec![Some(0.0); 20]);
        rows[41] = rows[40].clone();
        let values: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(rows, 20));
        let keys = KeyColumn { values, groups: None };
        for (measure, bounds) in [
            (VectorMeasure::L2, Bounds::at_most(1.0, true)),
            (VectorMeasure::CosineDistance, Bounds::at_most(0.1, true)),
        ] {
            let condition = VectorCondition { measure, bounds, undecided_from: Some(500) };
            for self_join in [true, false] {
                let exact = pairs(&*index(condition, None, &keys, self_join), &keys, self_join);
                let banded = index(condition, Recall::new(0.999), &keys, self_join);
                assert!(banded.info().path.contains("projection bands") && banded.info().undecided);
                let found = pairs(&*banded, &keys, self_join);
                let special = |(one, other): &&(u32, u32)| [one, other].into_iter().any(|row| [1, 7].contains(row));
                let of = |found: &Found| found.iter().filter(special).copied().collect::<Found>();
                assert!(!of(&exact).is_empty() && of(&found) == of(&exact) && found.is_subset(&exact));
            }
        }
    }

    /// Single precision does not tell such vectors apart.
    #[test]
    fn vectors_far_out_are_not_hashed() {
        let rows = [1.0, 1e6, 2.0, 1e6].map(|x| Some(vec![Some(x); 16]));
        let values: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(rows, 16));
        let keys = KeyColumn { values, groups: None };
        let condition = VectorCondition::every_score(VectorMeasure::L2);
        for (most, hashed, others) in [(1e4, vec![0, 2], vec![1, 3]), (f64::INFINITY, vec![0, 1, 2, 3], vec![])] {
            let points = Points::try_new(&condition, &keys, None, &PrepareContext::by(1)).unwrap();
            let side = BandedVectors::of(points, most);
            assert_eq!((side.rows, side.unfilterable.rows), (hashed, others));
        }
    }

    /// The formulas against vectors whose score is known.
    #[test]
    fn agreements_are_those_of_the_projections() {
        let bands = Bands { bands: 256, hashes: 4 };
        for (rounding, distance, expected) in [
            (Rounding::Sign, 0.5f64, simhash::agreement((0.5f64).cos())),
            (Rounding::Sign, 2.0, simhash::agreement((2.0f64).cos())),
            (Rounding::Slot { width: 1.5 }, 0.5, e2lsh::agreement(0.5 / 1.5)),
            (Rounding::Slot { width: 1.0 }, 2.0, e2lsh::agreement(2.0)),
        ] {
            let projections = Projections::new(bands, 40, rounding);
            let mut rng = StdRng::seed_from_u64(7);
            let (mut agree, mut all) = (0, 0);
            for _ in 0..100 {
                // two orthogonal directions of one length
                let (one, other) = (rng.random_range(0..20), rng.random_range(20..40));
                let at = |x: f64, y: f64| {
                    let mut vector = vec![0.0; 40];
                    (vector[one], vector[other]) = (x, y);
                    let mut keys = vec![0; bands.bands];
                    projections.keys(&vector, 1, &mut Vec::new(), &mut keys);
                    keys
                };
                let (a, b) = match rounding {
                    Rounding::Sign => (at(3.0, 0.0), at(5.0 * distance.cos(), 5.0 * distance.sin())),
                    Rounding::Slot { .. } => (at(3.0, 1.0), at(3.0 + 0.6 * distance, 1.0 - 0.8 * distance)),
                };
                agree += a.iter().zip(&b).filter(|(a, b)| a == b).count();
                all += bands.bands;
            }
            let (share, expected) = (agree as f64 / all as f64, expected.powi(4));
            assert!((share - expected).abs() < 0.02, "{share} for {expected}");
        }
        assert!(
            (e2lsh::agreement(1e-9) - 1.0).abs() < 1e-6 && e2lsh::agreement(0.0) == 1.0 && e2lsh::agreement(1e9) < 1e-6
        );
    }

    #[test]
    fn few_dimensions_and_other_measures_have_no_bands() {
        let mut rng = StdRng::seed_from_u64(4);
        let keys = |rng: &mut StdRng, dimension: usize| {
            let rows = clustered(rng, 60, dimension);
            let lists = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(rows, dimension as i32);
            KeyColumn { values: Arc::new(lists), groups: None }
        };
        let condition = |measure, bounds| VectorCondition { bounds, ..VectorCondition::every_score(measure) };
        let near = Bounds::at_most(0.5, true);
        for (dimension, condition) in [
            (8, condition(VectorMeasure::L2, near)),
            (30, condition(VectorMeasure::L1, near)),
            (30, condition(VectorMeasure::InnerProduct, Bounds::at_least(0.5, true))),
            (30, condition(VectorMeasure::L2, Bounds::at_most(1e-7, true))),
        ] {
            let path = index(condition, Recall::new(0.9), &keys(&mut rng, dimension), true).info().path.clone();
            assert!(!path.contains("projection bands"), "{path}");
        }
    }
}
