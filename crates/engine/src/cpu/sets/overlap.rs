//! The overlap of two sets of ranks.

use crate::gallop::gallop;

/// A set this many times larger than the other is searched, not merged.
const GALLOP: usize = 16;

/// The overlap of two ascending slices, or none as soon as it cannot reach `least`.
///
/// With `exact` unset, any overlap of at least `least` will do for the result.
pub(super) fn overlap_reaching(a: &[u32], b: &[u32], least: u32, exact: bool) -> Option<u32> {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if (small.len() as u64) < u64::from(least) {
        return None;
    }
    let stop = if exact { u32::MAX } else { least };
    if large.len() / GALLOP > small.len() {
        search(small, large, least as usize, stop)
    } else {
        merge(small, large, least as usize, stop)
    }
}

fn merge(a: &[u32], b: &[u32], least: usize, stop: u32) -> Option<u32> {
    // How many tokens of either side may still go without a partner.
    let (mut i, mut j, mut common) = (0, 0, 0);
    let (spare_a, spare_b) = (a.len() - least, b.len() - least);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        common += u32::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
        if i > spare_a + common as usize || j > spare_b + common as usize {
            return None;
        }
        if common >= stop {
            return Some(common);
        }
    }
    (common as usize >= least).then_some(common)
}

fn search(small: &[u32], large: &[u32], least: usize, stop: u32) -> Option<u32> {
    let (mut rest, mut common) = (large, 0);
    for (i, &token) in small.iter().enumerate() {
        if common as usize + small.len() - i < least {
            return None;
        }
        rest = &rest[gallop(rest, |&known| known < token)..];
        common += u32::from(rest.first() == Some(&token));
        if common >= stop {
            break;
        }
    }
    (common as usize >= least).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_counting() {
        let mut state = 3u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for round in 0..3000 {
            let sizes = [next(12), if round % 3 == 0 { 400 } else { next(20) }];
            let [a, b] =
                sizes.map(|n| (0..n).map(|_| next(n * 2 + 3) as u32).collect::<std::collections::BTreeSet<_>>());
            let common = a.intersection(&b).count() as u32;
            let [a, b] = [a, b].map(|s| s.into_iter().collect::<Vec<_>>());
            for least in 1..=common + 2 {
                let expected = (common >= least).then_some(common);
                assert_eq!(overlap_reaching(&a, &b, least, true), expected);
                assert_eq!(overlap_reaching(&b, &a, least, false).is_some(), expected.is_some());
            }
        }
    }
}
