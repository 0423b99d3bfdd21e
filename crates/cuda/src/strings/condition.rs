//! An edit condition as kernels read it.

use crate::address::Address;
use crate::device_bounds::DeviceBounds;
use crate::kernels::constants::edit_matrix::KEPT_COLUMNS;
use crate::kernels::constants::jaro::LONGEST_MATCHED;
use crate::kernels::{EditCondition, Reach};
use similarity_engine::condition::Bounds;
use similarity_engine::strings::EditPredicate;
use similarity_engine::strings::predicate::LONGEST_PREFIX;
use similarity_measures::{EditKernel, EditMeasure};

/// Characters of the longest string that kernels compare by every measure.
pub(crate) const LONGEST: usize = KEPT_COLUMNS as usize;

const _: () = assert!(KEPT_COLUMNS == LONGEST_MATCHED);

/// Characters of the longest string where few edits are allowed: the columns that a path can reach are kept at once.
const LONGEST_OF_FEW_EDITS: usize = 1 << 14;
const FEW_EDITS: usize = LONGEST / 2 - 2;

/// Characters of the longest string that a device compares by a condition.
pub(crate) fn longest_string(predicate: &EditPredicate) -> usize {
    if predicate.is_jaro() {
        return LONGEST;
    }
    let has_few =
        |length: usize| edits_counted(predicate, length) <= FEW_EDITS || predicate.measure.needs_equal_lengths();
    // the longer, the more
    let (mut served, mut beyond) = (LONGEST, LONGEST_OF_FEW_EDITS + 1);
    while served + 1 < beyond {
        let middle = served.midpoint(beyond);
        if has_few(middle) { served = middle } else { beyond = middle }
    }
    served
}

/// Characters of the longest string that matches one of `length` or fewer, up to `most`.
pub(super) fn longest_partner(predicate: &EditPredicate, length: usize, most: usize) -> usize {
    let possible = |other: usize| predicate.is_possible(length, other, LONGEST_PREFIX);
    if length >= most || !possible(length) {
        return length.min(most);
    }
    length + farthest(0, most - length, |apart| possible(length + apart))
}

/// Whether a device only filters by a measure.
///
/// Damerau-Levenshtein is one: a transposition around insertions and deletions has no bit-parallel form. What it
/// changes, plain edits change as well, at most two for each that it costs. So pairs within twice as many plain edits
/// are all that can match.
pub(super) fn is_only_filtered(measure: EditMeasure) -> bool {
    measure.descriptor().kernel.is_none()
}

/// The most edits that a device counts between matching strings, the longer of which has `length` characters.
fn edits_counted(predicate: &EditPredicate, length: usize) -> usize {
    let edits = predicate.edits(length, length).unwrap_or(0);
    match predicate.measure.operations() {
        Some(operations) if is_only_filtered(predicate.measure) => {
            edits.saturating_mul(operations.plain_edits).min(length)
        }
        _ => edits,
    }
}

/// Bounds on a measure; `reach` is the address of its [`reaches`].
pub(crate) fn edit_test(predicate: &EditPredicate, reach: Address<Reach>) -> (EditCondition, EditKernel) {
    let measure = predicate.measure.number();
    // what is only filtered is so by plain edits
    let kernel = predicate.measure.descriptor().kernel.unwrap_or(EditKernel::Levenshtein);
    let bounds = if is_only_filtered(predicate.measure) { Bounds::everything() } else { predicate.bounds };
    let DeviceBounds { lower, upper, lower_inclusive, upper_inclusive } = DeviceBounds::of(bounds);
    let jaro = std::array::from_fn(|prefix| predicate.least_jaro(lower, prefix));
    let weights = predicate.measure.weights().get();
    (EditCondition { lower, upper, jaro, weights, reach, measure, lower_inclusive, upper_inclusive, unused: 0 }, kernel)
}

/// What a condition allows strings of each length, of up to `most` characters and with partners of as many.
///
/// An entry holds for its length and, what strings must share, for all greater ones: the fewest of any.
pub(crate) fn reaches(predicate: &EditPredicate, most: usize) -> Vec<Reach> {
    let mut apart = [0; 2];
    let mut reaches: Vec<Reach> = (0..=most).map(|length| reach(predicate, (length, most), &mut apart)).collect();
    for at in 1..reaches.len() {
        reaches[at].longest = reaches[at].longest.max(reaches[at - 1].longest);
    }
    for at in (1..reaches.len()).rev() {
        let Reach { shortest, characters, bigrams, .. } = reaches[at];
        let before = &mut reaches[at - 1];
        before.shortest = before.shortest.min(shortest);
        before.characters = before.characters.min(characters);
        before.bigrams = before.bigrams.min(bigrams);
    }
    reaches
}

