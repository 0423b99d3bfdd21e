//! Text without diacritics, for matching across spellings.
//!
//! A letter loses the marks of Unicode's blocks of combining diacritical marks. Marks of other blocks stay, because
//! there they are vowels and consonants and not accents (Indic vowel signs, Japanese voicing marks). Latin letters
//! whose stroke, hook or joining is no separable mark are replaced by a table, as PostgreSQL's `unaccent` replaces
//! them, and so are typographic quotes, dashes and fractions. Its rules for other symbols, numerals, full-width and
//! mathematical letters are left out: normal form KC is there for most of it.

use unicode_normalization::UnicodeNormalization;

use super::typography;

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

/// What stands for a character that has no canonical decomposition.
fn replacement(c: char) -> Option<&'static str> {
    if c.is_ascii() {
        return None;
    }
    small(c).or_else(|| capital(c)).or_else(|| joined(c)).or_else(|| typography::plain(c))
}

/// Letters that are several in one.
fn joined(c: char) -> Option<&'static str> {
    Some(match c {
        'ŉ' => "'n",
        'Ꜳ' => "AA",
        'ꜳ' => "aa",
        'Æ' | 'ᴁ' => "AE",
        'æ' => "ae",
        'Ꜵ' => "AO",
        'ꜵ' => "ao",
        'Ꜷ' => "AU",
        'ꜷ' => "au",
        'Ꜹ' | 'Ꜻ' => "AV",
        'ꜹ' | 'ꜻ' => "av",
        'Ꜽ' => "AY",
        'ꜽ' => "ay",
        'ȸ' => "db",
        'Ǆ' | 'Ǳ' => "DZ",
        'ǅ' | 'ǲ' => "Dz",
        'ǆ' | 'ǳ' | 'ʣ' | 'ʥ' => "dz",
        'ﬀ' => "ff",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ƕ' => "hv",
        'Ĳ' => "IJ",
        'ĳ' => "ij",
        'Ǉ' => "LJ",
        'ǈ' => "Lj",
        'ǉ' => "lj",
        'Ỻ' => "LL",
        'ỻ' => "ll",
        'ʪ' => "ls",
        'ʫ' => "lz",
        'Ǌ' => "NJ",
        'ǋ' => "Nj",
        'ǌ' => "nj",
        'Œ' | 'ɶ' => "OE",
        'œ' => "oe",
        'Ƣ' => "OI",
        'ƣ' => "oi",
        'Ꝏ' => "OO",
        'ꝏ' => "oo",
        'ȹ' => "qp",
        'ẞ' => "SS",
        'ß' => "ss",
        'ﬅ' | 'ﬆ' => "st",
        'Þ' | 'Ꝥ' | 'Ꝧ' => "TH",
        'þ' | 'ᵺ' | 'ꝥ' | 'ꝧ' => "th",
        'ʦ' => "ts",
        'ᵫ' => "ue",
        'Ꝡ' => "VY",
        'ꝡ' => "vy",
        _ => return None,
    })
}

/// Capital letters with a stroke, a bar or a hook, or of a shape of their own.
fn capital(c: char) -> Option<&'static str> {
    Some(match c {
        'Ⱥ' | 'ᴀ' => "A",
        'Ɓ' | 'Ƃ' | 'Ƀ' | 'ʙ' | 'ᴃ' => "B",
        'Ƈ' | 'Ȼ' | 'ᴄ' | 'Ꞓ' => "C",
        'Ð' | 'Đ' | 'Ɖ' | 'Ɗ' | 'Ƌ' | 'ᴅ' | 'ᴆ' | 'Ꝺ' => "D",
        'Ɛ' | 'Ɇ' | 'ᴇ' => "E",
        'Ƒ' | 'ꜰ' | 'Ꝼ' => "F",
        'Ɠ' | 'Ǥ' | 'ɢ' | 'ʛ' | 'Ꞡ' => "G",
        'Ħ' | 'ʜ' | 'Ⱨ' | 'Ɦ' => "H",
        'Ɩ' | 'Ɨ' | 'ɪ' | 'ᵻ' => "I",
        'Ɉ' | 'ᴊ' => "J",
        'Ƙ' | 'ᴋ' | 'Ⱪ' | 'Ꝁ' | 'Ꝃ' | 'Ꝅ' | 'Ꞣ' => "K",
        'Ŀ' | 'Ł' | 'Ƚ' | 'ʟ' | 'ᴌ' | 'Ⱡ' | 'Ɫ' | 'Ꝇ' | 'Ꝉ' => "L",
        'ᴍ' | 'Ɱ' => "M",
        'Ŋ' | 'Ɲ' | 'ɴ' | 'Ꞑ' | 'Ꞥ' => "N",
        'Ø' | 'ᴏ' | 'Ꝋ' | 'Ꝍ' => "O",
        'Ƥ' | 'ᴘ' | 'Ᵽ' | 'Ꝑ' | 'Ꝓ' | 'Ꝕ' => "P",
        'Ꝗ' | 'Ꝙ' => "Q",
        'Ɍ' | 'ʀ' | 'Ɽ' | 'ꝶ' | 'Ꞧ' => "R",
        'Ȿ' | 'ꜱ' | 'Ꞩ' => "S",
        'Ŧ' | 'Ƭ' | 'Ʈ' | 'Ⱦ' | 'ᴛ' | 'Ꞇ' => "T",
        'Ʉ' | 'ᴜ' | 'ᵾ' => "U",
        'Ʋ' | 'ᴠ' | 'Ỽ' | 'Ꝟ' => "V",
        'ᴡ' | 'Ⱳ' => "W",
        'Ƴ' | 'Ɏ' | 'ʏ' | 'Ỿ' => "Y",
        'Ƶ' | 'Ȥ' | 'ᴢ' | 'Ⱬ' | 'Ɀ' => "Z",
        _ => return None,
    })
}

