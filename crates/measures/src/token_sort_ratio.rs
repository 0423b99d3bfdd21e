//! RapidFuzz's `fuzz.token_sort_ratio`: the likeness of two strings whatever the order of their words.
//!
//! Words are what white space separates, as they are written. Sorted by their characters and joined by a space, they
//! are compared by insertions and deletions: 100 * (1 - distance / (length + length)), from 0 to 100; 100 for two
//! empty strings.

use std::collections::HashMap;

/// The score of two strings.
pub fn token_sort_ratio(a: &str, b: &str) -> f64 {
    let (a, b) = (sorted(a), sorted(b));
    let both = a.len() + b.len();
    if both == 0 {
        return 100.0;
    }
    let distance = both - 2 * longest_common_subsequence(&a, &b);
    (1.0 - distance as f64 / both as f64) * 100.0
}

/// The words in order, as one text.
fn sorted(text: &str) -> Vec<char> {
    let mut words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.join(" ").chars().collect()
}

/// White space as Python has it: the separators of ASCII belong to it.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&c)
}

/// Length of the longest common subsequence, by the bit-parallel algorithm of Hyyrö (2004): a zero in `row` stands
/// for one more common character.
fn longest_common_subsequence(a: &[char], b: &[char]) -> usize {
    let words = a.len().div_ceil(64);
    let mut places: HashMap<char, Vec<u64>> = HashMap::new();
    for (at, &c) in a.iter().enumerate() {
        places.entry(c).or_insert_with(|| vec![0; words])[at / 64] |= 1 << (at % 64);
    }
    let mut row = vec![u64::MAX; words];
    for places in b.iter().filter_map(|c| places.get(c)) {
        let mut carry = false;
        for (bits, places) in row.iter_mut().zip(places) {
            let matches = *bits & places;
            let (sum, over) = bits.overflowing_add(matches);
            let (sum, over_by_carry) = sum.overflowing_add(u64::from(carry));
            carry = over || over_by_carry;
            *bits = sum | (*bits & !places);
        }
    }
    row.iter().map(|bits| bits.count_zeros() as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_spaces_do_not_matter() {
        assert_eq!(token_sort_ratio("fuzzy wuzzy was a bear", "  wuzzy\tfuzzy was a bear"), 100.0);
        assert_eq!(token_sort_ratio("", " \n"), 100.0);
        assert_eq!(token_sort_ratio("", "a"), 0.0);
        assert_eq!(token_sort_ratio("ab cd", "cd ab x"), (1.0 - 2.0 / 12.0) * 100.0);
    }

    #[test]
    fn long_strings_take_several_words_of_bits() {
        let long = "abcdefghij".repeat(20);
        assert_eq!(token_sort_ratio(&long, &long), 100.0);
        assert_eq!(longest_common_subsequence(&vec!['a'; 130], &vec!['a'; 129]), 129);
        let (left, right): (Vec<char>, Vec<char>) = (long.chars().collect(), long.chars().skip(3).collect());
        assert_eq!(longest_common_subsequence(&left, &right), 197);
    }
}
