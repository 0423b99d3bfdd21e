//! What a condition requires of two lengths.

use crate::condition::Bounds;
pub use similarity_measures::jaro_winkler::LONGEST_PREFIX;
use similarity_measures::levenshtein_similarity::similarity_of_distance;
use similarity_measures::{EditLimit, EditMeasure, EditScale};

/// A measure and the scores or distances that are accepted.
#[derive(Debug, Clone, Copy)]
pub struct EditPredicate {
    /// The measure.
    pub measure: EditMeasure,
    /// What is accepted; of a distance the upper bound must exist, of a similarity the lower one must exclude 0.
    pub bounds: Bounds,
}

/// How much two strings may differ, given their lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slack {
    /// Differing character occurrences: the size of the symmetric difference of the two bags of characters.
    pub characters: i64,
    /// Differing bigram occurrences.
    pub bigrams: i64,
}

/// Far more than any two strings differ by.
const UNLIMITED: i64 = i64::MAX / 4;

impl EditPredicate {
    /// How much strings of `left` and `right` characters may differ, `None` where they cannot match at all.
    ///
    /// `prefix` bounds the length of their common prefix. The farther the lengths are apart, the less is possible.
    pub fn slack(&self, left: usize, right: usize, prefix: usize) -> Option<Slack> {
        let Some(operations) = self.measure.operations() else { return self.jaro_slack(left, right, prefix) };
        let edits = self.edits(left, right)? as i64;
        // a substitution changes a character of either string, insertion and deletion one of one
        Some(Slack { characters: 2 * edits, bigrams: 2 * operations.torn_bigrams as i64 * edits })
    }

    /// The most edits between strings of `left` and `right` characters that match, `None` where they cannot.
    ///
    /// Must not be asked of Jaro and Jaro-Winkler.
    #[inline]
    pub fn edits(&self, left: usize, right: usize) -> Option<usize> {
        let (longest, apart) = (left.max(right), left.abs_diff(right));
        let most = match self.measure.scale() {
            EditScale::Share(_) => self.largest_difference(longest)?,
            EditScale::Distance(operations) if !operations.shifts && apart > 0 => return None,
            // no distance exceeds the longer length
            _ => self.largest_distance()?.min(longest),
        };
        (apart <= most).then_some(most)
    }

    /// The most edits between a string of `length` characters and any that it matches, `None` where there is no limit.
    pub fn most_edits(&self, length: usize) -> Option<usize> {
        match self.measure.scale() {
            EditScale::Jaro { .. } => return None,
            EditScale::Distance(_) => return self.largest_distance(),
            EditScale::Share(_) => {}
        }
        let (mut possible, mut impossible) = (length, 2 * length + 2);
        while self.edits(impossible, length).is_some() {
            (possible, impossible) = (impossible, impossible.checked_mul(2)?);
        }
        while possible + 1 < impossible {
            let middle = possible.midpoint(impossible);
            if self.edits(middle, length).is_some() { possible = middle } else { impossible = middle }
        }
        self.edits(possible, length)
    }

    /// The largest accepted distance, `None` where none is.
    pub fn largest_distance(&self) -> Option<usize> {
        let upper = self.bounds.upper()?;
        // not a number is above every distance, as infinity is
        let floor = if upper.value.is_nan() { f64::INFINITY } else { upper.value.floor() };
        let below = if floor == upper.value && !upper.inclusive { floor - 1.0 } else { floor };
        (below >= 0.0).then_some(below as usize)
    }

    /// The largest distance at which the similarity of strings, the longer of `longest` characters, is accepted.
    pub fn largest_difference(&self, longest: usize) -> Option<usize> {
        let accepted = |d: &usize| self.bounds.above_lower(similarity_of_distance(*d, longest));
        if !accepted(&0) {
            return None;
        }
        let lower = self.bounds.lower().map_or(0.0, |b| b.value);
        let guess = (((1.0 - lower) * longest as f64) as usize).min(longest);
        // the guess is off by rounding only
        let least = guess.saturating_sub(2);
        (least..=(guess + 2).min(longest)).rev().find(accepted).or_else(|| (0..least).rev().find(accepted))
    }

