//! Damerau-Levenshtein without restriction: a swap may enclose other edits.
//!
//! In linear memory, by the recurrence of Zhao and Sahni (2019): a swap is worth taking only where one of its two
//! symbols stands next to the other's place.

use std::collections::HashMap;

use super::symbols::{Symbol, over_symbols, trimmed};

/// The distance in Unicode scalar values.
pub fn damerau_levenshtein(a: &str, b: &str) -> usize {
    over_symbols!(a, b, |x, y| {
        let (x, y) = trimmed(x, y);
        distance(x, y)
    })
}

fn distance<S: Symbol>(a: &[S], b: &[S]) -> usize {
    let out = a.len().max(b.len()) + 1;
    // index j + 1 of each holds column j, so that column -1 exists
    let mut row: Vec<usize> = std::iter::once(out).chain(0..=b.len()).collect();
    let mut above = vec![out; b.len() + 2];
    let mut before_match = vec![out; b.len() + 2];
    let mut last_rows: HashMap<u32, usize, foldhash::fast::FixedState> = HashMap::default();
    for (i, &x) in (1..).zip(a) {
        std::mem::swap(&mut row, &mut above);
        let mut last_column = 0;
        let mut two_above = row[1];
        row[1] = i;
        let mut swapped_here = out;
        for (j, &y) in (1..).zip(b) {
            let mut cell = (above[j] + usize::from(x != y)).min(row[j] + 1).min(above[j + 1] + 1);
            if x == y {
                last_column = j;
                before_match[j + 1] = above[j - 1];
                swapped_here = two_above;
            } else {
                let last_row = last_rows.get(&y.code()).copied();
                match (last_row, last_column) {
                    (Some(k), l) if l > 0 && j - l == 1 => cell = cell.min(before_match[j + 1] + (i - k)),
                    (Some(k), l) if l > 0 && i - k == 1 => cell = cell.min(swapped_here + (j - l)),
                    _ => {}
                }
            }
            two_above = row[j + 1];
            row[j + 1] = cell;
        }
        last_rows.insert(x.code(), i);
    }
    row[b.len() + 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::test_strings::{pairs, plain_damerau_levenshtein};

    #[test]
    fn agrees_with_the_definition() {
        for (a, b) in pairs() {
            assert_eq!(damerau_levenshtein(&a, &b), plain_damerau_levenshtein(&a, &b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_swap_may_enclose_an_insertion() {
        assert_eq!(damerau_levenshtein("ca", "abc"), 2);
    }
}
