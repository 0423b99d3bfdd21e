//! pg_trgm: trigram sets of words and the similarities over them.
//!
//! A word is a maximal run of alphanumeric characters, in lower case, with two blanks before it and one after
//! it; its trigrams are its runs of three characters. On ASCII every value is PostgreSQL 15's.

use super::qgrams::qgrams;
use crate::set_descriptor::{Overlap, SetDescriptor};
use crate::{FunctionDoc, Tokenizer, jaccard};

pub(crate) const MEASURE: SetDescriptor = SetDescriptor {
    name: "similarity",
    doc: FunctionDoc {
        syntax: "similarity(a, b)",
        description: "pg_trgm: the Jaccard similarity of the trigrams of the words, in single precision.",
        example: ("similarity('word', 'two words')", "0.36363637"),
    },
    parameters: &[],
    tokenizer: Some(Tokenizer::Trigrams),
    is_count: false,
    is_symmetric: true,
    is_monotone: true,
    jaccard_floor: |least, _| least,
    // a score is rounded to single precision, up perhaps
    bounds: |least, _| jaccard::bounds(least * (1.0 - 1e-6)),
};

/// [`trigram_similarity`] in double precision.
#[inline]
pub fn score(overlap: Overlap) -> f64 {
    f64::from(trigram_similarity(overlap.common, overlap.left, overlap.right))
}

/// Jaccard over trigram sets in single precision, as pg_trgm computes it; 0 where either set is empty.
#[inline]
pub fn trigram_similarity(overlap: usize, left: usize, right: usize) -> f32 {
    if left == 0 || right == 0 {
        return 0.0;
    }
    overlap as f32 / (left + right - overlap) as f32
}

/// Calls `trigram` with each trigram of `s`, word by word, in order, repeats included.
///
/// `scratch` holds the padded word; its content before the call does not matter.
pub fn trigrams(s: &str, scratch: &mut String, mut trigram: impl FnMut(&str)) {
    for word in words(s) {
        pad(word, scratch);
        // Without padding characters of its own `qgrams` needs no scratch.
        qgrams(scratch, 3, None, &mut String::new(), &mut trigram);
    }
}

/// The greatest similarity of `a`'s trigram set and a run of `b`'s trigrams, as pg_trgm searches for it.
///
/// Not symmetric: `a` is the word that is looked for, `b` the text. 0 where either has no trigrams.
/// The search is pg_trgm's greedy one, which may miss the best run; the value is PostgreSQL's all the same.
pub fn word_similarity(a: &str, b: &str) -> f32 {
    let text = Text::new(a, b);
    let mut run = Run::new(text.distinct);
    let mut best = 0.0_f32;
    for (at, &element) in text.elements.iter().enumerate() {
        if element.wanted || !run.is_empty() {
            run.include(at, element);
        }
        if element.wanted {
            best = best.max(run.shorten(&text, |place| place));
        }
    }
    best
}

/// [`word_similarity`] with runs that begin and end where words of `b` do.
pub fn strict_word_similarity(a: &str, b: &str) -> f32 {
    let text = Text::new(a, b);
    let mut run = Run::new(text.distinct);
    let mut best = 0.0_f32;
    for (at, &element) in text.elements.iter().enumerate() {
        run.include(at, element);
        if element.ends_word {
            best = best.max(run.shorten(&text, |place| text.word_from(place)));
        }
    }
    best
}

