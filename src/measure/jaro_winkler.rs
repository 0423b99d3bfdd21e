//! Jaro-Winkler: Jaro, raised by a common prefix (Winkler 1990).

use super::jaro::jaro_similarity;

/// What each character of the common prefix is worth.
const WEIGHT: f64 = 0.1;
/// How long a prefix counts.
const LONGEST_PREFIX: usize = 4;
/// Only a similarity above this is raised.
const BOOST_ABOVE: f64 = 0.7;

/// The similarity in [0, 1]; 1 for two empty strings.
pub fn jaro_winkler_similarity(a: &str, b: &str) -> f64 {
    let jaro = jaro_similarity(a, b);
    if jaro <= BOOST_ABOVE {
        return jaro;
    }
    let prefix = a.chars().zip(b.chars()).take(LONGEST_PREFIX).take_while(|(x, y)| x == y).count();
    (jaro + WEIGHT * prefix as f64 * (1.0 - jaro)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(jaro_winkler_similarity("", ""), 1.0);
        assert!((jaro_winkler_similarity("martha", "marhta") - 0.961_111_111_111_111_1).abs() < 1e-15);
        assert!((jaro_winkler_similarity("dixon", "dicksonx") - 0.813_333_333_333_333_3).abs() < 1e-15);
        // below the boost
        assert_eq!(jaro_winkler_similarity("abcd", "abxyzw"), jaro_similarity("abcd", "abxyzw"));
    }
}
