//! Hamming: in how many places two strings of equal length differ.

use super::symbols::over_symbols;

/// The differing places in Unicode scalar values; `None` for unequal lengths.
pub fn hamming(a: &str, b: &str) -> Option<usize> {
    over_symbols!(a, b, |x, y| (x.len() == y.len()).then(|| x.iter().zip(y).filter(|(x, y)| x != y).count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(hamming("karolin", "kathrin"), Some(3));
        assert_eq!(hamming("", ""), Some(0));
        assert_eq!(hamming("müller", "mueller"), None);
        assert_eq!(hamming("müller", "muller"), Some(1));
    }
}