/// Reach of one length. `apart` is how much shorter and longer strings may be: of the length before, and then of this
/// one.
fn reach(predicate: &EditPredicate, (length, most): (usize, usize), apart: &mut [usize; 2]) -> Reach {
    let possible = |other: usize| predicate.is_possible(length, other, LONGEST_PREFIX);
    if !possible(length) {
        return Reach { shortest: u32::MAX, longest: 0, edits: 0, characters: 0, bigrams: 0 };
    }
    let [shorter, longer] = apart;
    *shorter = farthest(*shorter, length, |apart| possible(length - apart));
    *longer = farthest(*longer, most - length, |apart| possible(length + apart));
    let (shortest, longest) = ((length - *shorter) as u32, (length + *longer) as u32);
    let Some(operations) = predicate.measure.operations() else {
        return Reach { shortest, longest, edits: 0, characters: 0, bigrams: 0 };
    };
    let edits = predicate.edits(length, length).unwrap_or(0);
    Reach {
        shortest,
        longest,
        edits: edits_counted(predicate, length) as u32,
        characters: length.saturating_sub(edits) as u32,
        bigrams: length.saturating_sub(1 + operations.torn_bigrams * edits) as u32,
    }
}

/// The farthest of `0..=most` that is `possible`, looked for from `guess` on: the farther, the less is possible, and 0
/// is.
fn farthest(guess: usize, most: usize, possible: impl Fn(usize) -> bool) -> usize {
    let mut far = guess.min(most);
    while far > 0 && !possible(far) {
        far -= 1;
    }
    while far < most && possible(far + 1) {
        far += 1;
    }
    far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_is_found_from_any_guess() {
        for (most, last) in (0..9).flat_map(|most| (0..=most).map(move |last| (most, last))) {
            (0..12).for_each(|guess| assert_eq!(farthest(guess, most, |at| at <= last), last, "{guess} of {most}"));
        }
    }

    #[test]
    fn the_longest_string_has_few_edits() {
        let longest = |measure, bounds| longest_string(&EditPredicate { measure, bounds });
        let (at_most, at_least) = (|k| Bounds::at_most(k, true), |t| Bounds::at_least(t, true));
        for measure in [EditMeasure::LEVENSHTEIN, EditMeasure::OSA] {
            assert_eq!([2.0, 510.0, 510.9].map(|k| longest(measure, at_most(k))), [1 << 14; 3]);
            assert_eq!([511.0, 1e9].map(|k| longest(measure, at_most(k))), [LONGEST; 2]);
        }
        assert_eq!([255.0, 256.0].map(|k| longest(EditMeasure::DAMERAU_LEVENSHTEIN, at_most(k))), [1 << 14, LONGEST]);
        assert_eq!(longest(EditMeasure::HAMMING, at_most(1e9)), 1 << 14);
        let similar = |t| longest(EditMeasure::LEVENSHTEIN_SIMILARITY, at_least(t));
        // one in five of 2,554 characters is 510
        assert_eq!([1.0, 0.8, 0.1].map(similar), [1 << 14, 2554, LONGEST]);
        assert_eq!(longest(EditMeasure::JARO_WINKLER, at_least(1.0)), LONGEST);
    }

    #[test]
    fn what_lengths_allow() {
        let bounds = |measure: EditMeasure| match measure.is_distance() {
            true => [-1.0, 0.0, 2.0, 2.5, 5000.0].map(|k| Bounds::at_most(k, true)),
            false => [0.01, 0.5, 0.7, 0.9, 1.0].map(|t| Bounds::at_least(t, true)),
        };
        let all = EditMeasure::ALL.iter().flat_map(|&measure| bounds(measure).map(|bounds| (measure, bounds)));
        for (measure, bounds) in all {
            let predicate = EditPredicate { measure, bounds };
            let reaches = reaches(&predicate, LONGEST);
            for (one, other) in (0..120).flat_map(|one| (0..120).map(move |other| (one, other))) {
                if !predicate.is_possible(one, other, LONGEST_PREFIX) {
                    continue;
                }
                let reach = reaches[one];
                assert!((reach.shortest..=reach.longest).contains(&(other as u32)), "{predicate:?} {one} {other}");
                let Some(edits) = (!predicate.is_jaro()).then(|| predicate.edits(one, other)).flatten() else {
                    continue;
                };
                let longer = reaches[one.max(other)];
                let counted =
                    if measure == EditMeasure::DAMERAU_LEVENSHTEIN { (2 * edits).min(one.max(other)) } else { edits };
                assert_eq!(longer.edits as usize, counted, "{predicate:?} {one} {other}");
                for least in &reaches[..=one.max(other)] {
                    let bigrams = least.bigrams as usize;
                    assert!(least.characters as usize + edits <= one.max(other));
                    assert!(bigrams == 0 || bigrams + 1 + 2 * edits <= one.max(other));
                }
            }
        }
    }
}
