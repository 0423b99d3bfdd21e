//! How a value becomes a set.

/// The way from one key value to its set of elements.
///
/// The engines tokenise with the same functions that the SQL functions `word_tokens`, `qgrams` and
/// `show_trgm` use, so that `jaccard(word_tokens(a.x), word_tokens(b.x))` sees equal sets on either road.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    /// A list: its distinct non-NULL elements, floats by bits with -0.0 = 0.0 and one NaN.
    Elements,
    /// A string: [`word_tokens`](super::word_tokens).
    Words,
    /// A string: [`qgrams`](super::qgrams) of length `q`, optionally padded.
    QGrams {
        /// Length of a gram in Unicode scalar values, at least 1.
        q: usize,
        /// The character of which `q - 1` copies stand on each side.
        pad: Option<char>,
    },
    /// A string: pg_trgm's [`trigrams`](super::trigram).
    Trigrams,
}
