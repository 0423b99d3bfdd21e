//! Case folding: the form in which strings that differ only in case are equal.
//!
//! Unicode's full default case folding (chapter 3.13 of the standard, statuses C and F of `CaseFolding.txt`),
//! without the Turkic rules and without normalisation. It is derived from the standard library's case
//! mappings: the lower case of the upper case of a character, but for the few named in `fold`.

/// `s` case-folded: `ß` and `ẞ` become `ss`, ligatures their letters, both small sigmas `σ`.
pub fn casefold(s: &str) -> String {
    if s.is_ascii() {
        return s.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(s.len());
    s.chars().for_each(|c| fold(c, &mut folded));
    folded
}

fn fold(c: char, folded: &mut String) {
    match c {
        'A'..='Z' => folded.push(c.to_ascii_lowercase()),
        // The upper case of the dotless i is I, whose folding is the dotted i.
        '\0'..='\x7f' | 'ı' => folded.push(c),
        // The capital sharp s is its own upper case.
        'ẞ' => folded.push_str("ss"),
        // Cherokee folds to its capitals, which came into the standard long before the small letters.
        '\u{13A0}'..='\u{13FD}' | '\u{AB70}'..='\u{ABBF}' => folded.extend(c.to_uppercase()),
        _ => folded.extend(c.to_uppercase().flat_map(char::to_lowercase)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values: CaseFolding.txt of the Unicode Character Database.
    #[test]
    fn meets_recorded_foldings() {
        let cases = [
            ("", ""),
            ("Hello, WORLD 1", "hello, world 1"),
            ("Straße", "strasse"),
            ("STRAẞE", "strasse"),
            ("ὈΔΥΣΣΕΎΣ", "ὀδυσσεύσ"),
            ("Οδυσσεύς", "οδυσσεύσ"),
            ("ﬁ ﬀ ﬃ ﬅ", "fi ff ffi st"),
            ("ı I İ", "ı i i\u{307}"),
            ("ŉ ǰ", "\u{2bc}n j\u{30c}"),
            ("Ǆǅǆ", "ǆǆǆ"),
            ("\u{212A}\u{212B}ſ", "kås"),
            ("ᾳ ᾼ", "αι αι"),
            ("\u{13A0}\u{AB70}\u{13F8}", "\u{13A0}\u{13A0}\u{13F0}"),
            ("Ünïcödé 東京", "ünïcödé 東京"),
        ];
        for (given, expected) in cases {
            assert_eq!(casefold(given), expected, "{given}");
        }
    }

    #[test]
    fn lower_upper_and_title_case_agree() {
        for word in ["Größe", "Żółć", "Ñandú", "Ёлка", "ΣΊΣΥΦΟΣ", "ﬂuﬀy"] {
            assert_eq!(casefold(&word.to_uppercase()), casefold(word));
            assert_eq!(casefold(&word.to_lowercase()), casefold(word));
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        let all: String = ('\0'..=char::MAX).collect();
        let once = casefold(&all);
        assert_eq!(casefold(&once), once);
    }
}
