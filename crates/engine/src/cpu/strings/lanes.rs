//! One string compared with many others, eight at a time: Levenshtein distances, and the characters that Jaro matches.
//!
//! Each lane of a register reads one of the others, character by character. A table says where each character of the
//! first string stands, and is made once for all of the others. Distances are those of Myers, *A fast bit-vector
//! algorithm for approximate string matching*, 1999, and Hyyrö, *A bit-vector algorithm for computing Levenshtein and
//! Damerau edit distances*, 2003.

use std::array;

use super::sides::Sides;
use super::sorted::SortedStrings;
use crate::cpu::registers::{self, Loop};
use crate::strings::predicate::LONGEST_PREFIX;

/// Number of pairs that are compared together.
const LANES: usize = 8;

/// Number of strings from which comparing them together pays.
const FEWEST: usize = 3;

/// Characters between two looks at whether any pair can still match.
const LOOK_EVERY: u64 = 4;

/// A string that is compared with others: of one to 64 characters, all of them ASCII.
pub(super) struct Pattern {
    /// Where each character stands, as bits.
    masks: [u64; 128],
    length: usize,
}

impl Pattern {
    /// A string ready to be compared, `None` if it is too long or has other characters.
    fn of(text: &str) -> Option<Self> {
        if !(1..=u64::BITS as usize).contains(&text.len()) || !text.is_ascii() {
            return None;
        }
        let mut masks = [0; 128];
        for (at, byte) in text.bytes().enumerate() {
            masks[usize::from(byte & 127)] |= 1 << at;
        }
        Some(Self { masks, length: text.len() })
    }

    /// A string ready to be compared with so many others; `None`, too, where comparing each by itself is faster.
    pub(super) fn that_pays(text: &str, others: usize) -> Option<Self> {
        if others >= FEWEST { Self::of(text) } else { None }
    }

    /// The columns that may match `row`, whose string this is, by the Levenshtein distance or by the number of
    /// characters that Jaro matches. They are moved to the front of `columns`. `limits` is memory to be used.
    pub(super) fn possible<'c>(
        &self,
        sides: &Sides<'_>,
        row: usize,
        columns: &'c mut [u32],
        limits: &mut Vec<u32>,
    ) -> &'c [u32] {
        limits.clear();
        let kept = match sides.predicate.measure.operations() {
            Some(operations) => {
                most_edits(sides, row, columns, operations.plain_edits, limits);
                self.keep::<false>(sides.build, columns, limits)
            }
            None => {
                fewest_matches(sides, row, columns, limits);
                self.keep::<true>(sides.build, columns, limits)
            }
        };
        &columns[..kept]
    }

    /// Keeps the strings at `positions` whose Levenshtein distance is at most the limit at the same place. With `JARO`
    /// it keeps those of which Jaro matches at least that many characters. Strings that are not ASCII always stay.
    /// Those that are kept come first, and their number is returned.
    fn keep<const JARO: bool>(&self, texts: &SortedStrings, positions: &mut [u32], limits: &[u32]) -> usize {
        let mut kept = 0;
        registers::run(Keep::<JARO> { pattern: self, texts, positions, limits, kept: &mut kept });
        kept
    }

    /// Levenshtein distances; beyond its limit a distance may be any number above it.
    #[inline(always)]
    fn distances(&self, lanes: &Lanes<'_>) -> [u64; LANES] {
        let (lengths, limits) = (lanes.lengths, lanes.limits);
        let last = self.length as u32 - 1;
        let (mut more, mut less) = ([u64::MAX; LANES], [0u64; LANES]);
        let mut distances = [self.length as u64; LANES];
        for at in 0..lanes.longest() {
            let equal = self.equal(lanes, at);
            for lane in 0..LANES {
                let (above, below) = (more[lane], less[lane]);
                let free = ((equal[lane] & above).wrapping_add(above) ^ above) | equal[lane] | below;
                let more_right = below | !(free | above);
                let less_right = free & above;
                // a string that has ended keeps its distance
                let goes_on = u64::from(at < lengths[lane]);
                let grown = distances[lane].wrapping_add(more_right >> last & goes_on);
                distances[lane] = grown.wrapping_sub(less_right >> last & goes_on);
                let more_shifted = more_right << 1 | 1;
                more[lane] = less_right << 1 | !(free | more_shifted);
                less[lane] = more_shifted & free;
            }
            // each further character takes one away at most
            let is_open = |lane: usize| distances[lane] <= limits[lane] + lengths[lane].saturating_sub(at + 1);
            if at % LOOK_EVERY == LOOK_EVERY - 1 && !(0..LANES).fold(false, |open, lane| open | is_open(lane)) {
                break;
            }
        }
        distances
    }

    /// Numbers of characters that Jaro matches; one that does not reach its limit may be too small.
    #[inline(always)]
    fn matches(&self, lanes: &Lanes<'_>) -> [u64; LANES] {
        let (lengths, limits) = (lanes.lengths, lanes.limits);
        let windows = lengths.map(|length| (length.max(self.length as u64) / 2).saturating_sub(1));
        // the positions within the window: they grow until the low end leaves 0
        let mut within = windows.map(|window| u64::MAX >> (u64::from(u64::BITS) - 1 - window.min(63)));
        let (mut taken, mut matches) = ([0u64; LANES], [0u64; LANES]);
        for at in 0..lanes.longest() {
            let equal = self.equal(lanes, at);
            for lane in 0..LANES {
                let goes_on = u64::from(at < lengths[lane]).wrapping_neg();
                let free = equal[lane] & within[lane] & !taken[lane] & goes_on;
                taken[lane] |= free & free.wrapping_neg();
                matches[lane] += u64::from(free != 0);
                within[lane] = within[lane] << 1 | u64::from(at < windows[lane]);
            }
            let is_open = |lane: usize| matches[lane] + lengths[lane].saturating_sub(at + 1) >= limits[lane];
            if at % LOOK_EVERY == LOOK_EVERY - 1 && !(0..LANES).fold(false, |open, lane| open | is_open(lane)) {
                break;
            }
        }
        matches
    }

    /// Where the pattern has the character that each lane reads.
    #[inline(always)]
    fn equal(&self, lanes: &Lanes<'_>, at: u64) -> [u64; LANES] {
        array::from_fn(|lane| self.masks[usize::from(lanes.character(lane, at))])
    }
}