    /// Slack that follows from the fewest common characters that could still be accepted.
    fn jaro_slack(&self, left: usize, right: usize, prefix: usize) -> Option<Slack> {
        let most = left.min(right);
        let possible = |common: usize| self.bounds.above_lower(self.highest_jaro(common, left, right, prefix));
        if !possible(most) {
            return None;
        }
        let jaro = self.least_jaro(self.bounds.lower().map_or(0.0, |b| b.value), prefix);
        let guess = (3.0 * jaro - 1.0) / (1.0 / left as f64 + 1.0 / right as f64);
        // The guess is off by rounding only.
        let mut enough = (guess.ceil() as usize).min(most);
        while enough > 0 && possible(enough - 1) {
            enough -= 1;
        }
        while !possible(enough) {
            enough += 1;
        }
        Some(Slack { characters: (left + right - 2 * enough) as i64, bigrams: UNLIMITED })
    }

    /// Whether strings of `left` and `right` characters can match at all; as [`slack`](Self::slack), but faster.
    pub fn is_possible(&self, left: usize, right: usize, prefix: usize) -> bool {
        match self.is_jaro() {
            true => self.is_jaro_possible(left, right, prefix, left.abs_diff(right)),
            false => self.edits(left, right).is_some(),
        }
    }

    /// Whether strings can match that differ in no fewer than `characters` character occurrences.
    pub fn is_jaro_possible(&self, left: usize, right: usize, prefix: usize, characters: usize) -> bool {
        let common = (left + right).saturating_sub(characters) / 2;
        self.bounds.above_lower(self.highest_jaro(common.min(left).min(right), left, right, prefix))
    }

    /// The most bigram occurrences in which two strings may differ whose characters differ in `characters`.
    ///
    /// Let `m` characters be common, `w` of them misplaced. Of the `left - 1` bigrams of the left string at most
    /// `2 (left - m)` hold a character that is not common, at most `2 w` one that is misplaced, and at most `right - m`
    /// are torn apart in the right string; all others stand there too. A score of `j` allows `w <= 2 t + 1` where
    /// `t = m (1 - 3 j + m / left + m / right)`, so that the number of common bigrams has a lower bound that is concave
    /// in `m`: its least value is at the smallest or the largest possible `m`.
    pub fn jaro_bigrams(&self, left: usize, right: usize, prefix: usize, characters: i64) -> i64 {
        let Some(lower) = self.bounds.lower().filter(|_| left > 0 && right > 0) else { return UNLIMITED };
        let (l, r) = (left as f64, right as f64);
        let jaro = self.least_jaro(lower.value, prefix);
        let per_common = 1.0 / l + 1.0 / r;
        let shared = |m: f64| {
            let transpositions = (m * (1.0 - 3.0 * jaro + m * per_common)).max(0.0);
            let misplaced = 2.0 * transpositions + 1.0;
            3.0 * m - l - r - 1.0 - 2.0 * misplaced
        };
        let most = (l + r - characters as f64) / 2.0;
        let least = ((3.0 * jaro - 1.0) / per_common).min(most);
        let shared = shared(most).min(shared(least)).floor();
        if shared > 0.0 { left as i64 + right as i64 - 2 - 2 * shared as i64 } else { UNLIMITED }
    }

    /// A Jaro similarity below which the score, raised by a common prefix, stays under `score`.
    pub fn least_jaro(&self, score: f64, prefix: usize) -> f64 {
        self.measure.boost().map_or(score, |boost| boost.least_jaro(score, prefix)) - 1e-9
    }

    /// Upper bound of the score of any two strings of these lengths with `common` common characters.
    ///
    /// Jaro's sum is largest where every common character matches and none is transposed; computed in the measure's
    /// own order it bounds the measure's result, because rounding is monotonous. The Winkler term is not monotonous
    /// under rounding, so that it gets a margin.
    fn highest_jaro(&self, common: usize, left: usize, right: usize, prefix: usize) -> f64 {
        if left == 0 && right == 0 {
            return 1.0;
        }
        if common == 0 {
            return 0.0;
        }
        let m = common as f64;
        let jaro = (m / left as f64 + m / right as f64 + 1.0) / 3.0;
        match self.measure.boost() {
            Some(boost) if boost.applies(jaro) => boost.raised(jaro, prefix.min(LONGEST_PREFIX)) + 1e-9,
            _ => jaro,
        }
    }