fn words(s: &str) -> impl Iterator<Item = &str> {
    s.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn pad(word: &str, padded: &mut String) {
    padded.clear();
    padded.push_str("  ");
    if word.is_ascii() {
        padded.push_str(word);
        padded.make_ascii_lowercase();
    } else {
        // PostgreSQL lowers character by character, so a capital sigma at the end is no exception.
        padded.extend(word.chars().flat_map(char::to_lowercase));
    }
    padded.push(' ');
}

/// The trigram as one number: a character takes 21 bits.
fn packed(trigram: &str) -> u64 {
    trigram.chars().fold(0, |number, c| number << 21 | u64::from(u32::from(c)))
}

/// One trigram of the text that is searched.
#[derive(Clone, Copy)]
struct Element {
    /// Number of the trigram, below [`Text::distinct`]; equal trigrams have the same number.
    id: usize,
    /// Whether the trigram is one of those looked for.
    wanted: bool,
    ends_word: bool,
}

/// A text as the sequence of its trigrams, and what is looked for in it.
struct Text {
    elements: Vec<Element>,
    /// Where its words begin, in order.
    starts: Vec<usize>,
    /// Number of distinct trigrams of the text.
    distinct: usize,
    /// Number of distinct trigrams looked for.
    wanted: usize,
}

impl Text {
    fn new(pattern: &str, text: &str) -> Self {
        let mut scratch = String::new();
        let mut wanted = Vec::with_capacity(pattern.len() + 2);
        trigrams(pattern, &mut scratch, |trigram| wanted.push(packed(trigram)));
        wanted.sort_unstable();
        wanted.dedup();
        let mut elements = Vec::with_capacity(text.len() + 2);
        let mut known = Vec::with_capacity(text.len() + 2);
        let mut starts = Vec::new();
        for word in words(text) {
            let first = known.len();
            starts.push(first);
            trigrams(word, &mut scratch, |trigram| known.push(packed(trigram)));
            elements.extend((first..known.len()).map(|at| Element {
                id: 0,
                wanted: wanted.binary_search(&known[at]).is_ok(),
                ends_word: at + 1 == known.len(),
            }));
        }
        let distinct = number(&known, &mut elements);
        Self { elements, starts, distinct, wanted: wanted.len() }
    }

    /// The first place from `place` on where a word begins; behind the text where there is none.
    fn word_from(&self, place: usize) -> usize {
        let words_before = self.starts.partition_point(|&start| start < place);
        self.starts.get(words_before).copied().unwrap_or(self.elements.len())
    }
}

/// Numbers the trigrams of a text and returns how many distinct ones there are.
fn number(trigrams: &[u64], elements: &mut [Element]) -> usize {
    let mut order: Vec<usize> = (0..trigrams.len()).collect();
    order.sort_unstable_by_key(|&at| trigrams[at]);
    let same = order.chunk_by(|&x, &y| trigrams[x] == trigrams[y]);
    same.enumerate().map(|(id, places)| places.iter().for_each(|&at| elements[at].id = id)).count()
}

/// Sizes of a run of trigrams.
#[derive(Clone, Copy, Default)]
struct Sizes {
    /// Distinct trigrams of the run.
    distinct: usize,
    /// Distinct trigrams of the run that are looked for.
    shared: usize,
}

impl Sizes {
    fn add(&mut self, element: Element) {
        self.distinct += 1;
        self.shared += usize::from(element.wanted);
    }

    fn remove(&mut self, element: Element) {
        self.distinct -= 1;
        self.shared -= usize::from(element.wanted);
    }
}

/// The run of trigrams under consideration, which ends at the element included last.
///
/// Distinct trigrams stand in a ring, in the order of their last places: a run that begins later is another
/// set only where it begins behind the last place of a trigram. So a text of few distinct trigrams is searched
/// in time proportional to its length.
struct Run {
    sizes: Sizes,
    /// Links by trigram; one more joins the ring's ends.
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    /// The trigram's last place in the run, if it has one.
    last: Option<usize>,
    before: usize,
    after: usize,
}

impl Run {
    fn new(distinct: usize) -> Self {
        let alone = |id| Link { last: None, before: id, after: id };
        Self { sizes: Sizes::default(), links: (0..=distinct).map(alone).collect() }
    }

    fn is_empty(&self) -> bool {
        self.sizes.distinct == 0
    }

    fn end(&self) -> usize {
        self.links.len() - 1
    }

    fn include(&mut self, at: usize, element: Element) {
        if self.links[element.id].last.is_none() {
            self.sizes.add(element);
        }
        self.unlink(element.id);
        let (end, before) = (self.end(), self.links[self.end()].before);
        self.links[element.id] = Link { last: Some(at), before, after: end };
        self.links[before].after = element.id;
        self.links[end].before = element.id;
    }

    fn unlink(&mut self, id: usize) {
        let Link { before, after, .. } = self.links[id];
        self.links[before].after = after;
        self.links[after].before = before;
        self.links[id] = Link { last: None, before: id, after: id };
    }

    /// Moves the start to the place that makes the run most similar (the first of equals), and returns that
    /// similarity. `start_from` gives the first place, from a given one on, where a run may begin.
    fn shorten(&mut self, text: &Text, start_from: impl Fn(usize) -> usize) -> f32 {
        let similarity = |sizes: Sizes| trigram_similarity(sizes.shared, text.wanted, sizes.distinct);
        let (mut best, mut best_start) = (similarity(self.sizes), 0);
        let mut sizes = self.sizes;
        let mut first = self.links[self.end()].after;
        while let Some(last) = self.links[first].last {
            sizes.remove(text.elements[last]);
            // A still shorter run shares no more than this one: at best it is all shared.
            if trigram_similarity(sizes.shared, text.wanted, sizes.shared) <= best {
                break;
            }
            first = self.links[first].after;
            let start = start_from(last + 1);
            if self.links[first].last.is_some_and(|next| start <= next) && similarity(sizes) > best {
                (best, best_start) = (similarity(sizes), start);
            }
        }
        self.drop_before(best_start, text);
        best
    }

    fn drop_before(&mut self, start: usize, text: &Text) {
        let mut first = self.links[self.end()].after;
        while let Some(last) = self.links[first].last.filter(|&last| last < start) {
            let after = self.links[first].after;
            self.sizes.remove(text.elements[last]);
            self.unlink(first);
            first = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(s: &str) -> Vec<String> {
        let mut all = Vec::new();
        trigrams(s, &mut "left over".to_string(), |t| all.push(t.to_string()));
        all
    }

    #[test]
    fn pads_each_word() {
        assert_eq!(all("Cat"), ["  c", " ca", "cat", "at "]);
        assert_eq!(all("a, B!"), ["  a", " a ", "  b", " b "]);
        assert_eq!(all("aaaa"), ["  a", " aa", "aaa", "aaa", "aa "]);
        assert_eq!(all(""), [""; 0]);
        assert_eq!(all(" -_/ "), [""; 0]);
        assert_eq!(all("foo_1"), ["  f", " fo", "foo", "oo ", "  1", " 1 "]);
    }

    #[test]
    fn counts_characters_not_bytes() {
        assert_eq!(all("ÉTÉ"), ["  é", " ét", "été", "té "]);
        assert_eq!(all("東京"), ["  東", " 東京", "東京 "]);
        assert_eq!(all("ΣΑΣ"), ["  σ", " σα", "σασ", "ασ "]);
        assert_eq!(all(&"x".repeat(300)).len(), 301);
    }

    #[test]
    fn packing_tells_trigrams_apart() {
        assert_ne!(packed("ab "), packed("ab"));
        assert_ne!(packed("\u{10FFFF}a "), packed("\u{10FFFE}a "));
        assert_eq!(packed("東京 "), packed("東京 "));
    }

    fn similarity(a: &str, b: &str) -> f32 {
        let set = |s| all(s).into_iter().collect::<std::collections::BTreeSet<String>>();
        let (a, b) = (set(a), set(b));
        trigram_similarity(a.intersection(&b).count(), a.len(), b.len())
    }

    // Expected values: PostgreSQL 15, pg_trgm.
    #[test]
    fn meets_recorded_similarities() {
        assert_eq!(similarity("word", "two words"), 0.36363637);
        assert_eq!(similarity("Hello World", "hello"), 0.5);
        assert_eq!(similarity("data base", "database systems"), 0.35);
    }

    // Expected values: PostgreSQL 15, pg_trgm: similarity of the word, then of whole words.
    #[test]
    fn meets_recorded_word_similarities() {
        let cases = [
            ("word", "two words", 0.8, 0.5714286),
            ("Hello World", "hello", 0.5, 0.5),
            ("cat", "the cats sat", 0.75, 0.5),
            ("aba", "ab bab abab", 0.75, 0.5),
            ("ab", "xab abx ab", 1.0, 1.0),
            ("a b", "b a b c", 1.0, 1.0),
            ("data base", "database systems", 0.5833333, 0.5833333),
            ("", "a", 0.0, 0.0),
            ("a", "", 0.0, 0.0),
            ("", "", 0.0, 0.0),
            ("--", "a", 0.0, 0.0),
        ];
        for (a, b, word, strict) in cases {
            assert_eq!(word_similarity(a, b), word, "{a} in {b}");
            assert_eq!(strict_word_similarity(a, b), strict, "{a} in words of {b}");
        }
    }

    // In time proportional to the square of the length this would take most of an hour.
    #[test]
    fn a_long_text_of_few_trigrams_is_searched_once() {
        assert_eq!(word_similarity("abab", &"ab".repeat(500_000)), 1.0);
        assert_eq!(strict_word_similarity("ab ba", &"ab ".repeat(300_000)), 0.5);
    }

    #[test]
    fn a_long_text_finds_its_own_words() {
        let text: String = (0..300).map(|n| format!("word{n} ")).collect();
        assert_eq!(word_similarity("word217", &text), 1.0);
        assert_eq!(strict_word_similarity("word217 word218", &text), 1.0);
        assert_eq!(strict_word_similarity("É", "l'été, É"), 1.0);
    }
}
