//! Words: the maximal runs of alphanumeric characters, in lower case.
//!
//! Alphanumeric and lower case are Unicode's, as [`char::is_alphanumeric`] and [`str::to_lowercase`] have them;
//! accents are kept. A combining mark belongs to the word of the letter before it, and words come from normal form C,
//! so that composed and decomposed text has the same words.

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Calls `token` with each word of `s`, in order, repeats included.
///
/// `scratch` holds the word that is handed out; its content before the call does not matter.
pub fn word_tokens(s: &str, scratch: &mut String, token: impl FnMut(&str)) {
    if s.is_ascii() {
        return ascii_word_tokens(s, scratch, token);
    }
    if is_nfc_quick(s.chars()) == IsNormalized::Yes {
        return composed_word_tokens(s, scratch, token);
    }
    composed_word_tokens(&s.nfc().collect::<String>(), scratch, token);
}

fn composed_word_tokens(s: &str, scratch: &mut String, mut token: impl FnMut(&str)) {
    for part in s.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c)) {
        let word = part.trim_start_matches(is_combining_mark);
        if !word.is_empty() {
            scratch.clear();
            push_lowercase(word, scratch);
            token(scratch);
        }
    }
}

fn ascii_word_tokens(s: &str, scratch: &mut String, mut token: impl FnMut(&str)) {
    scratch.clear();
    scratch.push_str(s);
    scratch.make_ascii_lowercase();
    for word in scratch.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
        token(word);
    }
}

/// The capital sigma is the one letter whose lower case depends on its neighbours.
fn push_lowercase(word: &str, out: &mut String) {
    if word.contains('Σ') {
        out.push_str(&word.to_lowercase());
    } else {
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(s: &str) -> Vec<String> {
        let mut all = Vec::new();
        word_tokens(s, &mut "left over".to_string(), |w| all.push(w.to_string()));
        all
    }

    #[test]
    fn splits_at_everything_that_is_not_alphanumeric() {
        assert_eq!(words("  Acme, Inc. (No. 42)--acme\t"), ["acme", "inc", "no", "42", "acme"]);
        assert_eq!(words("a_b"), ["a", "b"]);
        assert!(words("").is_empty() && words(" .,-!").is_empty());
        assert_eq!(words("x"), ["x"]);
    }

    #[test]
    fn lower_case_is_unicode() {
        assert_eq!(words("ÉCOLE Straße № 7"), ["école", "straße", "7"]);
        assert_eq!(words("ΟΔΟΣ-ΣΑΣ"), ["οδος", "σας"]);
        assert_eq!(words("İstanbul"), ["i\u{307}stanbul"]);
        assert_eq!(words("東京 Tower"), ["東京", "tower"]);
    }

    #[test]
    fn marks_stay_with_their_letters() {
        for (composed, decomposed) in [("Café Zoë", "Cafe\u{301} Zoe\u{308}"), ("ĘŁK ạ̈", "E\u{328}ŁK a\u{308}\u{323}")]
        {
            assert_eq!(words(composed), words(decomposed));
        }
        assert_eq!(words("Cafe\u{301}s"), ["cafés"]);
        assert_eq!(words("q\u{307}x \u{301} \u{301}y"), ["q\u{307}x", "y"]);
        assert_eq!(words("हिन्दी"), ["हिन्दी"]);
    }

    #[test]
    fn a_word_may_be_long() {
        let long = "A".repeat(100_000);
        assert_eq!(words(&long), ["a".repeat(100_000)]);
    }
}
