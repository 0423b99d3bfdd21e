//! Amount of work from which on a device is faster than sixteen cores: the criterion of `auto`.
//!
//! What it costs to use a device is known beforehand: copies and launches, a few milliseconds, and where it has yet to
//! be opened, the better part of a second once a process. What the CPU would take is estimated, as finely as that is
//! cheap: for sets from all pairs of rows and how far down the scores go; for vectors from all pairs of numbers; for
//! counted conditions from all pairs of rows; for strings, where it is a hundredfold more or less by their kind and by
//! how far apart they may be, from a sample; for rules from their plan; for components from the links so far.

use crate::error::Result;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

use super::accelerator::Platform;
use super::nearest::Wanted;
use super::{BuildContext, KeyColumn, NO_GROUP, cpu};
use crate::condition::Condition;
use crate::match_count::MatchCount;
use crate::ranking::Ranking;
use crate::work::{OffloadThreshold, Unit};

/// Threshold of edit and Jaro conditions.
const STRINGS: OffloadThreshold = OffloadThreshold { open: 2_000_000, closed: 10_000_000_000, unit: Unit::Nanoseconds };

/// Threshold of vectors in more than [few dimensions](Platform::few_dimensions), of which the CPU compares nearly all
/// that share a group.
const LONG_VECTORS: OffloadThreshold = OffloadThreshold { open: 1 << 27, closed: 1 << 37, unit: Unit::PairsOfNumbers };
/// Threshold of vectors in up to [few dimensions](Platform::few_dimensions), of which the CPU compares those that are
/// near.
const SHORT_VECTORS: OffloadThreshold = OffloadThreshold { open: 1 << 26, closed: 1 << 44, unit: Unit::PairsOfNumbers };

/// Threshold of rankings of sets, and of vectors in more than [few dimensions](Platform::few_dimensions).
const RANKINGS: OffloadThreshold = OffloadThreshold { open: 1 << 25, closed: 1 << 32, unit: Unit::PairsOfRows };

/// Threshold of rankings by how many conditions hold. By design, not measured.
const MATCH_COUNTS: OffloadThreshold =
    OffloadThreshold { open: 20_000_000, closed: 10_000_000_000, unit: Unit::Nanoseconds };
/// What a core takes for one condition of a pair, without weights and with them: see decision 0082 for the first, the
/// other one is by design.
const NANOSECONDS_OF_TEST: [f64; 2] = [0.15, 0.6];

/// Threshold of candidates whose trees a device walks.
pub(super) const RULES: OffloadThreshold =
    OffloadThreshold { open: 15_000_000, closed: 10_000_000_000, unit: Unit::Nanoseconds };

/// Threshold of links that become components.
const LINKS: OffloadThreshold = OffloadThreshold { open: 1 << 20, closed: 1 << 25, unit: Unit::Links };

/// Rows of both sides from which on a device that is open is faster at numbering the keys of rules and walking them,
/// however few candidates there are.
pub const ROWS_OF_RULES: usize = 1 << 15;

/// Threshold of a condition; `None` where a device has no kernels for it.
pub(super) fn of_condition(
    platform: &dyn Platform,
    condition: Condition,
    dimension: usize,
) -> Option<OffloadThreshold> {
    platform.serves(condition).then(|| threshold(condition, dimension <= platform.few_dimensions()))
}

/// Threshold of a condition that there are kernels for; of vectors by whether they have few dimensions.
fn threshold(condition: Condition, is_flat: bool) -> OffloadThreshold {
    match condition {
        Condition::Set { measure, bounds, .. } => {
            // low scores leave many candidates
            let closed = match measure.jaccard_floor(bounds.lower().map_or(0.0, |bound| bound.value)) {
                least if least >= 0.5 => 1 << 34,
                least if least >= 0.3 => 1 << 32,
                _ => 1 << 30,
            };
            OffloadThreshold { open: 1 << 15, closed, unit: Unit::PairsOfRows }
        }
        Condition::Edit { .. } => STRINGS,
        Condition::Vector(_) if is_flat => SHORT_VECTORS,
        Condition::Vector(_) => LONG_VECTORS,
    }
}

/// Threshold of a ranking; `None` where a device has no kernels for it. Of vectors it is that of more than
/// [few dimensions](Platform::few_dimensions).
pub(super) fn of_ranking(platform: &dyn Platform, ranking: &Ranking, wanted: Wanted) -> Option<OffloadThreshold> {
    let threshold = match ranking {
        Ranking::Score(Condition::Set { .. } | Condition::Vector(_)) => RANKINGS,
        Ranking::Score(Condition::Edit { .. }) => STRINGS,
        Ranking::MatchCount(_) => MATCH_COUNTS,
    };
    platform.ranks_by(ranking, wanted).then_some(threshold)
}

