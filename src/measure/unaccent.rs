//! Text without diacritics, for matching across spellings.
//!
//! A letter loses the marks of Unicode's blocks of combining diacritical marks. Marks of other blocks stay,
//! because there they are vowels and consonants and not accents (Indic vowel signs, Japanese voicing marks).
//! Latin letters whose stroke, hook or joining is no separable mark are replaced by a table, as PostgreSQL's
//! `unaccent` replaces them; its rules for symbols and punctuation are left out.

use unicode_normalization::UnicodeNormalization;

/// `s` without diacritics, in normal form C; case is kept.
pub fn unaccent(s: &str) -> String {
    if s.is_ascii() {
        return s.to_string();
    }
    let mut plain = String::with_capacity(s.len());
    for c in s.nfd().filter(|&c| !is_diacritic(c)) {
        match replacement(c) {
            Some(letters) => plain.push_str(letters),
            None => plain.push(c),
        }
    }
    // Puts together again what is no accented letter: Hangul syllables, kana with a voicing mark.
    plain.nfc().collect()
}

/// Whether the character belongs to a block of combining diacritical marks: the basic one, the extended one,
/// the supplement, the marks for symbols, the half marks.
fn is_diacritic(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36F}'
        | '\u{1AB0}'..='\u{1AFF}'
        | '\u{1DC0}'..='\u{1DFF}'
        | '\u{20D0}'..='\u{20FF}'
        | '\u{FE20}'..='\u{FE2F}')
}

/// What stands for a letter that has no canonical decomposition.
fn replacement(c: char) -> Option<&'static str> {
    if c.is_ascii() {
        return None;
    }
    joined(c).or_else(|| stroked(c))
}

/// Letters that are two in one, and those with a shape of their own.
fn joined(c: char) -> Option<&'static str> {
    Some(match c {
        'Æ' => "AE",
        'æ' => "ae",
        'Œ' => "OE",
        'œ' => "oe",
        'Þ' => "TH",
        'þ' => "th",
        'ß' => "ss",
        'ẞ' => "SS",
        'Ĳ' => "IJ",
        'ĳ' => "ij",
        'Ǆ' | 'Ǳ' => "DZ",
        'ǅ' | 'ǲ' => "Dz",
        'ǆ' | 'ǳ' => "dz",
        'Ǉ' => "LJ",
        'ǈ' => "Lj",
        'ǉ' => "lj",
        'Ǌ' => "NJ",
        'ǋ' => "Nj",
        'ǌ' => "nj",
        'ŉ' => "'n",
        'ﬀ' => "ff",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'ﬅ' | 'ﬆ' => "st",
        'ı' => "i",
        'ȷ' => "j",
        'ĸ' => "q",
        'ſ' => "s",
        _ => return None,
    })
}

/// Letters with a stroke, a bar, a hook or a dot beside them.
fn stroked(c: char) -> Option<&'static str> {
    Some(match c {
        'Ⱥ' => "A",
        'ⱥ' => "a",
        'Ƀ' | 'Ɓ' | 'Ƃ' => "B",
        'ƀ' | 'ɓ' | 'ƃ' => "b",
        'Ȼ' | 'Ƈ' => "C",
        'ȼ' | 'ƈ' => "c",
        'Đ' | 'Ð' | 'Ɖ' | 'Ɗ' | 'Ƌ' => "D",
        'đ' | 'ð' | 'ɖ' | 'ɗ' | 'ƌ' => "d",
        'Ɇ' | 'Ɛ' => "E",
        'ɇ' | 'ɛ' => "e",
        'Ƒ' => "F",
        'ƒ' => "f",
        'Ǥ' | 'Ɠ' => "G",
        'ǥ' | 'ɠ' => "g",
        'Ħ' => "H",
        'ħ' | 'ɦ' => "h",
        'Ɨ' => "I",
        'ɨ' => "i",
        'Ɉ' => "J",
        'ɉ' => "j",
        'Ƙ' => "K",
        'ƙ' => "k",
        'Ł' | 'Ŀ' | 'Ƚ' => "L",
        'ł' | 'ŀ' | 'ƚ' => "l",
        'Ŋ' | 'Ɲ' => "N",
        'ŋ' | 'ɲ' | 'ƞ' => "n",
        'Ø' => "O",
        'ø' => "o",
        'Ᵽ' | 'Ƥ' => "P",
        'ᵽ' | 'ƥ' => "p",
        'Ɍ' => "R",
        'ɍ' => "r",
        'Ŧ' | 'Ƭ' | 'Ʈ' | 'Ⱦ' => "T",
        'ŧ' | 'ƭ' | 'ʈ' | 'ƫ' | 'ⱦ' => "t",
        'Ʉ' => "U",
        'ʉ' => "u",
        'Ʋ' => "V",
        'ʋ' => "v",
        'Ɏ' | 'Ƴ' => "Y",
        'ɏ' | 'ƴ' => "y",
        'Ƶ' | 'Ȥ' => "Z",
        'ƶ' | 'ȥ' => "z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values: PostgreSQL 15, unaccent.
    #[test]
    fn meets_recorded_texts() {
        let cases = [
            ("", ""),
            ("plain ASCII", "plain ASCII"),
            ("Hôtel Crémaillère", "Hotel Cremaillere"),
            ("Ångström Žižek Łódź", "Angstrom Zizek Lodz"),
            ("Straße Ærø Œuvre", "Strasse AEro OEuvre"),
            ("Þór Guðrún đường", "THor Gudrun duong"),
            ("Diyarbakır İstanbul", "Diyarbakir Istanbul"),
            ("ẞ ĳ ﬁ", "SS ij fi"),
            ("Tiếng Việt", "Tieng Viet"),
            ("Ɛwe ɖo", "Ewe do"),
        ];
        for (given, expected) in cases {
            assert_eq!(unaccent(given), expected, "{given}");
        }
    }

    #[test]
    fn a_stroke_and_an_accent_go_together() {
        assert_eq!(unaccent("Ǿ ǿ Ǽ"), "O o AE");
    }

    #[test]
    fn composed_and_decomposed_text_agree() {
        assert_eq!(unaccent("e\u{301}te\u{301}"), "ete");
        assert_eq!(unaccent("q\u{307}\u{323}"), "q");
        assert_eq!(unaccent("\u{301}"), "");
    }

    #[test]
    fn takes_greek_and_cyrillic_accents() {
        assert_eq!(unaccent("Ἀθήναι"), "Αθηναι");
        assert_eq!(unaccent("ёлка"), "елка");
    }

    #[test]
    fn leaves_what_is_no_accent() {
        for text in ["が ガ 東京", "한글", "हिन्दी की", "ไทย", "1½ © „x“"] {
            assert_eq!(unaccent(text), text);
        }
    }
}