/// Small letters with a stroke, a bar or a hook, or of a shape of their own.
fn small(c: char) -> Option<&'static str> {
    Some(match c {
        'ᶏ' | 'ẚ' | 'ⱥ' => "a",
        'ƀ' | 'ƃ' | 'ɓ' | 'ᵬ' | 'ᶀ' => "b",
        'ƈ' | 'ȼ' | 'ɕ' | 'ꞓ' => "c",
        'ð' | 'đ' | 'ƌ' | 'ȡ' | 'ɖ' | 'ɗ' | 'ᵭ' | 'ᶁ' | 'ᶑ' | 'ꝱ' | 'ꝺ' => "d",
        'ɇ' | 'ɛ' | 'ᶒ' | 'ᶓ' | 'ⱸ' => "e",
        'ƒ' | 'ᵮ' | 'ᶂ' | 'ꝼ' => "f",
        'ǥ' | 'ɠ' | 'ɡ' | 'ᶃ' | 'ꞡ' => "g",
        'ħ' | 'ɦ' | 'ɧ' | 'ⱨ' => "h",
        'ı' | 'ɨ' | 'ᶖ' => "i",
        'ȷ' | 'ɉ' | 'ɟ' | 'ʝ' => "j",
        'ƙ' | 'ᶄ' | 'ⱪ' | 'ꝁ' | 'ꝃ' | 'ꝅ' | 'ꞣ' => "k",
        'ŀ' | 'ł' | 'ƚ' | 'ȴ' | 'ɫ' | 'ɬ' | 'ɭ' | 'ᶅ' | 'ⱡ' | 'ꝇ' | 'ꝉ' | 'ꝲ' => "l",
        'ɱ' | 'ᵯ' | 'ᶆ' | 'ꝳ' => "m",
        'ŋ' | 'ƞ' | 'ȵ' | 'ɲ' | 'ɳ' | 'ᵰ' | 'ᶇ' | 'ꝴ' | 'ꞑ' | 'ꞥ' => "n",
        'ø' | 'ⱺ' | 'ꝋ' | 'ꝍ' => "o",
        'ƥ' | 'ᵱ' | 'ᵽ' | 'ᶈ' | 'ꝑ' | 'ꝓ' | 'ꝕ' => "p",
        'ĸ' | 'ʠ' | 'ꝗ' | 'ꝙ' => "q",
        'ɍ' | 'ɼ' | 'ɽ' | 'ɾ' | 'ᵲ' | 'ᵳ' | 'ᶉ' | 'ꝵ' | 'ꞧ' => "r",
        'ſ' | 'ȿ' | 'ʂ' | 'ᵴ' | 'ᶊ' | 'ẜ' | 'ẝ' | 'ꞩ' => "s",
        'ŧ' | 'ƫ' | 'ƭ' | 'ȶ' | 'ʈ' | 'ᵵ' | 'ⱦ' | 'ꝷ' | 'ꞇ' => "t",
        'ʉ' | 'ᶙ' => "u",
        'ʋ' | 'ᶌ' | 'ỽ' | 'ⱱ' | 'ⱴ' | 'ꝟ' => "v",
        'ⱳ' => "w",
        'ᶍ' => "x",
        'ƴ' | 'ɏ' | 'ỿ' => "y",
        'ƶ' | 'ȥ' | 'ɀ' | 'ʐ' | 'ʑ' | 'ᵶ' | 'ᶎ' | 'ⱬ' => "z",
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
            ("Ɩ Ƣ ƣ ƕ ȸ ɭ", "I OI oi hv db l"),
            ("ꝏ Ꝡ Ꜳ ꞇ Ⱪ Ɱ", "oo VY AA t K M"),
            ("ᴀ ʀ ᵬ ᶙ ẚ ʦ", "A R b u a ts"),
            ("O’Brien ‘x’ „y“ «z» ‹w› 5′ 7″", "O'Brien 'x' ,,y\" <<z>> <w> 5' 7\""),
            ("1½ ¾ 2⅞ 3⁄4 ⅟5 ↉", "1 1/2  3/4 2 7/8 3/4  1/5  0/3"),
            ("a‐b‑c‒d–e—f―g−h\u{AD}i", "a-b-c-d-e-f-g-h-i"),
            ("x… ‥ ․ ‼ ⁇ ⁈ ⁉ ‚ ‛ ‟ ʹʺʻʼʽˈ 〝〞", "x... .. . !! ?? ?! !? , ' \" '\"'''' \"\""),
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
        for text in ["が ガ 東京", "한글", "हिन्दी की", "ไทย", "1² © № Ⅷ ａ ℓ"] {
            assert_eq!(unaccent(text), text);
        }
    }
}
