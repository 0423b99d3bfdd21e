//! pg_trgm: trigram sets of words and the similarities over them.
//!
//! A word is a maximal run of alphanumeric characters, in lower case, with two blanks before it and one after
//! it; its trigrams are its runs of three characters. On ASCII every value is PostgreSQL 15's.

use super::qgrams::qgrams;

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
        if element.wanted {
            if run.start.is_none() {
                run.start = Some(at);
            }
            run.include(at, element);
            best = best.max(run.shorten(&text, at, |_| true));
        } else if run.start.is_some() {
            run.include(at, element);
        }
    }
    best
}

/// [`word_similarity`] with runs that begin and end where words of `b` do.
pub fn strict_word_similarity(a: &str, b: &str) -> f32 {
    let text = Text::new(a, b);
    let mut run = Run::new(text.distinct);
    run.start = Some(0);
    let mut best = 0.0_f32;
    for (at, &element) in text.elements.iter().enumerate() {
        run.include(at, element);
        if element.ends_word {
            best = best.max(run.shorten(&text, at, |element| element.begins_word));
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
    /// The same number for the same trigram, below [`Text::distinct`].
    id: usize,
    /// Whether the trigram is one of those looked for.
    wanted: bool,
    begins_word: bool,
    ends_word: bool,
}

/// A text as the sequence of its trigrams, and what is looked for in it.
struct Text {
    elements: Vec<Element>,
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
        for word in words(text) {
            let first = known.len();
            trigrams(word, &mut scratch, |trigram| known.push(packed(trigram)));
            elements.extend((first..known.len()).map(|at| Element {
                id: 0,
                wanted: wanted.binary_search(&known[at]).is_ok(),
                begins_word: at == first,
                ends_word: at + 1 == known.len(),
            }));
        }
        let distinct = number(&known, &mut elements);
        Self { elements, distinct, wanted: wanted.len() }
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
    /// Those among them that are looked for.
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
struct Run {
    /// Where it begins, once it has begun.
    start: Option<usize>,
    sizes: Sizes,
    /// By trigram, the last place in the run.
    last: Vec<Option<usize>>,
}

impl Run {
    fn new(distinct: usize) -> Self {
        Self { start: None, sizes: Sizes::default(), last: vec![None; distinct] }
    }

    fn include(&mut self, at: usize, element: Element) {
        if self.last[element.id].replace(at).is_none() {
            self.sizes.add(element);
        }
    }

    /// Moves the start to the place, among those that `may_begin` admits, that makes the run up to `end` most
    /// similar (the first of equals), and returns that similarity.
    fn shorten(&mut self, text: &Text, end: usize, may_begin: impl Fn(Element) -> bool) -> f32 {
        let start = self.start.unwrap_or(end);
        let similarity = |sizes: Sizes| trigram_similarity(sizes.shared, text.wanted, sizes.distinct);
        let (mut best, mut best_start, mut best_sizes) = (similarity(self.sizes), start, self.sizes);
        let mut sizes = self.sizes;
        for (at, &element) in text.elements.iter().enumerate().take(end + 1).skip(start) {
            if may_begin(element) && similarity(sizes) > best {
                (best, best_start, best_sizes) = (similarity(sizes), at, sizes);
            }
            if self.last[element.id] == Some(at) {
                sizes.remove(element);
            }
        }
        for (at, element) in text.elements.iter().enumerate().take(best_start).skip(start) {
            if self.last[element.id] == Some(at) {
                self.last[element.id] = None;
            }
        }
        (self.start, self.sizes) = (Some(best_start), best_sizes);
        best
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

    #[test]
    fn a_long_text_finds_its_own_words() {
        let text: String = (0..300).map(|n| format!("word{n} ")).collect();
        assert_eq!(word_similarity("word217", &text), 1.0);
        assert_eq!(strict_word_similarity("word217 word218", &text), 1.0);
        assert_eq!(strict_word_similarity("É", "l'été, É"), 1.0);
    }
}