/// Strings that are compared together.
struct Lanes<'a> {
    bytes: &'a [u8],
    starts: [usize; LANES],
    lengths: [u64; LANES],
    limits: [u64; LANES],
}

impl Lanes<'_> {
    #[inline(always)]
    fn longest(&self) -> u64 {
        self.lengths.into_iter().fold(0, u64::max)
    }

    /// The character of a string, or any one beyond its end.
    #[inline(always)]
    fn character(&self, lane: usize, at: u64) -> u8 {
        self.bytes.get(self.starts[lane] + at as usize).map_or(0, |byte| byte & 127)
    }
}

struct Keep<'a, const JARO: bool> {
    pattern: &'a Pattern,
    texts: &'a SortedStrings,
    positions: &'a mut [u32],
    limits: &'a [u32],
    /// How many of the positions are kept so far: the first ones.
    kept: &'a mut usize,
}

impl<const JARO: bool> Loop for Keep<'_, JARO> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { pattern, texts, positions, limits, kept } = self;
        for first in (0..positions.len()).step_by(LANES) {
            let filled = LANES.min(positions.len() - first);
            // the last string fills the lanes that are left
            let of_lanes: [u32; LANES] = array::from_fn(|lane| positions[first + lane.min(filled - 1)]);
            let places = of_lanes.map(|position| texts.place(position as usize));
            let is_ascii = of_lanes.map(|position| texts.is_ascii(position as usize));
            let lanes = Lanes {
                bytes: texts.bytes(),
                starts: array::from_fn(|lane| places[lane].start),
                // no lane waits for a string that stays anyway
                lengths: array::from_fn(|lane| if is_ascii[lane] { places[lane].len() as u64 } else { 0 }),
                limits: array::from_fn(|lane| u64::from(limits[first + lane.min(filled - 1)])),
            };
            // not by closures, which would not be compiled for wide registers
            let found = if JARO { pattern.matches(&lanes) } else { pattern.distances(&lanes) };
            for lane in 0..filled {
                let (found, limit) = (found[lane], lanes.limits[lane]);
                let passed = if JARO { found >= limit } else { found <= limit };
                positions[*kept] = of_lanes[lane];
                *kept += usize::from(passed || !is_ascii[lane]);
            }
        }
    }
}

/// Appends the largest Levenshtein distance that a row and each column may have. One edit of the measure stands for up
/// to `plain_edits` insertions, deletions and substitutions.
fn most_edits(sides: &Sides<'_>, row: usize, columns: &[u32], plain_edits: usize, limits: &mut Vec<u32>) {
    for (length, columns) in of_one_length(sides, columns) {
        // group and length allow the pair, so that there is a limit
        let edits = sides.predicate.edits(length, sides.probe.lengths[row] as usize).unwrap_or(0);
        let limit = u32::try_from(edits.saturating_mul(plain_edits)).unwrap_or(u32::MAX);
        limits.resize(limits.len() + columns.len(), limit);
    }
}

