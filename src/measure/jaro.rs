//! Jaro: common characters that stand near each other, less their transpositions (Jaro 1989).
//!
//! Two equal characters are common where their places differ by at most half of the longer length, less one. They
//! are paired from the left, each with the first that is free. Because the reach is the same for all, that pairing
//! is what two fingers find that move over the places of one character in both strings, which makes the measure
//! symmetric and its time linear but for a sort.

use super::symbols::{Places, Symbol, over_symbols};

/// The similarity in [0, 1]; 1 for two empty strings, 0 where only one is empty.
pub fn jaro_similarity(a: &str, b: &str) -> f64 {
    over_symbols!(a, b, |x, y| similarity(x, y))
}

fn similarity<S: Symbol>(a: &[S], b: &[S]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let (common, misplaced) = if a.len() <= 64 && b.len() <= 64 {
        common_in_words(a, b, reach)
    } else {
        common_in_sorted_places(a, b, reach)
    };
    if common == 0 {
        return 0.0;
    }
    let m = common as f64;
    let transpositions = misplaced / 2;
    (m / a.len() as f64 + m / b.len() as f64 + (common - transpositions) as f64 / m) / 3.0
}

/// Common characters, and how many of them have another one in the same rank on the other side.
fn common_in_words<S: Symbol>(a: &[S], b: &[S], reach: usize) -> (usize, usize) {
    let places = Places::of(b);
    let (mut of_a, mut of_b) = (0u64, 0u64);
    for (i, &symbol) in a.iter().enumerate() {
        let near = below(i + reach + 1) & !below(i.saturating_sub(reach));
        let free = places.get(symbol) & near & !of_b;
        // the lowest bit, none where there is none
        let first = free & free.wrapping_neg();
        of_b |= first;
        of_a |= u64::from(first != 0) << i;
    }
    let (common, mut misplaced) = (of_b.count_ones() as usize, 0);
    for _ in 0..common {
        misplaced += usize::from(a[of_a.trailing_zeros() as usize] != b[of_b.trailing_zeros() as usize]);
        of_a &= of_a - 1;
        of_b &= of_b - 1;
    }
    (common, misplaced)
}

/// The bits below `n`.
fn below(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

fn common_in_sorted_places<S: Symbol>(a: &[S], b: &[S], reach: usize) -> (usize, usize) {
    let sorted = |symbols: &[S]| {
        let mut places: Vec<(u32, usize)> = symbols.iter().enumerate().map(|(i, s)| (s.code(), i)).collect();
        places.sort_unstable();
        places
    };
    let (left, right) = (sorted(a), sorted(b));
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        let ((x, i), (y, j)) = (left[l], right[r]);
        if x < y || (x == y && i + reach < j) {
            l += 1;
        } else if y < x || j + reach < i {
            r += 1;
        } else {
            of_a.push(i);
            of_b.push(j);
            (l, r) = (l + 1, r + 1);
        }
    }
    of_a.sort_unstable();
    of_b.sort_unstable();
    let misplaced = of_a.iter().zip(&of_b).filter(|(i, j)| a[**i] != b[**j]).count();
    (of_a.len(), misplaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::test_strings::{pairs, plain_jaro};

    #[test]
    fn agrees_with_the_definition_either_way_round() {
        for (a, b) in pairs() {
            let expected = plain_jaro(&a, &b);
            assert_eq!(jaro_similarity(&a, &b), expected, "{a:?} {b:?}");
            assert_eq!(jaro_similarity(&b, &a), expected, "{a:?} {b:?}");
            let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            let reach = (x.len().max(y.len()) / 2).saturating_sub(1);
            if x.len() <= 64 && y.len() <= 64 {
                assert_eq!(common_in_words(&x, &y, reach), common_in_sorted_places(&x, &y, reach));
            }
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(jaro_similarity("", ""), 1.0);
        assert_eq!(jaro_similarity("", "a"), 0.0);
        assert!((jaro_similarity("martha", "marhta") - 17.0 / 18.0).abs() < 1e-15);
        assert!((jaro_similarity("dixon", "dicksonx") - 23.0 / 30.0).abs() < 1e-15);
    }
}
