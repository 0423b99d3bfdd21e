//! Decides an edit or Jaro condition for any pair of rows.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::predicate::{EditPredicate, LONGEST_PREFIX};

/// The strings of one side, by row.
#[derive(Debug)]
pub struct TextColumn {
    values: StringViewArray,
    /// What most pairs are decided by, on one cache line.
    briefs: Vec<Brief>,
    /// In characters.
    mean_length: f64,
}

#[derive(Debug, Clone, Copy)]
struct Brief {
    /// A bit for each character that occurs, several characters a bit.
    characters: u64,
    /// In characters, [`NULL`] for a NULL.
    length: u32,
}

const NULL: u32 = u32::MAX;

impl TextColumn {
    /// # Errors
    /// Keys that are no strings.
    pub fn try_new(keys: &ArrayRef) -> Result<Self> {
        let values = cast(keys, &DataType::Utf8View)?;
        let values = values.as_string_view().clone();
        let length = |text: &str| if text.is_ascii() { text.len() } else { text.chars().count() } as u32;
        let brief = |text: Option<&str>| match text {
            Some(text) => Brief { characters: occurring(text), length: length(text) },
            None => Brief { characters: 0, length: NULL },
        };
        let briefs: Vec<Brief> = values.iter().map(brief).collect();
        let known = briefs.iter().filter(|brief| brief.length != NULL);
        let (count, sum) = known.fold((0u64, 0u64), |(n, sum), brief| (n + 1, sum + u64::from(brief.length)));
        Ok(Self { values, briefs, mean_length: sum as f64 / count.max(1) as f64 })
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.values.get_buffer_memory_size() + self.briefs.len() * size_of::<Brief>()
    }

    /// Whether a row is not NULL.
    pub fn can_match(&self, row: usize) -> bool {
        self.briefs[row].length != NULL
    }

    /// The mean length in characters.
    pub fn mean_length(&self) -> f64 {
        self.mean_length
    }

    fn longest(&self) -> usize {
        self.briefs.iter().filter(|brief| brief.length != NULL).map(|brief| brief.length as usize).max().unwrap_or(0)
    }
}

fn occurring(text: &str) -> u64 {
    let bit = |c: char| 1 << (u32::from(c).wrapping_mul(0x9E37_79B1) >> 26);
    text.chars().fold(0, |bits, c| bits | bit(c))
}

/// A predicate, and what it allows for short lengths.
#[derive(Debug)]
pub struct EditPairTest {
    predicate: EditPredicate,
    /// Lengths below this are short.
    short: usize,
    /// For two short lengths, in how many character occurrences strings may differ; -1 where none match. The smaller
    /// the table, the longer it stays in the cache.
    allowed: Vec<i8>,
}

/// More lengths are not tabulated.
const MOST_LENGTHS: usize = 64;

impl EditPairTest {
    /// For pairs of rows, those of the build side in `build`, that satisfy `predicate`.
    pub fn new(predicate: EditPredicate, build: &TextColumn) -> Self {
        let short = (build.longest() + 1).min(MOST_LENGTHS);
        let lengths = |at: usize| (at / short, at % short);
        let allowed = |(left, right)| match predicate.slack(left, right, LONGEST_PREFIX) {
            // no more bits than there are characters in both strings differ
            Some(slack) => slack.characters.min(i64::from(i8::MAX)) as i8,
            None => -1,
        };
        Self { predicate, short, allowed: (0..short * short).map(lengths).map(allowed).collect() }
    }

    /// The places of `selected` whose pair matches, appended to `passed`; `pair` says which rows stand at a place.
    /// Once `stop` is true some may be missing.
    pub fn select(
        &self,
        (build, probe): (&TextColumn, &TextColumn),
        selected: &[u16],
        pair: impl Fn(u16) -> (u32, u32),
        stop: &dyn Fn() -> bool,
        passed: &mut Vec<u16>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            #[target_feature(enable = "popcnt")]
            fn counted(passed: &mut Vec<u16>, selected: &[u16], holds: impl Fn(u16) -> bool) {
                passed.extend(selected.iter().filter(|&&place| holds(place)));
            }
            // SAFETY: the feature has been detected.
            unsafe { counted(passed, selected, |place| self.holds(build, probe, pair(place), stop)) };
            return;
        }
        passed.extend(selected.iter().filter(|&&place| self.holds(build, probe, pair(place), stop)));
    }

    /// Whether the measure has to be computed for a pair of a build and a probe row.
    #[inline(always)]
    pub fn is_open(&self, build: &TextColumn, probe: &TextColumn, (b, p): (u32, u32)) -> bool {
        let (left, right) = (build.briefs[b as usize], probe.briefs[p as usize]);
        let (l, r) = (left.length as usize, right.length as usize);
        if l < self.short && r < self.short {
            // every bit that differs stands for a character that one string has and the other lacks
            let differing = (left.characters ^ right.characters).count_ones() as i8;
            differing <= self.allowed[l * self.short + r]
        } else {
            left.length != NULL && right.length != NULL && self.predicate.is_possible(l, r, LONGEST_PREFIX)
        }
    }

    #[inline(always)]
    fn holds(&self, build: &TextColumn, probe: &TextColumn, pair: (u32, u32), stop: &dyn Fn() -> bool) -> bool {
        self.is_open(build, probe, pair) && self.verify(build, probe, pair, stop)
    }

    #[inline(never)]
    fn verify(&self, build: &TextColumn, probe: &TextColumn, (b, p): (u32, u32), stop: &dyn Fn() -> bool) -> bool {
        let longest = build.briefs[b as usize].length.max(probe.briefs[p as usize].length) as usize;
        self.predicate.matches(build.values.value(b as usize), probe.values.value(p as usize), longest, stop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringArray;

    use super::*;
    use crate::measure::EditMeasure;
    use crate::predicate::Bounds;

    #[test]
    fn agrees_with_the_measure() {
        use EditMeasure::{DamerauLevenshtein, Hamming, Jaro, JaroWinkler, Levenshtein, LevenshteinSimilarity, Osa};
        let words = ["", "a", "ab", "ba", "martha", "marhta", "Straße", "strasse", "dixon", "dicksonx", "aaaaab"];
        let long = ["ab".repeat(40), "ab".repeat(41), "ba".repeat(40)];
        let texts: Vec<Option<&str>> =
            words.into_iter().chain(long.iter().map(String::as_str)).map(Some).chain([None]).collect();
        let column = TextColumn::try_new(&(Arc::new(StringArray::from(texts.clone())) as ArrayRef)).unwrap();
        let distances = [Levenshtein, Osa, DamerauLevenshtein, Hamming].map(|m| (m, Bounds::at_most(2.0, true)));
        let similarities = [LevenshteinSimilarity, Jaro, JaroWinkler].map(|m| (m, Bounds::at_least(0.8, true)));
        for (measure, bounds) in distances.into_iter().chain(similarities) {
            let test = EditPairTest::new(EditPredicate { measure, bounds }, &column);
            for (i, left) in texts.iter().enumerate() {
                for (j, right) in texts.iter().enumerate() {
                    let score = left.zip(*right).and_then(|(l, r)| measure.score(l, r));
                    let expected = score.is_some_and(|score| bounds.contains(score));
                    let mut passed = Vec::new();
                    let pair = |_| (i as u32, j as u32);
                    test.select((&column, &column), &[7], pair, &|| false, &mut passed);
                    assert_eq!(!passed.is_empty(), expected, "{measure:?} {left:?} {right:?}");
                }
            }
        }
    }
}
