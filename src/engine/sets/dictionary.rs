//! Tokens as dense numbers, exact by content.
//!
//! A hash only finds a token; equality of content decides. Tokens of up to seven bytes, nearly all q-grams among
//! them, are compared as one integer and kept nowhere else; longer ones stand in an arena.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

/// The longest token that fits into an integer beside its length.
const SHORT: usize = 7;

/// From tokens to dense ids.
///
/// One dictionary holds either numbers or texts, never both, for a short text is kept as a number too.
#[derive(Debug, Default)]
pub struct Dictionary {
    numbers: HashMap<u64, u32, FixedState>,
    texts: HashTable<Text>,
    arena: Vec<u8>,
    hasher: FixedState,
    len: usize,
}

/// A token in the arena.
#[derive(Debug, Clone, Copy)]
struct Text {
    start: usize,
    len: usize,
    id: u32,
}

impl Dictionary {
    /// How many tokens there are; their ids are `0..len()`.
    pub(in crate::engine) fn len(&self) -> usize {
        self.len
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.numbers.allocation_size() + self.texts.allocation_size() + self.arena.capacity()
    }

    pub(in crate::engine) fn find_number(&self, number: u64) -> Option<u32> {
        self.numbers.get(&number).copied()
    }

    pub(in crate::engine) fn find_text(&self, text: &[u8]) -> Option<u32> {
        if let Some(number) = short(text) {
            return self.find_number(number);
        }
        let hash = self.hasher.hash_one(text);
        self.texts.find(hash, |t| &self.arena[t.start..t.start + t.len] == text).map(|t| t.id)
    }

    /// The id of `number`, a new one where it was not there.
    #[inline]
    pub(in crate::engine) fn intern_number(&mut self, number: u64) -> u32 {
        if let Some(&id) = self.numbers.get(&number) {
            return id;
        }
        let id = self.len as u32;
        self.numbers.insert(number, id);
        self.len += 1;
        id
    }

    /// The id of `text`, a new one where it was not there.
    #[inline]
    pub(in crate::engine) fn intern_text(&mut self, text: &[u8]) -> u32 {
        match short(text) {
            Some(number) => self.intern_number(number),
            None => self.intern_long(text),
        }
    }

    fn intern_long(&mut self, text: &[u8]) -> u32 {
        let Self { texts, arena, hasher, len, .. } = self;
        let same = |t: &Text| &arena[t.start..t.start + t.len] == text;
        let hash = hasher.hash_one(text);
        if let Some(found) = texts.find(hash, same) {
            return found.id;
        }
        let new = Text { start: arena.len(), len: text.len(), id: *len as u32 };
        arena.extend_from_slice(text);
        texts.insert_unique(hash, new, |t| hasher.hash_one(&arena[t.start..t.start + t.len]));
        *len += 1;
        new.id
    }

    /// Takes over the tokens of `other`, and returns the id here of each id there.
    pub(in crate::engine) fn absorb(&mut self, other: &Self) -> Vec<u32> {
        let mut ids = vec![0; other.len];
        for (&number, &id) in &other.numbers {
            ids[id as usize] = self.intern_number(number);
        }
        for t in &other.texts {
            ids[t.id as usize] = self.intern_long(&other.arena[t.start..t.start + t.len]);
        }
        ids
    }

    /// Replaces each id by its entry in `ids`.
    pub(in crate::engine) fn renumber(&mut self, ids: &[u32]) {
        self.numbers.values_mut().for_each(|id| *id = ids[*id as usize]);
        self.texts.iter_mut().for_each(|t| t.id = ids[t.id as usize]);
    }
}

/// A short text as an integer that no other short text shares: its bytes, and its length on top.
#[inline]
fn short(text: &[u8]) -> Option<u64> {
    if text.len() > SHORT {
        return None;
    }
    let len = text.len();
    let byte = |at: usize| u64::from(text[at]) << (8 * at);
    let packed = match text {
        [] => 0,
        // Overlapping reads stay within the text and need no loop; a byte read twice is the same both times.
        [_] | [_, _] | [_, _, _] => byte(0) | byte(len / 2) | byte(len - 1),
        _ => four(text, 0) | four(text, len - 4),
    };
    Some(packed | (len as u64) << (8 * SHORT))
}

/// Four bytes of `text` from `at` on, in their places.
#[inline]
fn four(text: &[u8], at: usize) -> u64 {
    let bytes = [text[at], text[at + 1], text[at + 2], text[at + 3]];
    u64::from(u32::from_le_bytes(bytes)) << (8 * at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<Vec<u8>> {
        let zeros = (0..20).map(|n| vec![0; n]);
        let long = (0..50).map(|n| vec![b'a' + n % 3; 100_000 + n as usize / 3]);
        zeros.chain(long).chain([b"abcdefg".to_vec(), b"abcdefgh".to_vec(), b"abcdefgi".to_vec()]).collect()
    }

    #[test]
    fn ids_are_by_content() {
        let mut dictionary = Dictionary::default();
        let distinct: std::collections::BTreeSet<_> = texts().into_iter().collect();
        for _ in 0..2 {
            for text in texts() {
                let id = dictionary.intern_text(&text);
                assert_eq!(dictionary.find_text(&text), Some(id));
            }
        }
        assert_eq!(dictionary.len(), distinct.len());
        let ids: std::collections::BTreeSet<_> = distinct.iter().map(|t| dictionary.find_text(t)).collect();
        assert_eq!(ids.len(), distinct.len());
        assert_eq!(dictionary.find_text(b"abcdefgj"), None);
    }

    #[test]
    fn short_texts_are_packed_byte_by_byte() {
        for len in 0..=9 {
            let text: Vec<u8> = (1..=len).collect();
            let mut bytes = [0; 8];
            let expected = (text.len() <= SHORT).then(|| {
                bytes[..text.len()].copy_from_slice(&text);
                bytes[SHORT] = len;
                u64::from_le_bytes(bytes)
            });
            assert_eq!(short(&text), expected);
        }
    }

    #[test]
    fn absorbing_keeps_content() {
        let (mut a, mut b) = (Dictionary::default(), Dictionary::default());
        for text in ["x", "y", "a long token", "another long token"] {
            a.intern_text(text.as_bytes());
        }
        for text in ["another long token", "z", "y", "a third long token"] {
            b.intern_text(text.as_bytes());
        }
        let ids = a.absorb(&b);
        assert_eq!(a.len(), 6);
        for text in ["another long token", "z", "y", "a third long token"] {
            let there = b.find_text(text.as_bytes()).unwrap();
            assert_eq!(a.find_text(text.as_bytes()), Some(ids[there as usize]));
        }
        a.renumber(&[10, 11, 12, 13, 14, 15]);
        assert_eq!(a.find_text(b"y"), Some(11));
    }
}
