//! q-grams: the substrings of `q` characters, characters being Unicode scalar values.

use std::fmt::Write;

/// Calls `gram` with each q-gram of `s`, in order, repeats included.
///
/// With `pad`, `q - 1` copies of it stand before and after `s`. Without it a string of fewer than `q`
/// characters is its own gram, and the empty string has none. A `q` of 0 gives nothing.
/// `scratch` holds the padded string; its content before the call does not matter.
pub fn qgrams(s: &str, q: usize, pad: Option<char>, scratch: &mut String, mut gram: impl FnMut(&str)) {
    if q == 0 {
        return;
    }
    let any = windows(padded(s, q, pad, scratch), q, &mut gram);
    if !any && pad.is_none() && !s.is_empty() {
        gram(s);
    }
}

/// What [`multiset_qgrams`] needs of memory; its content before a call does not matter.
#[derive(Debug, Default)]
pub struct Occurrences {
    padded: String,
    /// Where each gram begins and ends.
    grams: Vec<(usize, usize)>,
    /// The grams by their text, and the number of each among its equals.
    order: Vec<u32>,
    numbers: Vec<u32>,
    named: String,
}

/// Calls `gram` with each q-gram of `s` as [`qgrams`] does, from its second occurrence on with the number of the
/// occurrence behind it. So no two of them are equal, and two strings have as many in common as their multisets have.
///
/// A gram of `q` characters never equals one with a number: that is longer. A string that is its own gram has no other.
pub fn multiset_qgrams(s: &str, q: usize, pad: Option<char>, scratch: &mut Occurrences, mut gram: impl FnMut(&str)) {
    let Occurrences { padded: text, grams, order, numbers, named } = scratch;
    if q == 0 {
        return;
    }
    let text = padded(s, q, pad, text);
    grams.clear();
    // a gram is a part of the text
    let any = windows(text, q, |gram| {
        let start = gram.as_ptr().addr() - text.as_ptr().addr();
        grams.push((start, start + gram.len()));
    });
    if !any && pad.is_none() && !s.is_empty() {
        return gram(s);
    }
    let of = |at: u32| grams.get(at as usize).map_or("", |&(start, end)| &text[start..end]);
    order.clear();
    order.extend(0..grams.len() as u32);
    order.sort_unstable_by(|&one, &other| of(one).cmp(of(other)).then(one.cmp(&other)));
    numbers.clear();
    numbers.resize(grams.len(), 1);
    for pair in 1..order.len() {
        let (before, at) = (order[pair - 1], order[pair]);
        if of(before) == of(at) {
            numbers[at as usize] = numbers[before as usize] + 1;
        }
    }
    for (&number, at) in numbers.iter().zip(0..) {
        if number == 1 {
            gram(of(at));
            continue;
        }
        named.clear();
        // writing to a string never fails
        let _ = write!(named, "{}{number}", of(at));
        gram(named);
    }
}

/// `s` with `q - 1` copies of `pad` before and after it, in `scratch`; itself without one. `q` is at least 1.
pub fn padded<'a>(s: &'a str, q: usize, pad: Option<char>, scratch: &'a mut String) -> &'a str {
    let Some(pad) = pad else { return s };
    scratch.clear();
    scratch.extend(std::iter::repeat_n(pad, q - 1));
    scratch.push_str(s);
    scratch.extend(std::iter::repeat_n(pad, q - 1));
    scratch
}

/// Calls `gram` with each window of `q` characters and says whether there was one.
fn windows(s: &str, q: usize, mut gram: impl FnMut(&str)) -> bool {
    if s.is_ascii() {
        // Bytes are characters, so the window's end needs no search.
        (q..=s.len()).for_each(|end| gram(&s[end - q..end]));
        return s.len() >= q;
    }
    let starts = s.char_indices().map(|(at, _)| at);
    let ends = s.char_indices().map(|(at, c)| at + c.len_utf8()).skip(q - 1);
    let mut any = false;
    for (start, end) in starts.zip(ends) {
        gram(&s[start..end]);
        any = true;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grams(s: &str, q: usize, pad: Option<char>) -> Vec<String> {
        let mut all = Vec::new();
        qgrams(s, q, pad, &mut "left over".to_string(), |g| all.push(g.to_string()));
        all
    }

    #[test]
    fn unpadded() {
        assert_eq!(grams("banana", 2, None), ["ba", "an", "na", "an", "na"]);
        assert_eq!(grams("ab", 3, None), ["ab"]);
        assert_eq!(grams("abc", 3, None), ["abc"]);
        assert_eq!(grams("ab", 1, None), ["a", "b"]);
        assert!(grams("", 1, None).is_empty() && grams("", 3, None).is_empty());
    }

    #[test]
    fn padded() {
        assert_eq!(grams("ab", 3, Some('#')), ["##a", "#ab", "ab#", "b##"]);
        assert_eq!(grams("ab", 1, Some('#')), ["a", "b"]);
        assert_eq!(grams("", 2, Some('#')), ["##"]);
        assert!(grams("", 1, Some('#')).is_empty());
    }

    #[test]
    fn no_two_of_a_multiset_are_equal() {
        let grams = |s: &str, q, pad| {
            let mut all = Vec::new();
            multiset_qgrams(s, q, pad, &mut Occurrences::default(), |g| all.push(g.to_string()));
            all
        };
        assert_eq!(grams("banana", 2, None), ["ba", "an", "na", "an2", "na2"]);
        assert_eq!(grams("aaa", 1, None), ["a", "a2", "a3"]);
        assert_eq!(grams("a2a", 1, None), ["a", "2", "a2"]);
        assert_eq!(grams("", 2, Some('#')), ["##"]);
        assert_eq!(grams("éé", 2, Some('é')), ["éé", "éé2", "éé3"]);
        assert_eq!(grams("ab", 3, None), ["ab"]);
        assert!(grams("", 3, None).is_empty() && grams("ab", 0, None).is_empty());
    }

    #[test]
    fn counted_in_characters() {
        assert_eq!(grams("čau", 2, None), ["ča", "au"]);
        assert_eq!(grams("日本", 3, None), ["日本"]);
        assert_eq!(grams("a", 2, Some('·')), ["·a", "a·"]);
    }

    #[test]
    fn a_q_longer_than_any_string() {
        assert_eq!(grams("abc", usize::MAX, None), ["abc"]);
        assert!(grams("abc", 0, None).is_empty() && grams("abc", 0, Some('#')).is_empty());
    }
}