/// How much work a ranking is over the keys of a build side, in the unit of [`of_ranking`].
///
/// # Errors
/// Keys that are not ranked so.
pub(super) fn work_of_ranking(ranking: &Ranking, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<u64> {
    match ranking {
        Ranking::Score(Condition::Set { .. } | Condition::Vector(_)) => Ok(pairs(keys, context)),
        Ranking::MatchCount(MatchCount { conditions, weights }) => {
            let nanoseconds = NANOSECONDS_OF_TEST[usize::from(weights.is_some())];
            Ok((pairs(keys, context) as f64 * *conditions as f64 * nanoseconds) as u64)
        }
        &Ranking::Score(Condition::Edit { measure, .. }) => {
            // neighbours are about as far as this
            let bounds = cpu::strings::typical_bounds(measure, &keys.values)?;
            let nanoseconds = cpu::strings::nanoseconds_of_strings(measure, bounds, &keys.values, context)?;
            Ok((pairs(keys, context) as f64 * nanoseconds.max(LEAST_NANOSECONDS)) as u64)
        }
    }
}

/// Threshold of links that become components; `None` where a device has no kernels for them.
pub(super) fn of_components(platform: &dyn Platform) -> Option<OffloadThreshold> {
    platform.finds_components().then_some(LINKS)
}

/// How much work a condition is over the keys of a build side, in the unit of [`of_condition`].
///
/// # Errors
/// Keys that `condition` is not about.
pub(super) fn work_of_condition(condition: Condition, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<u64> {
    let pairs = pairs(keys, context);
    Ok(match condition {
        Condition::Set { .. } => pairs,
        Condition::Vector(_) => pairs.saturating_mul(dimension(&keys.values) as u64),
        Condition::Edit { measure, bounds } => {
            let nanoseconds = cpu::strings::nanoseconds_of_strings(measure, bounds, &keys.values, context)?;
            // a device leaves it to the CPU to decide what it lets pass
            let saved = if measure.descriptor().kernel.is_none() { 0.125 } else { 1.0 };
            (pairs as f64 * (saved * nanoseconds).max(LEAST_NANOSECONDS)) as u64
        }
    })
}

/// What a pair takes a core where lengths and signatures leave nothing: its share of what is done for each row.
const LEAST_NANOSECONDS: f64 = 0.1;

/// The elements of the first of some lists, 0 where there is none.
pub(super) fn dimension(lists: &ArrayRef) -> usize {
    let first = (0..lists.len()).find(|&row| !lists.is_null(row)).unwrap_or(0);
    match lists.data_type() {
        DataType::FixedSizeList(_, length) => *length as usize,
        DataType::List(_) if !lists.is_empty() => lists.as_list::<i32>().value_length(first) as usize,
        DataType::LargeList(_) if !lists.is_empty() => lists.as_list::<i64>().value_length(first) as usize,
        _ => 0,
    }
}

/// The pairs of the two sides that groups leave, those of a probe side taken to be as those of the build side.
pub(super) fn pairs(keys: &KeyColumn, context: &BuildContext<'_>) -> u64 {
    let build = keys.values.len();
    let self_join = match &keys.groups {
        None => (build as u128).pow(2),
        Some(groups) => {
            let mut rows = vec![0u64; groups.iter().filter(|&&g| g != NO_GROUP).max().map_or(0, |&g| g as usize + 1)];
            groups.iter().filter(|&&group| group != NO_GROUP).for_each(|&group| rows[group as usize] += 1);
            rows.iter().map(|&rows| u128::from(rows) * u128::from(rows)).sum()
        }
    };
    let pairs = match context.self_join {
        true => self_join / 2,
        false => self_join * context.expected_probe_rows(build).max(1) as u128 / build.max(1) as u128,
    };
    pairs.min(u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{FixedSizeListArray, StringArray};
    use arrow::datatypes::Float32Type;

    use super::*;
    use crate::Cancel;
    use crate::condition::{Bounds, VectorCondition};
    use similarity_measures::{EditMeasure, SetMeasure, Tokenizer, VectorMeasure};

    fn is_worth(enough: u64, condition: Condition, values: &ArrayRef, self_join: bool) -> bool {
        let cancel = Cancel::default();
        let context = BuildContext { self_join, ..BuildContext::new(1, &cancel, &|_| Ok(())) };
        let keys = KeyColumn { values: Arc::clone(values), groups: None };
        work_of_condition(condition, &keys, &context).unwrap() >= enough
    }

    #[test]
    fn strings_are_sampled() {
        // of one length, so that their characters alone tell them apart
        let text = |row: u64| {
            let letter = |n| char::from(b'a' + (row.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(n) % 26) as u8);
            (0..30).map(letter).collect::<String>()
        };
        let texts: ArrayRef = Arc::new((0..600).map(|row| Some(text(row))).collect::<StringArray>());
        let edit = |measure, bounds| Condition::Edit { measure, bounds };
        let similar = |least| edit(EditMeasure::LEVENSHTEIN_SIMILARITY, Bounds::at_least(least, true));
        let jaro = |least| edit(EditMeasure::JARO_WINKLER, Bounds::at_least(least, true));
        let nearly = edit(EditMeasure::LEVENSHTEIN, Bounds::at_most(1.0, true));
        let OffloadThreshold { open, closed, .. } = STRINGS;
        for (condition, worth) in [(similar(0.4), true), (jaro(0.6), true), (similar(0.9), false), (nearly, false)] {
            assert_eq!(is_worth(open, condition, &texts, true), worth, "{condition}");
            assert!(!is_worth(closed, condition, &texts, true), "{condition}");
        }
        // few rows, and none that have a string
        for texts in [texts.slice(0, 1), texts.slice(0, 0), Arc::new(StringArray::from(vec![None::<&str>; 9]))] {
            assert!(!is_worth(open, similar(0.4), &texts, false));
        }
    }

    #[test]
    fn rankings_of_strings_are_sampled() {
        let texts = |rows: u64, length: usize| -> ArrayRef {
            let text = |row: u64| format!("{:0>length$}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            Arc::new((0..rows).map(|row| Some(text(row))).collect::<StringArray>())
        };
        let cancel = Cancel::default();
        let context = BuildContext::new(1, &cancel, &|_| Ok(()));
        for measure in [EditMeasure::LEVENSHTEIN, EditMeasure::JARO_WINKLER] {
            let condition = Condition::Edit { measure, bounds: Bounds::everything() };
            let work = |rows, length| {
                let keys = KeyColumn { values: texts(rows, length), groups: None };
                work_of_ranking(&condition.into(), &keys, &context).unwrap()
            };
            let (few, many, long) = (work(30, 20), work(2000, 20), work(2000, 60));
            assert!(few < STRINGS.open && STRINGS.open < many && many < STRINGS.closed, "{measure:?}: {few} {many}");
            assert!(many < long, "{measure:?}: {many} {long}");
        }
        let sets =
            Condition::Set { tokenizer: Tokenizer::Words, measure: SetMeasure::JACCARD, bounds: Bounds::everything() };
        let keys = KeyColumn { values: texts(100, 20), groups: None };
        assert_eq!(work_of_ranking(&sets.into(), &keys, &context).unwrap(), 10_000);
    }

    #[test]
    fn vectors_by_their_numbers_and_sets_by_their_pairs() {
        let vectors = |dimension: i32| -> ArrayRef {
            let row = |row: i32| Some((0..dimension).map(|n| Some((row * n % 7) as f32)).collect::<Vec<_>>());
            let rows = (0..1 << 10).map(row).collect::<Vec<_>>();
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, dimension))
        };
        let near = Condition::Vector(VectorCondition::every_score(VectorMeasure::L2));
        for (dimension, worth) in [(64, false), (128, true)] {
            assert_eq!(is_worth(1 << 27, near, &vectors(dimension), false), worth, "{dimension}");
            assert!(!is_worth(1 << 27, near, &vectors(dimension), true), "a self-join has half the pairs");
        }
        let set = |measure, least| {
            let condition =
                Condition::Set { tokenizer: Tokenizer::Words, measure, bounds: Bounds::at_least(least, true) };
            threshold(condition, false)
        };
        let closed = |measure, least| set(measure, least).closed;
        let high = closed(SetMeasure::JACCARD, 0.5);
        assert!(closed(SetMeasure::DICE, 0.7) == high && closed(SetMeasure::SET_COSINE, 0.75) == high);
        assert!(closed(SetMeasure::JACCARD, 0.3) < high && closed(SetMeasure::DICE, 0.5) < high);
        assert!(closed(SetMeasure::OVERLAP_COUNT, 2.0) < closed(SetMeasure::JACCARD, 0.3));
        let words: ArrayRef = Arc::new(StringArray::from(vec!["a b"; 256]));
        let condition = Condition::Set {
            tokenizer: Tokenizer::Words,
            measure: SetMeasure::JACCARD,
            bounds: Bounds::at_least(0.5, true),
        };
        assert!(is_worth(1 << 16, condition, &words, false) && !is_worth(1 << 16, condition, &words, true));
    }
}
