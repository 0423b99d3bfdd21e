//! One key out of the hashes of a band.

use similarity_measures::random::mixed;

/// A key of the hashes of a row of a group; other hashes and other groups have other keys, but for one in four billion.
#[inline]
pub(crate) fn key(group: u32, hashes: impl Iterator<Item = u32>) -> u32 {
    let whole = hashes.fold(mixed(u64::from(group) + 1), |key, hash| mixed(key ^ u64::from(hash)));
    (whole >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_of_near_hashes_differ() {
        let mut keys = BTreeSet::new();
        for group in 0..10 {
            for one in 0..20 {
                keys.extend((0..20).map(|other| key(group, [one, other].into_iter())));
            }
        }
        assert_eq!(keys.len(), 4000);
        assert_ne!(key(0, [0, 0].into_iter()), key(0, [0].into_iter()));
    }
}
