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
    let (mut start, mut before) = (None, 0);
    for (block, bytes) in scratch.as_bytes().chunks(BLOCK).enumerate() {
        let letters = letters(bytes);
        // words begin and end by turns
        let mut edges = letters ^ (letters << 1 | before);
        before = letters >> (BLOCK - 1);
        while edges != 0 {
            let at = block * BLOCK + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            match start.take() {
                Some(start) => token(&scratch[start..at]),
                None => start = Some(at),
            }
        }
    }
    if let Some(start) = start {
        token(&scratch[start..]);
    }
}

/// Bytes of which one number says which are letters or digits.
const BLOCK: usize = u64::BITS as usize;

/// A bit for each of up to 64 bytes of ASCII in lower case: whether it is a letter or a digit.
#[inline]
fn letters(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let bits = |of: &[u8; 8]| letters_of_eight(u64::from_le_bytes(*of));
    let all = words.iter().zip((0..).step_by(8)).fold(0, |all, (of, shift)| all | bits(of) << shift);
    if rest.is_empty() { all } else { all | bits(&last) << (8 * words.len()) }
}

/// A bit for each of eight bytes of ASCII in lower case.
#[inline]
fn letters_of_eight(bytes: u64) -> u64 {
    let each = |byte: u8| u64::from(byte) * 0x0101_0101_0101_0101;
    // no byte has its highest bit, which is that of the sum where the byte is at least so large
    let is_at_least = |byte: u8| bytes + each(0x80 - byte);
    let digits = is_at_least(b'0') & !is_at_least(b'9' + 1);
    let letters = is_at_least(b'a') & !is_at_least(b'z' + 1);
    // brings the highest bits of all bytes side by side
    (((digits | letters) & each(0x80)) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
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
    fn words_of_ascii_lie_anywhere_in_a_block() {
        let by_characters = |s: &str| -> Vec<String> {
            let words = s.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            words.map(str::to_ascii_lowercase).collect()
        };
        let all: String = (0..128u8).map(char::from).collect();
        for at in 0..all.len() {
            let text = format!("{}{}", &all[at..], &all[..at]);
            assert_eq!(words(&text), by_characters(&text));
        }
        for (before, long) in (0..140).flat_map(|before| [1, 7, 8, 63, 64, 65, 129].map(|long| (before, long))) {
            for end in ["", " ", " b"] {
                let text = format!("{}{}{end}", " ".repeat(before), "A".repeat(long));
                assert_eq!(words(&text), by_characters(&text));
                let text = format!("{}{}{end}", "x".repeat(before), "-".repeat(long));
                assert_eq!(words(&text), by_characters(&text));
            }
        }
    }

    #[test]
    fn a_word_may_be_long() {
        let long = "A".repeat(100_000);
        assert_eq!(words(&long), ["a".repeat(100_000)]);
    }
}
