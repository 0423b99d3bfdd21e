//! Jaro similarity: matches of characters close to each other, and how many of them are out of order.
//!
//! Counted in Unicode scalar values. The match is the greedy one: each character of the first string, in
//! order, takes the first free equal character of the second string within the window. Since windows only
//! move right, the characters of one kind are thus paired in the order in which they stand, whichever string
//! is read first: the measure is symmetric, and strings of any length are matched by one merge.

use std::ops::{BitAnd, BitOr, Not, Shl, Shr};
use std::{array, iter, mem};

use super::symbols::{Masks, Symbol, Symbols, WORD};
use crate::FunctionDoc;
use crate::edit_descriptor::{EditCost, EditDescriptor, EditKernel, EditScale, EditSteps};

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "jaro_similarity",
    doc: Some(FunctionDoc {
        syntax: "jaro_similarity(a, b)",
        description: "Jaro's similarity: common characters near each other, less their transpositions; 1 for two \
                      empty strings.",
        example: ("round(jaro_similarity('martha', 'marhta'), 3)", "0.944"),
    }),
    parameters: &[],
    scale: EditScale::Jaro { is_raised: false },
    cost: EditCost { fixed: 45.0, step: 2.5, steps: EditSteps::Words },
    kernel: Some(EditKernel::Jaro),
};

/// The Jaro similarity of `a` and `b`, between 0 and 1; 1 for two empty strings, 0 if only one is empty.
///
/// With `m` characters matched within a distance of `max(len) / 2 - 1` and `t` half the number of matched
/// characters out of order, rounded down: `(m / len(a) + m / len(b) + (m - t) / m) / 3`.
///
/// # Example
///
/// ```
/// use similarity_measures::jaro::jaro_similarity;
///
/// assert!((jaro_similarity("MARTHA", "MARHTA") - 17.0 / 18.0).abs() < 1e-15);
/// ```
pub fn jaro_similarity(a: &str, b: &str) -> f64 {
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => similarity(a, b),
        Symbols::Decoded(a, b) => similarity::<char>(&a, &b),
    }
}

fn similarity<S: Symbol>(a: &[S], b: &[S]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let longest = a.len().max(b.len());
    let window = (longest / 2).saturating_sub(1);
    let (matches, misplaced) = match longest.div_ceil(WORD) {
        0 | 1 => match_bits::<S, u64>(a, b, window),
        2 => match_bits::<S, u128>(a, b, window),
        3 | 4 => match_blocks::<S, 4>(a, b, window),
        _ => match a.iter().chain(b).copied().map(code).max() {
            Some(largest) if largest < CHAINS => match_chains(a, b, window, largest + 1),
            _ => match_lists(a, b, window),
        },
    };
    if matches == 0 {
        return 0.0;
    }
    let in_order = (matches - misplaced / 2) as f64;
    let matches = matches as f64;
    // This order of operations is the definition: it decides the last bit of the score.
    (matches / a.len() as f64 + matches / b.len() as f64 + in_order / matches) / 3.0
}

/// A set of positions.
trait Positions:
    Copy
    + PartialEq
    + From<bool>
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Shl<usize, Output = Self>
    + Shr<usize, Output = Self>
{
    /// How many positions there are.
    const SIZE: usize;
    const NONE: Self;
    /// The positions of each symbol.
    type Masks<S: Symbol>;

    fn masks<S: Symbol>(pattern: &[S]) -> Self::Masks<S>;

    fn at<S: Symbol>(masks: &Self::Masks<S>, symbol: S) -> Self;

    /// The first position alone, or none.
    fn first(self) -> Self;
}

impl Positions for u64 {
    const SIZE: usize = WORD;
    const NONE: Self = 0;
    type Masks<S: Symbol> = S::Masks;

    #[inline]
    fn masks<S: Symbol>(pattern: &[S]) -> S::Masks {
        S::Masks::of(pattern)
    }

    #[inline]
    fn at<S: Symbol>(masks: &S::Masks, symbol: S) -> Self {
        masks.at(symbol)
    }

    #[inline]
    fn first(self) -> Self {
        self & self.wrapping_neg()
    }
}

impl Positions for u128 {
    const SIZE: usize = 2 * WORD;
    const NONE: Self = 0;
    type Masks<S: Symbol> = (S::Masks, S::Masks);

    #[inline]
    fn masks<S: Symbol>(pattern: &[S]) -> Self::Masks<S> {
        let (low, high) = pattern.split_at(pattern.len().min(WORD));
        (S::Masks::of(low), S::Masks::of(high))
    }

