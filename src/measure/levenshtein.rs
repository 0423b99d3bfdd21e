//! Levenshtein: the fewest insertions, deletions and substitutions that turn one string into another.
//!
//! Up to 64 symbols by bit vectors (Myers 1999, in the form of Hyyrö 2001), longer ones by blocks of them, or within
//! a band of diagonals where only a small distance is of interest (Ukkonen 1985).

use std::collections::HashMap;

use super::symbols::{Places, Symbol, over_symbols, trimmed};

/// The distance in Unicode scalar values.
pub fn levenshtein(a: &str, b: &str) -> usize {
    over_symbols!(a, b, |x, y| distance(x, y, usize::MAX).unwrap_or(usize::MAX))
}

/// The distance if it is at most `k`.
///
/// Takes time in proportion to `k` times the length where strings are long, so that a small `k` is cheap.
pub fn levenshtein_within(a: &str, b: &str, k: usize) -> Option<usize> {
    over_symbols!(a, b, |x, y| distance(x, y, k))
}

/// `1 - d / max(length)`; 1 for two empty strings.
pub fn levenshtein_similarity(a: &str, b: &str) -> f64 {
    let longest =
        if a.is_ascii() && b.is_ascii() { a.len().max(b.len()) } else { a.chars().count().max(b.chars().count()) };
    similarity_of_distance(levenshtein(a, b), longest)
}

/// The similarity of two strings at distance `d`, the longer of `longest` symbols.
#[inline]
pub fn similarity_of_distance(d: usize, longest: usize) -> f64 {
    if longest == 0 { 1.0 } else { 1.0 - d as f64 / longest as f64 }
}

fn distance<S: Symbol>(a: &[S], b: &[S], k: usize) -> Option<usize> {
    let (a, b) = trimmed(a, b);
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() - short.len() > k {
        return None;
    }
    if short.is_empty() {
        return Some(long.len());
    }
    if k == 0 {
        // what is left after trimming differs
        return None;
    }
    let blocks = short.len().div_ceil(64);
    if blocks == 1 {
        return one_block(short, long, k);
    }
    // a cell of the band costs about a sixth of what a block of 64 costs a column
    let distance = if k < 3 * blocks { banded(short, long, k) } else { in_blocks(short, long) };
    (distance <= k).then_some(distance)
}

/// For a pattern of at most 64 symbols; ends as soon as `k` is out of reach.
fn one_block<S: Symbol>(pattern: &[S], text: &[S], k: usize) -> Option<usize> {
    let places = Places::of(pattern);
    let last = 1u64 << (pattern.len() - 1);
    let (mut vp, mut vn, mut distance) = (u64::MAX, 0u64, pattern.len());
    for (i, &symbol) in text.iter().enumerate() {
        let x = places.get(symbol) | vn;
        let d0 = ((x & vp).wrapping_add(vp) ^ vp) | x;
        let hp = vn | !(d0 | vp);
        let hn = d0 & vp;
        distance = distance + usize::from(hp & last != 0) - usize::from(hn & last != 0);
        // every column that is left lowers the distance by one at most
        if distance > k.saturating_add(text.len() - 1 - i) {
            return None;
        }
        let (hp, hn) = ((hp << 1) | 1, hn << 1);
        vp = hn | !(d0 | hp);
        vn = hp & d0;
    }
    (distance <= k).then_some(distance)
}

/// The whole distance, 64 rows at a time.
fn in_blocks<S: Symbol>(pattern: &[S], text: &[S]) -> usize {
    let blocks = pattern.len().div_ceil(64);
    let mut places: HashMap<u32, Vec<u64>, foldhash::fast::FixedState> = HashMap::default();
    for (i, symbol) in pattern.iter().enumerate() {
        places.entry(symbol.code()).or_insert_with(|| vec![0; blocks])[i / 64] |= 1 << (i % 64);
    }
    let none = vec![0u64; blocks];
    let last = 1u64 << ((pattern.len() - 1) % 64);
    let mut columns = vec![(u64::MAX, 0u64); blocks];
    let mut distance = pattern.len();
    for symbol in text {
        let bits = places.get(&symbol.code()).unwrap_or(&none);
        // the first row of the matrix grows by one a column
        let (mut carry_p, mut carry_n) = (1u64, 0u64);
        for (block, (vp, vn)) in columns.iter_mut().enumerate() {
            let x = bits[block] | carry_n;
            let d0 = ((x & *vp).wrapping_add(*vp) ^ *vp) | x | *vn;
            let (hp, hn) = (*vn | !(d0 | *vp), d0 & *vp);
            if block + 1 == blocks {
                distance = distance + usize::from(hp & last != 0) - usize::from(hn & last != 0);
            }
            let (shifted_p, shifted_n) = ((hp << 1) | carry_p, (hn << 1) | carry_n);
            (carry_p, carry_n) = (hp >> 63, hn >> 63);
            *vp = shifted_n | !(d0 | shifted_p);
            *vn = shifted_p & d0;
        }
    }
    distance
}

/// The distance if it is at most `k`, else more than `k`: only cells within `k` of the diagonal can matter.
fn banded<S: Symbol>(short: &[S], long: &[S], k: usize) -> usize {
    let width = 2 * k + 1;
    let out = k + 1;
    // cell `c` of row `i` is column `i + c - k` of the matrix
    let mut row: Vec<usize> = (0..width).map(|c| c.checked_sub(k).unwrap_or(out)).collect();
    for (i, &symbol) in long.iter().enumerate() {
        let (mut left, mut best) = (out, out);
        for c in 0..width {
            let Some(column) = (i + 1 + c).checked_sub(k).filter(|&column| column <= short.len()) else {
                row[c] = out;
                left = out;
                continue;
            };
            let above = row.get(c + 1).copied().unwrap_or(out);
            let diagonal = row[c];
            let cell = match column {
                0 => i + 1,
                _ => (diagonal + usize::from(short[column - 1] != symbol)).min(left + 1).min(above + 1),
            };
            row[c] = cell.min(out);
            left = row[c];
            best = best.min(left);
        }
        if best >= out {
            return out;
        }
    }
    // the last row's column `short.len()`
    (short.len() + k).checked_sub(long.len()).map_or(out, |c| row[c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::test_strings::{pairs, plain_levenshtein};

    #[test]
    fn agrees_with_the_definition() {
        for (a, b) in pairs() {
            let expected = plain_levenshtein(&a, &b);
            assert_eq!(levenshtein(&a, &b), expected, "{a:?} {b:?}");
            for k in [0, 1, 2, 3, 5, 9, 30, 64, 200] {
                assert_eq!(levenshtein_within(&a, &b, k), (expected <= k).then_some(expected), "{a:?} {b:?} {k}");
            }
        }
    }

    #[test]
    fn similarities() {
        assert_eq!(levenshtein_similarity("", ""), 1.0);
        assert_eq!(levenshtein_similarity("abcd", "abce"), 0.75);
        assert_eq!(levenshtein_similarity("müller", "muller"), 1.0 - 1.0 / 6.0);
    }

    #[test]
    fn long_strings_with_few_edits_are_cheap() {
        let a = "abcdefghij".repeat(100_000);
        let b = format!("x{}y{}", &a[..500_000], &a[500_002..]);
        assert_eq!(levenshtein_within(&a, &b, 3), Some(3));
        assert_eq!(levenshtein_within(&a, &b, 2), None);
    }
}
