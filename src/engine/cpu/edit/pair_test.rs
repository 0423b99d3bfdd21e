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
    /// In characters, [`NULL`] for a NULL.
    lengths: Vec<u32>,
    /// A bit for each character that occurs, several characters a bit.
    characters: Vec<u64>,
}

const NULL: u32 = u32::MAX;

impl TextColumn {
    /// # Errors
    /// Keys that are no strings.
    pub fn try_new(keys: &ArrayRef) -> Result<Self> {
        let values = cast(keys, &DataType::Utf8View)?;
        let values = values.as_string_view().clone();
        let length = |text: &str| if text.is_ascii() { text.len() } else { text.chars().count() } as u32;
        let lengths = values.iter().map(|text| text.map_or(NULL, length)).collect();
        let characters = values.iter().map(|text| text.map_or(0, occurring)).collect();
        Ok(Self { values, lengths, characters })
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.values.get_buffer_memory_size() + self.lengths.len() * (size_of::<u32>() + size_of::<u64>())
    }

    /// Whether a row is not NULL.
    pub fn can_match(&self, row: usize) -> bool {
        self.lengths[row] != NULL
    }

    /// The mean length in characters.
    pub fn mean_length(&self) -> f64 {
        let known = self.lengths.iter().filter(|&&length| length != NULL);
        let (count, sum) = known.fold((0u64, 0u64), |(n, sum), &length| (n + 1, sum + u64::from(length)));
        sum as f64 / count.max(1) as f64
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
    /// For two lengths below [`SHORT`], in how many character occurrences strings may differ; -1 where none match.
    allowed: Vec<i16>,
}

const SHORT: usize = 64;

impl EditPairTest {
    /// For pairs that satisfy `predicate`.
    pub fn new(predicate: EditPredicate) -> Self {
        let lengths = |at: usize| (at / SHORT, at % SHORT);
        let allowed = |(left, right)| match predicate.slack(left, right, LONGEST_PREFIX) {
            Some(slack) => slack.characters.min(i64::from(i16::MAX)) as i16,
            None => -1,
        };
        Self { predicate, allowed: (0..SHORT * SHORT).map(lengths).map(allowed).collect() }
    }

    /// Whether a build and a probe row match. Once `stop` is true the answer may be no.
    #[inline]
    pub fn matches(&self, build: (&TextColumn, u32), probe: (&TextColumn, u32), stop: &dyn Fn() -> bool) -> bool {
        let ((build, i), (probe, j)) = ((build.0, build.1 as usize), (probe.0, probe.1 as usize));
        let (left, right) = (build.lengths[i], probe.lengths[j]);
        if left == NULL || right == NULL {
            return false;
        }
        let (l, r) = (left as usize, right as usize);
        if l < SHORT && r < SHORT {
            // every bit that differs stands for a character that one string has and the other lacks
            let differing = (build.characters[i] ^ probe.characters[j]).count_ones() as i16;
            if differing > self.allowed[l * SHORT + r] {
                return false;
            }
        } else if !self.predicate.is_possible(l, r, LONGEST_PREFIX) {
            return false;
        }
        self.predicate.matches(build.values.value(i), probe.values.value(j), l.max(r), stop)
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
            let test = EditPairTest::new(EditPredicate { measure, bounds });
            for (i, left) in texts.iter().enumerate() {
                for (j, right) in texts.iter().enumerate() {
                    let score = left.zip(*right).and_then(|(l, r)| measure.score(l, r));
                    let expected = score.is_some_and(|score| bounds.contains(score));
                    let matches = test.matches((&column, i as u32), (&column, j as u32), &|| false);
                    assert_eq!(matches, expected, "{measure:?} {left:?} {right:?}");
                }
            }
        }
    }
}