    #[inline]
    fn at<S: Symbol>((low, high): &Self::Masks<S>, symbol: S) -> Self {
        Self::from(high.at(symbol)) << WORD | Self::from(low.at(symbol))
    }

    #[inline]
    fn first(self) -> Self {
        self & self.wrapping_neg()
    }
}

/// The numbers of matches and of matches out of order, of strings of at most as many symbols as `P` has positions.
#[inline]
fn match_bits<S: Symbol, P: Positions>(a: &[S], b: &[S], window: usize) -> (usize, usize) {
    let masks = P::masks(b);
    let mut matched_b = P::NONE;
    // The matched symbols in order; what comes after them is overwritten or never read.
    let (mut in_a, mut in_b) = ([S::default(); 2 * WORD + 1], [S::default(); 2 * WORD + 1]);
    let mut matches = 0;
    // The positions of `b` within the window of a position of `a`: it grows until its low end leaves 0.
    let mut within = !P::NONE >> (P::SIZE - 1 - window.min(P::SIZE - 1));
    for (i, &symbol) in a.iter().enumerate() {
        let free = P::at(&masks, symbol) & within & !matched_b;
        matched_b = matched_b | free.first();
        in_a[matches] = symbol;
        matches += usize::from(free != P::NONE);
        within = within << 1 | P::from(i < window);
    }
    let mut seen = 0;
    for (j, &symbol) in b.iter().enumerate() {
        in_b[seen] = symbol;
        seen += usize::from(matched_b >> j & P::from(true) != P::NONE);
    }
    (matches, in_a[..matches].iter().zip(&in_b[..matches]).filter(|(x, y)| x != y).count())
}

/// [`match_bits`] for strings of at most `WORDS` times 64 symbols.
fn match_blocks<S: Symbol, const WORDS: usize>(a: &[S], b: &[S], window: usize) -> (usize, usize) {
    let mut blocks = b.chunks(WORD);
    let masks: [S::Masks; WORDS] = array::from_fn(|_| S::Masks::of(blocks.next().unwrap_or_default()));
    let (mut matched_a, mut matched_b) = ([0u64; WORDS], [0u64; WORDS]);
    for (i, &symbol) in a.iter().enumerate() {
        let (low, high) = (i.saturating_sub(window), (i + window).min(WORDS * WORD - 1));
        for n in low / WORD..=high / WORD {
            let from = u64::MAX << low.saturating_sub(n * WORD).min(WORD - 1);
            let to = u64::MAX >> (n * WORD + WORD - 1).saturating_sub(high).min(WORD - 1);
            let free = masks[n].at(symbol) & from & to & !matched_b[n];
            if free != 0 {
                matched_b[n] |= free & free.wrapping_neg();
                matched_a[i / WORD] |= 1 << (i % WORD);
                break;
            }
        }
    }
    let matches = matched_a.iter().map(|word| word.count_ones() as usize).sum();
    (matches, ones(&matched_a).zip(ones(&matched_b)).filter(|&(i, j)| a[i] != b[j]).count())
}

/// The positions of the bits that are set, in order.
fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(n, &word)| {
        let rest = |rest: &u64| Some(rest & (rest - 1)).filter(|&rest| rest != 0);
        iter::successors(Some(word).filter(|&word| word != 0), rest)
            .map(move |rest| n * WORD + rest.trailing_zeros() as usize)
    })
}

/// The symbols of an alphabet that is small enough for a table: most scripts but those of East Asia.
const CHAINS: usize = 4096;

fn code<S: Symbol>(symbol: S) -> usize {
    symbol.into() as usize
}

/// [`match_bits`] for strings of any length whose symbols have codes below `codes`, in linear time.
fn match_chains<S: Symbol>(a: &[S], b: &[S], window: usize, codes: usize) -> (usize, usize) {
    // For each symbol its first position in `b` that is still in reach, for each position the next of its symbol.
    let mut firsts = vec![b.len(); codes];
    let mut nexts = vec![0; b.len()];
    for (j, &symbol) in b.iter().enumerate().rev() {
        nexts[j] = mem::replace(&mut firsts[code(symbol)], j);
    }
    let mut in_a = Vec::with_capacity(a.len().min(b.len()));
    let mut matched_b = vec![false; b.len()];
    for (i, &symbol) in a.iter().enumerate() {
        let first = &mut firsts[code(symbol)];
        while *first < b.len() && *first + window < i {
            *first = nexts[*first];
        }
        if *first < b.len() && *first <= i + window {
            in_a.push(symbol);
            matched_b[*first] = true;
            *first = nexts[*first];
        }
    }
    let in_b = b.iter().zip(&matched_b).filter(|(_, matched)| **matched).map(|(symbol, _)| symbol);
    (in_a.len(), in_a.iter().zip(in_b).filter(|(x, y)| x != y).count())
}

