//! Which runs go to the segment index and what the tiles test, estimated from the collected strings; what a join takes,
//! from a few of them.
//!
//! The probe side is taken to resemble the build side, which in a self-join it is. For each run the substrings that
//! would be looked up stand against the pairs that would be tested; once there is an index, evenly spaced rows are
//! looked up in their own run, and runs whose segments are too common go back to the tiles. Times are fixed
//! constants, measured on a server core of 2022, so that the same data always takes the same path on the same
//! instruction set.

use crate::error::Result;
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;

use super::join::AccessPath;
use super::runs::Runs;
use super::segment_index::{Found, SegmentIndex, Sought};
use super::segments::Cut;
use super::sides::Sides;
use super::sorted::{Signers, SortedStrings};
use super::tiles::Tested;
use crate::condition::{Bounds, Condition};
use crate::cpu::signature::Kernel;
use crate::plan::cost::of_measure;
use crate::strings::EditPredicate;
use crate::strings::features::{Feature, Signature, WORDS, differing, in_one_word};
use crate::{BuildContext, KeyColumn};
use similarity_measures::EditMeasure;

/// Nanoseconds for a substring that is looked up.
const LOOKUP: f64 = 16.0;
/// A segment that is put into the index.
const WRITE: f64 = 40.0;
/// An entry of the index under the hash of a substring.
const ENTRY: f64 = 3.0;
/// A candidate whose signatures are compared.
const CANDIDATE: f64 = 20.0;
/// A character of a candidate whose distance is computed beside those of others.
const COMPARED: f64 = 1.3;
/// A row of the tiles and a run that it meets.
const ROW: f64 = 4.0;

/// Rows below which a run is not worth an index.
const LEAST_ROWS: usize = 16;
/// Rows of a run that are looked up to see what they find.
const SAMPLE: usize = 16;
/// Pairs that are tested to compare the features,
const PAIRS: usize = 4096;
/// and how many of them with the same row.
const COLUMNS: usize = 16;

/// How often a run would be probed, and what that would cost.
#[derive(Debug, Clone, Copy)]
struct Plan {
    run: usize,
    probes: f64,
    tiles: f64,
    segments: f64,
}

/// The runs that go to the segment index.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Number of segments of each run's strings; 0 where a run is not indexed.
    pub(super) segments: Vec<u32>,
    plans: Vec<Plan>,
    path: Option<AccessPath>,
}

impl Chosen {
    pub(super) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }
}

/// Chooses the runs whose lookups take less than their pairs, or those that `path` says.
pub(super) fn choose(sides: &Sides<'_>, path: Option<AccessPath>, context: &BuildContext<'_>) -> Chosen {
    let all = sides.runs.all();
    let mut chosen = Chosen { segments: vec![0; all.len()], plans: Vec::new(), path };
    if path == Some(AccessPath::Tiles) || sides.predicate.is_jaro() {
        return chosen;
    }
    let per_row = match (context.self_join, context.probe_rows) {
        (false, Some(rows)) => rows as f64 / sides.build.len().max(1) as f64,
        _ => 1.0,
    };
    let forced = path == Some(AccessPath::Segments);
    let worth = |run: &usize| forced || all[*run].len() >= LEAST_ROWS;
    // 32 bits number the entries
    let mut left = u32::MAX as usize;
    for (group, runs) in sides.runs.groups().enumerate() {
        for run in runs.filter(worth) {
            let Some((cut, plan)) = plan(sides, run, group as u32, per_row) else { continue };
            let entries = all[run].len().saturating_mul(cut.segments);
            if (forced || plan.segments < plan.tiles) && entries <= left {
                left -= entries;
                chosen.segments[run] = cut.segments as u32;
                chosen.plans.push(plan);
            }
        }
    }
    chosen
}

/// What a run of a group would cost, `None` where its strings cannot be indexed.
fn plan(sides: &Sides<'_>, n: usize, group: u32, per_row: f64) -> Option<(Cut, Plan)> {
    let run = sides.runs.all()[n];
    let edits = sides.predicate.most_edits(run.length as usize)?;
    let operations = sides.predicate.measure.operations()?;
    let cut = Cut::for_edits(run.length as usize, edits, operations)?;
    let partners = sides.partners(group, run.length);
    let partners = sides.runs.positions(partners)?;
    let rows = match sides.self_join {
        true => (partners.end - run.end as usize) as f64 + 0.5 * run.len() as f64,
        false => partners.len() as f64,
    };
    let probes = rows * per_row;
    let lookups = cut.lookups(edits, run.length as usize, operations.shifts) as f64;
    let pair = Kernel::detect().nanoseconds_per_pair::<WORDS>();
    let tiles = probes * (ROW + run.len() as f64 * pair);
    let segments = probes * lookups * LOOKUP + (run.len() * cut.segments) as f64 * WRITE;
    Some((cut, Plan { run: n, probes, tiles, segments }))
}

/// Forgets the runs whose segments turn out to be too common; true if any remains.
pub(super) fn revise(sides: &Sides<'_>, chosen: &Chosen, index: &mut SegmentIndex) -> bool {
    let mut remaining = 0;
    for plan in &chosen.plans {
        let share = if sides.self_join { 0.5 } else { 1.0 };
        let finding = share * plan.probes * cost_by_sample(sides, plan.run, index);
        if chosen.path.is_none() && plan.segments + finding > plan.tiles {
            index.forget(plan.run);
        } else {
            remaining += 1;
        }
    }
    remaining > 0
}

