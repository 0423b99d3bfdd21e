//! The edit matrix in bit-parallel form: 64 rows of a column at a time, as differences of neighbouring cells.
//!
//! Cell `(i, j)` holds the distance of the first `i` symbols of the pattern to the first `j` of the text.
//! Neighbours differ by at most 1, so a column of 64 cells is two words (which rows are one more, which one
//! less, than the row above) and one step of about fifteen operations gives the next column (Myers, "A fast
//! bit-vector algorithm for approximate string matching", JACM 1999; transpositions after Hyyrö, "A
//! bit-vector algorithm for computing Levenshtein and Damerau edit distances", 2003).
//!
//! Longer patterns are cut into strips of one word, or of four where the columns to visit are many, and a strip
//! crosses the text before the next one starts. What the next strip needs is the last row's differences: one
//! byte per column. So memory is linear whatever the alphabet, and the words of a strip overlap in the processor.

use std::array;

use super::symbols::{Masks, Symbol, WORD};

/// The words of a wide strip, which pays once a column less does not matter.
const WIDE: usize = 4;

/// The last row of a strip at one column, as the strip below sees it.
///
/// Bit 0: the cell is one more than its left neighbour. Bit 1: one less. Bit 2: a transposition may end in
/// the next row: this row's symbol is the text's and the step before was no free diagonal one.
type Edge = u8;
const MORE: Edge = 1;
const LESS: Edge = 2;
const SWAP: Edge = 4;

/// The bits of one column of 64 rows.
#[derive(Clone, Copy)]
struct Column {
    /// Rows one more than the row above.
    more: u64,
    /// Rows one less than the row above.
    less: u64,
    /// Rows equal to the cell diagonally above left.
    free: u64,
    /// Rows whose symbol is the column's symbol.
    equal: u64,
}

impl Column {
    /// The column before the first: every row one more than the row above.
    const FIRST: Self = Self { more: u64::MAX, less: 0, free: 0, equal: 0 };

    /// Steps to the next column, whose symbol stands in the rows `equal`, below the edge `above`.
    ///
    /// Returns the edge below row `last`.
    #[inline(always)]
    fn step<const SWAPS: bool>(&mut self, equal: u64, above: Edge, last: usize) -> Edge {
        let above = u64::from(above);
        let less_above = above >> 1 & 1;
        let swaps = if SWAPS { !self.free & equal } else { 0 };
        let swapped = if SWAPS { (swaps << 1 | above >> 2) & self.equal } else { 0 };
        let start = equal | less_above;
        let free = ((start & self.more).wrapping_add(self.more) ^ self.more) | start | self.less | swapped;
        let more_right = self.less | !(free | self.more);
        let less_right = free & self.more;
        let more_shifted = more_right << 1 | above & 1;
        let less_shifted = less_right << 1 | less_above;
        *self = Self { more: less_shifted | !(free | more_shifted), less: more_shifted & free, free, equal };
        let bit = |word: u64, flag: Edge| (word >> last & 1) as Edge * flag;
        bit(more_right, MORE) | bit(less_right, LESS) | bit(swaps, SWAP)
    }
}

/// The value right of a cell of `value` on whose row the next edge is `edge`.
#[inline(always)]
fn right_of(value: usize, edge: Edge) -> usize {
    value + usize::from(edge & MORE) - usize::from(edge >> 1 & 1)
}

/// The edit distance of `a` and `b` if it is at most `k`; with `SWAPS`, optimal string alignment.
///
/// Gives up, with `None`, when `stop` says so, which is asked after each strip.
pub(super) fn distance_within<S: Symbol, const SWAPS: bool>(
    a: &[S],
    b: &[S],
    k: usize,
    stop: &dyn Fn() -> bool,
) -> Option<usize> {
    let (pattern, text) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if text.len() - pattern.len() > k || (k == 0 && a != b) {
        None
    } else if pattern.is_empty() {
        Some(text.len())
    } else if pattern.len() <= WORD {
        one_strip::<S, SWAPS>(pattern, text, k)
    } else {
        strips::<S, SWAPS>(pattern, text, k, stop)
    }
}

/// The edit distance of `a` and `b`; with `SWAPS`, optimal string alignment.
pub(super) fn distance<S: Symbol, const SWAPS: bool>(a: &[S], b: &[S]) -> usize {
    let longest = a.len().max(b.len());
    let mut k = longest;
    if a.len().min(b.len()) > WORD {
        // The distance is usually far below the length, and a narrow band costs little when it is not.
        k = (a.len().abs_diff(b.len()) + WORD).min(longest);
    }
    loop {
        match distance_within::<S, SWAPS>(a, b, k, &|| false) {
            Some(distance) => return distance,
            // No distance exceeds the longer length, so the last round finds it.
            None if k >= longest => return longest,
            None => k = k.saturating_mul(4).min(longest),
        }
    }
}

/// [`distance_within`] for a pattern of 1 to 64 symbols, no longer than the text.
#[inline]
fn one_strip<S: Symbol, const SWAPS: bool>(pattern: &[S], text: &[S], k: usize) -> Option<usize> {
    let masks = S::Masks::of(pattern);
    let last = pattern.len() - 1;
    let mut column = Column::FIRST;
    let mut distance = pattern.len();
    // Each column to come lowers the distance by at most 1.
    let mut left = text.len();
    for &symbol in text {
        distance = right_of(distance, column.step::<SWAPS>(masks.at(symbol), MORE, last));
        left -= 1;
        if distance > k.saturating_add(left) {
            return None;
        }
    }
    (distance <= k).then_some(distance)
}

