//! Optimal string alignment: Levenshtein with swaps of neighbours, where no part is edited twice.
//!
//! Up to 64 symbols by bit vectors (Hyyrö 2003), longer ones within a band of diagonals.

use super::symbols::{Places, Symbol, over_symbols, trimmed};

/// The distance in Unicode scalar values.
pub fn osa_distance(a: &str, b: &str) -> usize {
    over_symbols!(a, b, |x, y| distance(x, y, usize::MAX).unwrap_or(usize::MAX))
}

/// The distance if it is at most `k`.
pub fn osa_within(a: &str, b: &str, k: usize) -> Option<usize> {
    over_symbols!(a, b, |x, y| distance(x, y, k))
}

fn distance<S: Symbol>(a: &[S], b: &[S], k: usize) -> Option<usize> {
    let (a, b) = trimmed(a, b);
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() - short.len() > k {
        return None;
    }
    let distance = match short.len() {
        0 => long.len(),
        1..=64 => one_block(short, long),
        _ => banded(short, long, k.min(long.len())),
    };
    (distance <= k).then_some(distance)
}

fn one_block<S: Symbol>(pattern: &[S], text: &[S]) -> usize {
    let places = Places::of(pattern);
    let last = 1u64 << (pattern.len() - 1);
    let (mut vp, mut vn, mut d0, mut before, mut distance) = (u64::MAX, 0u64, 0u64, 0u64, pattern.len());
    for &symbol in text {
        let here = places.get(symbol);
        let swaps = ((!d0 & here) << 1) & before;
        d0 = ((here & vp).wrapping_add(vp) ^ vp) | here | vn | swaps;
        let (hp, hn) = (vn | !(d0 | vp), d0 & vp);
        distance = distance + usize::from(hp & last != 0) - usize::from(hn & last != 0);
        let (hp, hn) = ((hp << 1) | 1, hn << 1);
        vp = hn | !(d0 | hp);
        vn = hp & d0;
        before = here;
    }
    distance
}

/// The distance if it is at most `k`, else more than `k`.
fn banded<S: Symbol>(short: &[S], long: &[S], k: usize) -> usize {
    let out = k + 1;
    let columns = short.len() + 1;
    let mut rows = [vec![out; columns], (0..columns).collect::<Vec<_>>(), vec![out; columns]];
    for i in 1..=long.len() {
        let [two, one, row] = &mut rows;
        let (first, last) = (i.saturating_sub(k), (i + k).min(short.len()));
        // the cells beside the band may hold what an earlier row left
        if let Some(left) = first.checked_sub(1) {
            row[left] = out;
        }
        for j in first..=last {
            row[j] = match j {
                0 => i,
                _ => {
                    let above = if j < i + k { one[j] } else { out };
                    let mut cell = one[j - 1] + usize::from(long[i - 1] != short[j - 1]);
                    cell = cell.min(row[j - 1] + 1).min(above + 1);
                    if i > 1 && j > 1 && long[i - 1] == short[j - 2] && long[i - 2] == short[j - 1] {
                        cell = cell.min(two[j - 2] + 1);
                    }
                    cell.min(out)
                }
            };
        }
        if let Some(right) = row.get_mut(last + 1) {
            *right = out;
        }
        if row[first..=last].iter().all(|&cell| cell >= out) && one[first..=last].iter().all(|&cell| cell >= out) {
            return out;
        }
        rows.rotate_left(1);
    }
    rows[1][short.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::test_strings::{pairs, plain_osa};

    #[test]
    fn agrees_with_the_definition() {
        for (a, b) in pairs() {
            let expected = plain_osa(&a, &b);
            assert_eq!(osa_distance(&a, &b), expected, "{a:?} {b:?}");
            for k in [0, 1, 2, 3, 5, 9, 30, 64, 200] {
                assert_eq!(osa_within(&a, &b, k), (expected <= k).then_some(expected), "{a:?} {b:?} {k}");
            }
        }
    }

    #[test]
    fn no_part_is_edited_twice() {
        assert_eq!(osa_distance("ca", "abc"), 3);
        assert_eq!(osa_distance("brian", "brain"), 1);
    }
}