    /// Whether common characters and their order make the score, not edits.
    pub fn is_jaro(&self) -> bool {
        self.measure.is_jaro()
    }

    /// Whether the first characters of two strings say how large a score can be.
    pub fn wants_classes(&self) -> bool {
        self.measure.boost().is_some()
    }

    /// Whether two strings, the longer of `longest` characters, match.
    ///
    /// Once `stop` is true the answer may be no.
    pub fn matches(&self, left: &str, right: &str, longest: usize, stop: &dyn Fn() -> bool) -> bool {
        self.score(left, right, longest, stop).is_some_and(|score| self.bounds.contains(score))
    }

    /// The score of two strings, the longer of `longest` characters; may be none where it is not accepted.
    ///
    /// Once `stop` is true it may be none.
    pub fn score(&self, left: &str, right: &str, longest: usize, stop: &dyn Fn() -> bool) -> Option<f64> {
        let edits = match self.measure.scale() {
            EditScale::Distance(_) => self.largest_distance()?,
            EditScale::Share(_) => self.largest_difference(longest)?,
            EditScale::Jaro { .. } => usize::MAX,
        };
        self.measure.score_within(left, right, EditLimit { edits, longest }, stop)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn predicate(measure: EditMeasure, bounds: Bounds) -> EditPredicate {
        EditPredicate { measure, bounds }
    }

    #[test]
    fn distances_are_whole_numbers() {
        let largest = |bounds| predicate(EditMeasure::LEVENSHTEIN, bounds).largest_distance();
        assert_eq!(largest(Bounds::at_most(2.0, true)), Some(2));
        assert_eq!(largest(Bounds::at_most(2.0, false)), Some(1));
        assert_eq!(largest(Bounds::at_most(2.5, false)), Some(2));
        assert_eq!(largest(Bounds::at_most(0.0, false)), None);
        assert_eq!(largest(Bounds::at_most(-1.0, true)), None);
        assert!(largest(Bounds::at_most(f64::INFINITY, true)).is_some_and(|k| k > 1 << 40));
    }

    #[test]
    fn similarities_at_the_threshold() {
        for longest in 1..200usize {
            for d in 0..=longest {
                let t = similarity_of_distance(d, longest);
                if t > 0.0 {
                    let p = predicate(EditMeasure::LEVENSHTEIN_SIMILARITY, Bounds::at_least(t, true));
                    assert_eq!(p.largest_difference(longest), Some(d));
                }
            }
        }
    }

    #[test]
    fn most_edits_cover_every_partner() {
        for t in [0.05, 0.3, 0.5, 2.0 / 3.0, 0.75, 0.8, 0.9, 0.95, 1.0] {
            let p = predicate(EditMeasure::LEVENSHTEIN_SIMILARITY, Bounds::at_least(t, true));
            for length in 0..60 {
                let most = (0..2000).filter_map(|other| p.edits(length, other)).max();
                assert_eq!(p.most_edits(length), most, "{t} {length}");
            }
        }
    }

    /// Occurrences that one of both has more than the other.
    fn differing<T: Ord>(mut left: Vec<T>, mut right: Vec<T>) -> i64 {
        left.sort_unstable();
        right.sort_unstable();
        let (mut at, mut common) = (0, 0);
        for one in &left {
            at += right[at..].iter().take_while(|other| *other < one).count();
            let is_common = right.get(at) == Some(one);
            (at, common) = (at + usize::from(is_common), common + usize::from(is_common));
        }
        (left.len() + right.len() - 2 * common) as i64
    }

    fn bigrams(text: &[char]) -> Vec<(char, char)> {
        text.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Whether what is required of two strings that match holds for these.
    fn passes_all_filters(p: &EditPredicate, left: &str, right: &str) -> bool {
        let [l, r] = [left, right].map(|text| text.chars().collect::<Vec<_>>());
        let common = l.iter().zip(&r).take(LONGEST_PREFIX).take_while(|(x, y)| x == y).count();
        let (characters, torn) = (differing(l.clone(), r.clone()), differing(bigrams(&l), bigrams(&r)));
        let (jaro, least) = (similarity_measures::jaro::jaro_similarity(left, right), p.bounds.lower().unwrap().value);
        [common, LONGEST_PREFIX, usize::MAX].into_iter().all(|prefix| {
            let (l, r) = (l.len(), r.len());
            p.slack(l, r, prefix).is_some_and(|slack| characters <= slack.characters)
                && p.is_possible(l, r, prefix)
                && p.is_jaro_possible(l, r, prefix, characters as usize)
                && torn <= p.jaro_bigrams(l, r, prefix, characters)
                && p.least_jaro(least, prefix) <= jaro
        })
    }

    #[test]
    fn filters_of_jaro_lose_no_match() {
        let mut rng = StdRng::seed_from_u64(12);
        let ends = [[0.0, 0.0], [0.25, 0.0], [0.25 - 1e-12, 0.0], [0.25, 0.7], [0.1, 0.0], [0.25, 1.0], [0.1, 0.7]];
        let random: Vec<[f64; 2]> =
            (0..150).map(|_| [rng.random_range(0.0..=0.25), rng.random_range(0.0..=1.0)]).collect();
        let raised = ends.into_iter().chain(random).map(|weights| EditMeasure::JARO_WINKLER.with(&weights).unwrap());
        let measures: Vec<EditMeasure> = raised.chain([EditMeasure::JARO]).collect();
        let mut turned_away = 0;
        for _ in 0..400 {
            let letters = rng.random_range(b'b'..b'i');
            let length = [0, 1, 2, 4, 5, 9, 14, 40][rng.random_range(0..8)];
            let left: Vec<u8> = (0..length).map(|_| rng.random_range(b'a'..=letters)).collect();
            let mut right = left.clone();
            for _ in 0..rng.random_range(0..5) {
                let at = rng.random_range(0..=right.len());
                match rng.random_range(0..3) {
                    0 => right.insert(at, rng.random_range(b'a'..=letters)),
                    1 if at < right.len() => drop(right.remove(at)),
                    _ if at > 1 => right.swap(at - 1, at - 2),
                    _ => {}
                }
            }
            let [left, right] = [left, right].map(|text| String::from_utf8(text).unwrap());
            let longest = left.len().max(right.len());
            for &measure in &measures {
                let score = measure.score(&left, &right).unwrap();
                for least in
                    [score, score.next_down(), score * 0.9, 0.01].into_iter().filter(|&t| t > 0.0 && t <= score)
                {
                    for inclusive in [true, false] {
                        let p = predicate(measure, Bounds::at_least(least, inclusive));
                        let matches = inclusive || least < score;
                        assert_eq!(p.matches(&left, &right, longest, &|| false), matches, "{p:?} {left} {right}");
                        assert!(!matches || passes_all_filters(&p, &left, &right), "{p:?} {left} {right}");
                    }
                }
                let beyond = predicate(measure, Bounds::at_least(score.next_up(), true));
                assert!(!beyond.matches(&left, &right, longest, &|| false), "{beyond:?} {left} {right}");
                let far = predicate(measure, Bounds::at_least(score.midpoint(1.0), true));
                turned_away += usize::from(score < 1.0 && !passes_all_filters(&far, &left, &right));
            }
        }
        assert!(turned_away > 10_000, "{turned_away}");
    }

    #[test]
    fn jaro_needs_common_characters() {
        let p = predicate(EditMeasure::JARO, Bounds::at_least(1.0, true));
        assert_eq!(p.slack(5, 5, 0).map(|s| s.characters), Some(0));
        assert_eq!(p.slack(5, 6, 0), None);
        assert_eq!(p.slack(0, 0, 0).map(|s| s.characters), Some(0));
        assert_eq!(p.slack(0, 3, 0), None);
    }
}