/// Appends the least number of characters that Jaro has to match between a row and each column.
fn fewest_matches(sides: &Sides<'_>, row: usize, columns: &[u32], limits: &mut Vec<u32>) {
    let own = sides.probe.lengths[row] as usize;
    for (length, columns) in of_one_length(sides, columns) {
        let fewest = |prefix: usize| match sides.predicate.slack(length, own, prefix) {
            Some(slack) => (length + own - slack.characters as usize) as u32 / 2,
            None => u32::MAX,
        };
        if !sides.predicate.wants_classes() {
            limits.resize(limits.len() + columns.len(), fewest(usize::MAX));
            continue;
        }
        let mut by_prefix = [None; LONGEST_PREFIX + 1];
        limits.extend(columns.iter().map(|&column| {
            let prefix = sides.common_prefix(row, column as usize);
            *by_prefix[prefix].get_or_insert_with(|| fewest(prefix))
        }));
    }
}

/// Columns in order, with the length of their strings.
fn of_one_length<'a>(sides: &'a Sides<'_>, columns: &'a [u32]) -> impl Iterator<Item = (usize, &'a [u32])> {
    let length = |column: u32| sides.build.lengths[column as usize];
    let alike = columns.chunk_by(move |&one, &other| length(one) == length(other));
    alike.map(move |columns| (length(columns[0]) as usize, columns))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use similarity_measures::EditMeasure;
    use similarity_measures::levenshtein::levenshtein;

    use super::*;
    use crate::condition::Bounds;
    use crate::strings::EditPredicate;
    use crate::test_oracle::strings::key_column;

    /// Characters of one string that have a partner of their own in the other, within Jaro's window.
    fn matches(one: &str, other: &str) -> usize {
        let window = (one.len().max(other.len()) / 2).saturating_sub(1);
        let mut others: Vec<Option<u8>> = other.bytes().map(Some).collect();
        let mut has_partner = |(at, byte): (usize, u8)| {
            let near = at.saturating_sub(window)..(at + window + 1).min(others.len());
            let partner = near.clone().find(|&place| others[place] == Some(byte));
            partner.map(|place| others[place] = None).is_some()
        };
        one.bytes().enumerate().filter(|&character| has_partner(character)).count()
    }

    #[test]
    fn keeps_what_the_limits_allow() {
        let mut rng = StdRng::seed_from_u64(9);
        let predicate = EditPredicate { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(2.0, true) };
        let mut at_the_limit = [0, 0];
        for _ in 0..300 {
            let longest = [3, 9, 20, 64, 90, 200][rng.random_range(0..6)];
            let letters = rng.random_range(b'b'..=b'z');
            let mut text = |longest: usize| -> String {
                let length = rng.random_range(0..=longest);
                (0..length).map(|_| char::from(rng.random_range(b'a'..=letters))).collect()
            };
            let mut values: Vec<Option<String>> = (0..37).map(|_| Some(text(longest))).collect();
            values.push(Some(format!("é{}", text(longest))));
            let mut one = text(longest.min(64));
            if longest >= 64 && rng.random_bool(0.5) {
                // the longest that a register holds
                one = one.chars().chain("ab".chars().cycle()).take(64).collect();
            }
            let texts = SortedStrings::try_new(&predicate, &key_column(&values, &None), &|_| Ok(())).unwrap();
            let Some(pattern) = Pattern::of(&one) else {
                assert!(one.is_empty());
                continue;
            };
            let count = rng.random_range(0..texts.len());
            let positions: Vec<u32> = (0..count).map(|_| rng.random_range(0..texts.len() as u32)).collect();
            let limits: Vec<u32> = (0..count).map(|_| rng.random_range(0..=longest as u32)).collect();
            let expected = |passes: &dyn Fn(&str, usize) -> bool| -> Vec<u32> {
                let is_kept = |(position, limit): (&u32, &u32)| {
                    let text = texts.text(*position as usize);
                    (!text.is_ascii() || passes(text, *limit as usize)).then_some(*position)
                };
                positions.iter().zip(&limits).filter_map(is_kept).collect()
            };
            let [mut near, mut matched] = [positions.clone(), positions.clone()];
            let kept = pattern.keep::<false>(&texts, &mut near, &limits);
            near.truncate(kept);
            assert_eq!(near, expected(&|text, limit| levenshtein(text, &one) <= limit), "{one:?}");
            let kept = pattern.keep::<true>(&texts, &mut matched, &limits);
            matched.truncate(kept);
            assert_eq!(matched, expected(&|text, limit| matches(text, &one) >= limit), "{one:?}");
            at_the_limit[0] += expected(&|text, limit| levenshtein(text, &one) == limit).len();
            at_the_limit[1] += expected(&|text, limit| matches(text, &one) == limit).len();
        }
        assert!(at_the_limit.into_iter().all(|pairs| pairs > 300), "{at_the_limit:?}");
    }

    #[test]
    fn some_strings_are_no_patterns() {
        let long = "a".repeat(65);
        assert!(["", "é", &long].into_iter().all(|text| Pattern::of(text).is_none()));
        assert!(Pattern::of(&long[1..]).is_some());
    }
}