/// [`distance_within`] for longer patterns, no longer than the text, which is at most `k` longer.
///
/// A path of cost at most `k` strays at most `(k - d) / 2` columns left of the main diagonal and `d` more than
/// that right of it, `d` being the difference of the lengths (Ukkonen 1985). A strip therefore visits only the
/// columns that its rows can reach. Left of them a strip takes each row as one more than the row above, right
/// of the strip above it takes each cell as one more than its left neighbour: real paths, so no cell is ever
/// too low, and none of the paths within the bound is missed.
fn strips<S: Symbol, const SWAPS: bool>(pattern: &[S], text: &[S], k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    let longer = text.len() - pattern.len();
    // A transposition reads the column before the previous one, hence the margin.
    let stray = (k.min(text.len()) - longer) / 2 + 1;
    let mut edges = vec![MORE; text.len()];
    // The corner is the cell above the strip's first row and before its first column.
    let (mut corner, mut corner_column) = (0, 0);
    let height = if longer + stray < 2 * WIDE * WORD { WORD } else { WIDE * WORD };
    for (n, rows) in pattern.chunks(height).enumerate() {
        let top = n * height;
        let first = top.saturating_sub(stray);
        let end = text.len().min(top + rows.len() + longer + stray);
        corner = along(corner, &edges[corner_column..first]) + rows.len();
        corner_column = first;
        let edges = &mut edges[first..end];
        match rows.len().div_ceil(WORD) {
            1 => cross::<S, SWAPS, 1>(rows, &text[first..end], edges),
            2 => cross::<S, SWAPS, 2>(rows, &text[first..end], edges),
            3 => cross::<S, SWAPS, 3>(rows, &text[first..end], edges),
            _ => cross::<S, SWAPS, WIDE>(rows, &text[first..end], edges),
        }
        if least(corner, edges) > k || stop() {
            return None;
        }
    }
    let distance = along(corner, &edges[corner_column..]);
    (distance <= k).then_some(distance)
}

/// Takes the strip of `rows`, `WORDS` words of them, across `text`, replacing the edges above it by those below.
fn cross<S: Symbol, const SWAPS: bool, const WORDS: usize>(rows: &[S], text: &[S], edges: &mut [Edge]) {
    let mut words = rows.chunks(WORD);
    let masks: [S::Masks; WORDS] = array::from_fn(|_| S::Masks::of(words.next().unwrap_or_default()));
    let mut columns = [Column::FIRST; WORDS];
    let last = (rows.len() - 1) % WORD;
    for (&symbol, edge) in text.iter().zip(edges) {
        for (n, (column, masks)) in columns.iter_mut().zip(&masks).enumerate() {
            let last = if n + 1 < WORDS { WORD - 1 } else { last };
            *edge = column.step::<SWAPS>(masks.at(symbol), *edge, last);
        }
    }
}

/// The value at the end of a row that starts with `value` and goes on by `edges`.
fn along(value: usize, edges: &[Edge]) -> usize {
    let more = edges.iter().filter(|&edge| edge & MORE != 0).count();
    let less = edges.iter().filter(|&edge| edge & LESS != 0).count();
    value + more - less
}

/// The least value of a row that starts with `value` and goes on by `edges`.
fn least(value: usize, edges: &[Edge]) -> usize {
    let (mut value, mut least) = (value, value);
    for &edge in edges {
        value = right_of(value, edge);
        least = least.min(value);
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_strings::{plain_levenshtein, plain_osa};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// A long string, and it with some edits and `shift` symbols moved from its end to its beginning.
    fn long_pair(length: usize, shift: usize, rng: &mut StdRng) -> (String, String) {
        let a = (0..length).map(|_| rng.random_range(b'a'..=b'd')).collect::<Vec<_>>();
        let mut b = a.clone();
        b.rotate_right(shift);
        for _ in 0..length / 20 {
            let at = rng.random_range(1..b.len());
            match rng.random_range(0..3) {
                0 => b[at] = b'x',
                1 => b.swap(at - 1, at),
                _ => drop(b.remove(at)),
            }
        }
        let string = |symbols| String::from_utf8(symbols).unwrap();
        (string(a), string(b))
    }

    #[test]
    fn wide_and_narrow_strips_of_any_height() {
        let mut rng = StdRng::seed_from_u64(7);
        for (length, shift) in [(1089, 0), (1152, 30), (1153, 300), (1217, 0), (1300, 600), (2050, 500), (2100, 3)] {
            let (a, b) = long_pair(length, shift, &mut rng);
            let (x, y) = (a.as_bytes(), b.as_bytes());
            let (levenshtein, osa) = (plain_levenshtein(&a, &b), plain_osa(&a, &b));
            assert_eq!((distance::<_, false>(x, y), distance::<_, true>(x, y)), (levenshtein, osa));
            for k in [0, 1, 10, 100, 600, 1100, 1300, 1600, usize::MAX, levenshtein, osa, osa - 1] {
                assert_eq!(distance_within::<_, false>(x, y, k, &|| false), (levenshtein <= k).then_some(levenshtein));
                assert_eq!(distance_within::<_, true>(x, y, k, &|| false), (osa <= k).then_some(osa));
            }
        }
    }
}