/// What a row finds in its run, besides itself, in nanoseconds on average.
fn cost_by_sample(sides: &Sides<'_>, n: usize, index: &SegmentIndex) -> f64 {
    let run = sides.runs.all()[n];
    let length = run.length as usize;
    let edits = sides.predicate.edits(length, length);
    let (Some(edits), Some(slack)) = (edits, sides.predicate.slack(length, length, usize::MAX)) else { return 0.0 };
    let (mut found, mut starts) = (Found::default(), Vec::new());
    let (mut rows, mut entries) = (0, 0);
    for row in run.positions().step_by(1 + run.len() / SAMPLE) {
        let text = Sought::of(sides.build, row, &mut starts);
        entries += index.look_up(n, run, &text, edits, slack.bigrams, &mut found).entries - edits - 1;
        rows += 1;
    }
    let candidates = found.positions.len() - rows;
    (entries as f64 * ENTRY + candidates as f64 * CANDIDATE) / rows.max(1) as f64
}

/// Nanoseconds that a pair of rows takes on average: by what lengths and signatures leave of the pairs of some evenly
/// spaced rows.
///
/// # Errors
/// Keys that are no strings, a refused reservation.
pub fn nanoseconds_of_strings(
    measure: EditMeasure,
    bounds: Bounds,
    values: &ArrayRef,
    context: &BuildContext<'_>,
) -> Result<f64> {
    let (predicate, condition) = (EditPredicate { measure, bounds }, Condition::Edit { measure, bounds });
    let sampled = values.len().isqrt().clamp(FEWEST_SAMPLED, MOST_SAMPLED).min(values.len());
    let rows: UInt32Array = (0..sampled).map(|at| (at * values.len() / sampled) as u32).collect();
    let keys = KeyColumn { values: take(values, &rows, None)?, groups: None };
    let mut texts = SortedStrings::try_new(&predicate, &keys, context.reserve)?;
    texts.sign(&Signers::learn(&texts), 1, context.cancel);
    let runs = Runs::of(&texts);
    let sides =
        Sides { predicate: &predicate, known: None, build: &texts, runs: &runs, probe: &texts, self_join: true };
    let pair = Kernel::detect().nanoseconds_per_pair::<WORDS>();
    let of_row = |row: usize| {
        let length = texts.lengths[row];
        // positions are in the order of lengths
        let possible =
            |&column: &usize| predicate.is_possible(length as usize, texts.lengths[column] as usize, usize::MAX);
        let met = (0..row).filter(possible);
        let (met, left) = met.fold((0.0, 0.0), |(met, left), column| {
            (met + 1.0, left + f64::from(u8::from(sides.is_candidate(row, column))))
        });
        let decided = match (predicate.is_jaro(), f64::from(length)) {
            (true, length) => CANDIDATE + of_measure(condition, length, length),
            (false, short) if length <= u64::BITS => COMPARED * short,
            (false, length) => {
                let edits = predicate.edits(length as usize, length as usize).unwrap_or(0);
                let width = length.min((2 * edits + 1) as f64);
                CANDIDATE + of_measure(condition, length, width)
            }
        };
        met * pair + left * decided
    };
    let all: f64 = (0..texts.len()).map(of_row).sum();
    // rows without a string take nothing
    Ok(all / (sampled * sampled.saturating_sub(1) / 2).max(1) as f64)
}

/// Rows that are sampled to know what all pairs would take: the more of them, the more there is to lose.
const FEWEST_SAMPLED: usize = 48;
const MOST_SAMPLED: usize = 160;

/// The signatures that are tested first: the kind that leaves fewer of some sampled pairs, folded where that is faster.
pub(super) fn choose_tested(sides: &Sides<'_>) -> Tested {
    let (texts, predicate) = (sides.build, sides.predicate);
    let (mut pairs, mut characters, mut bigrams) = (0, Left::default(), Left::default());
    for row in (0..texts.len()).step_by(1 + COLUMNS * texts.len() / PAIRS) {
        let length = texts.lengths[row];
        let runs = sides.partners(texts.groups[row], length);
        let Some(columns) = sides.runs.positions(runs) else { continue };
        for column in columns.clone().step_by(1 + columns.len() / COLUMNS) {
            pairs += 1;
            let apart = predicate.wants_classes() && texts.classes[row] != texts.classes[column];
            let prefix = if apart { 0 } else { usize::MAX };
            let slack = predicate.slack(length as usize, texts.lengths[column] as usize, prefix);
            let Some(slack) = slack else { continue };
            characters.test(&texts.characters[row], &texts.characters[column], slack.characters);
            bigrams.test(&texts.bigrams[row], &texts.bigrams[column], slack.bigrams);
        }
    }
    let is_of_bigrams = !predicate.is_jaro() && bigrams.whole < characters.whole;
    let (feature, left) = if is_of_bigrams { (Feature::Bigrams, bigrams) } else { (Feature::Characters, characters) };
    let kernel = Kernel::detect();
    let saved = kernel.nanoseconds_per_pair::<WORDS>() - kernel.nanoseconds_per_pair::<1>();
    Tested { feature, folded: left.folded as f64 * TESTED_AGAIN < saved * pairs as f64 }
}

/// Nanoseconds to compare the whole signatures of a pair that folded ones leave.
const TESTED_AGAIN: f64 = 5.0;

/// Sampled pairs that signatures leave.
#[derive(Default, Clone, Copy)]
struct Left {
    folded: usize,
    whole: usize,
}

impl Left {
    fn test(&mut self, row: &Signature, column: &Signature, limit: i64) {
        let folded = (in_one_word(row) ^ in_one_word(column)).count_ones();
        self.folded += usize::from(i64::from(folded) <= limit);
        self.whole += usize::from(differing(row, column) <= limit);
    }
}
