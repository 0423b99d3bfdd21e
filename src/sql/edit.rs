//! Changes to a text, by the places of its tokens.

use std::borrow::Cow;

use datafusion::sql::sqlparser::tokenizer::Location;

/// Replaces what lies between two locations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edit {
    pub start: Location,
    pub end: Location,
    pub text: Cow<'static, str>,
}

impl Edit {
    /// Puts `text` at a location.
    pub fn insert(at: Location, text: &'static str) -> Self {
        Self { start: at, end: at, text: Cow::Borrowed(text) }
    }
}

/// `text` with `edits`, which do not overlap.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort();
    let mut places = Places::new(text);
    let mut edited = String::with_capacity(text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut done = 0;
    for edit in edits {
        edited.push_str(&text[done..places.offset(edit.start)]);
        edited.push_str(&edit.text);
        done = places.offset(edit.end);
    }
    edited.push_str(&text[done..]);
    edited
}

/// Byte offsets of locations that are asked for in ascending order.
pub(super) struct Places<'a> {
    rest: std::str::Chars<'a>,
    length: usize,
    here: Location,
}

impl<'a> Places<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text.chars(), length: text.len(), here: Location::new(1, 1) }
    }

    /// The offset of `location`, counted as the tokenizer counts: columns are characters, `\n` ends a line.
    pub fn offset(&mut self, location: Location) -> usize {
        while self.here < location {
            match self.rest.next() {
                Some('\n') => self.here = Location::new(self.here.line + 1, 1),
                Some(_) => self.here.column += 1,
                None => break,
            }
        }
        self.length - self.rest.as_str().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_meet_their_places() {
        let at = |line, column| Location::new(line, column);
        let edits = vec![
            Edit { start: at(2, 3), end: at(2, 4), text: "".into() },
            Edit::insert(at(1, 2), "<"),
            Edit::insert(at(3, 1), ">"),
        ];
        assert_eq!(apply("äöü\r\nßüx\n", edits), "ä<öü\r\nßü\n>");
        assert_eq!(apply("", vec![]), "");
    }
}
