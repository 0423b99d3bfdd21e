//! Filters the places of a block without a branch that depends on the answer, so that the rows of later places are
//! fetched while those of earlier ones are on their way.

/// What is asked of a place; a trait, because a closure is not inlined into a loop for other instructions than its own.
pub(super) trait Filter {
    /// Whether the place stays. Has to be inlined always.
    fn holds(&self, place: u16) -> bool;
}

/// Appends to `kept` the places of `places` that `filter` holds for, in order.
pub(super) fn keep(places: &[u16], kept: &mut Vec<u16>, filter: &impl Filter) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("popcnt") {
        #[target_feature(enable = "popcnt")]
        fn counting(places: &[u16], kept: &mut Vec<u16>, filter: &impl Filter) {
            branchless(places, kept, filter);
        }
        // SAFETY: the feature has been detected.
        unsafe { counting(places, kept, filter) };
        return;
    }
    branchless(places, kept, filter);
}

#[inline(always)]
fn branchless(places: &[u16], kept: &mut Vec<u16>, filter: &impl Filter) {
    let first = kept.len();
    kept.resize(first + places.len(), 0);
    let free = &mut kept[first..];
    let mut next = 0;
    for &place in places {
        free[next] = place;
        next += usize::from(filter.holds(place));
    }
    kept.truncate(first + next);
}

/// How many places ahead are fetched.
const AHEAD: usize = 8;

/// Keeps only the places from `first` on that `holds` accepts. `fetch` is called with each place some places before.
pub(super) fn retain_from(kept: &mut Vec<u16>, first: usize, fetch: impl Fn(u16), holds: impl Fn(u16) -> bool) {
    kept[first..].iter().take(AHEAD).for_each(|&place| fetch(place));
    let mut next = first;
    for at in first..kept.len() {
        if let Some(&place) = kept.get(at + AHEAD) {
            fetch(place);
        }
        let place = kept[at];
        kept[next] = place;
        next += usize::from(holds(place));
    }
    kept.truncate(next);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fetch;

    struct Odd;

    impl Filter for Odd {
        #[inline(always)]
        fn holds(&self, place: u16) -> bool {
            place % 2 == 1
        }
    }

    #[test]
    fn places_stay_in_order_behind_those_before() {
        let mut kept = vec![9];
        keep(&[1, 2, 5, 8, 13], &mut kept, &Odd);
        assert_eq!(kept, [9, 1, 5, 13]);
        retain_from(&mut kept, 1, |place| fetch(&[0; 9], usize::from(place)), |place| place > 1);
        assert_eq!(kept, [9, 5, 13]);
        keep(&[], &mut kept, &Odd);
        assert_eq!(kept, [9, 5, 13]);
    }
}