/// [`match_bits`] for strings of any length.
fn match_lists<S: Symbol>(a: &[S], b: &[S], window: usize) -> (usize, usize) {
    let (order_a, order_b) = (by_symbol(a), by_symbol(b));
    let (mut matched_a, mut matched_b) = (vec![false; a.len()], vec![false; b.len()]);
    let (mut matches, mut at_a, mut at_b) = (0, 0, 0);
    while let (Some(&place_a), Some(&place_b)) = (order_a.get(at_a), order_b.get(at_b)) {
        let (i, j) = (place_a & POSITION, place_b & POSITION);
        let pair = place_a >> POSITION_BITS == place_b >> POSITION_BITS && i.abs_diff(j) <= window as u64;
        if pair {
            (matched_a[i as usize], matched_b[j as usize]) = (true, true);
            matches += 1;
        }
        // Without a pair the lesser of the two is out of reach of all that follows in the other string.
        at_a += usize::from(pair || place_a < place_b);
        at_b += usize::from(pair || place_a > place_b);
    }
    let in_a = a.iter().zip(&matched_a).filter(|(_, matched)| **matched);
    let in_b = b.iter().zip(&matched_b).filter(|(_, matched)| **matched);
    (matches, in_a.zip(in_b).filter(|((x, _), (y, _))| x != y).count())
}

/// A symbol takes 21 bits, which leaves more for its position than memory has bytes for strings.
const POSITION_BITS: u32 = 43;
const POSITION: u64 = (1 << POSITION_BITS) - 1;

/// The symbols with their positions, as one number each, equal symbols together and in order.
fn by_symbol<S: Symbol>(symbols: &[S]) -> Vec<u64> {
    let places = symbols.iter().zip(0u64..);
    let mut order: Vec<_> = places.map(|(&symbol, at)| u64::from(symbol.into()) << POSITION_BITS | at).collect();
    order.sort_unstable();
    order
}

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    Some(jaro_similarity(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_strings::{pairs, plain_jaro};

    #[test]
    fn agrees_with_the_definition_either_way_round() {
        for (a, b) in pairs() {
            let expected = plain_jaro(&a, &b);
            assert_eq!(jaro_similarity(&a, &b), expected, "{a:?} {b:?}");
            assert_eq!(jaro_similarity(&b, &a), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn all_ways_to_match_agree() {
        for (a, b) in pairs() {
            let (a, b) = (a.chars().collect::<Vec<_>>(), b.chars().collect::<Vec<_>>());
            let longest = a.len().max(b.len());
            for window in [0, 1, 2, 62, 63, 64, (longest / 2).saturating_sub(1)] {
                let expected = match_lists(&a, &b, window);
                let codes = a.iter().chain(&b).copied().map(code).max().map_or(0, |largest| largest + 1);
                assert_eq!(match_chains(&a, &b, window, codes), expected, "{a:?} {b:?} {window}");
                if longest <= WORD {
                    assert_eq!(match_bits::<_, u64>(&a, &b, window), expected, "{a:?} {b:?} {window}");
                }
                if longest <= 2 * WORD {
                    assert_eq!(match_bits::<_, u128>(&a, &b, window), expected, "{a:?} {b:?} {window}");
                }
                if longest <= 4 * WORD {
                    assert_eq!(match_blocks::<_, 4>(&a, &b, window), expected, "{a:?} {b:?} {window}");
                }
            }
        }
    }

    #[test]
    fn known_values() {
        assert!((jaro_similarity("martha", "marhta") - 17.0 / 18.0).abs() < 1e-15);
        assert!((jaro_similarity("dixon", "dicksonx") - 23.0 / 30.0).abs() < 1e-15);
        assert!((jaro_similarity("jellyfish", "smellyfish") - 0.896_296_296_296_296_3).abs() < 1e-15);
    }

    #[test]
    fn empty_and_equal() {
        assert_eq!(jaro_similarity("", ""), 1.0);
        assert_eq!(jaro_similarity("", "a"), 0.0);
        assert_eq!(jaro_similarity("é", ""), 0.0);
        assert_eq!(jaro_similarity("a", "b"), 0.0);
        for n in [1, 2, 3, 63, 64, 65, 300] {
            let s = "aba日".chars().cycle().take(n).collect::<String>();
            assert_eq!(jaro_similarity(&s, &s), 1.0);
        }
    }
}
