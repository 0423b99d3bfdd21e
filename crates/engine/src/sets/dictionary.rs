//! Tokens as dense numbers, exact by content.
//!
//! A hash only finds a token; equality of content decides. Tokens of up to seven bytes, nearly all q-grams among
//! them, are compared as one integer and kept nowhere else; longer ones stand in an arena.

use std::hash::BuildHasher;

use crate::error::{Result, internal_err};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::numbers::{FREE, Number, Numbers, hash_of_number};
use crate::parallel::{each_in_turn, in_parallel};
use crate::stored::{Sink, Source, Store, Stored, fixed};

/// The longest token that fits into an integer beside its length.
const SHORT: usize = 7;

/// How many shards a dictionary has.
pub const SHARDS: usize = 16;

/// Below this many tokens a thread a shard costs more than it saves.
const WORTH_THREADS: usize = 1 << 16;

/// Dictionary from tokens to dense ids.
///
/// One dictionary holds either numbers or texts, never both, for a short text is kept as a number too. The hash of a
/// token says which shard it is in, the same one in every dictionary, so that each shard of several dictionaries is
/// merged by a thread of its own.
#[derive(Debug, Default)]
pub struct Dictionary {
    shards: [Shard; SHARDS],
    len: usize,
    /// Bytes that the shards hold.
    held: usize,
}

/// The tokens of a dictionary that share some bits of their hash.
#[derive(Debug, Default)]
pub struct Shard {
    numbers: Numbers,
    texts: HashTable<Text>,
    arena: Vec<u8>,
    /// Bytes held when it was last asked.
    held: usize,
}

/// A token in the arena.
#[derive(Debug, Clone, Copy)]
struct Text {
    start: usize,
    len: usize,
    id: u32,
}

fixed!(Text { start: usize, len: usize, id: u32 });

fn hash_of_text(text: &[u8]) -> u64 {
    FixedState::default().hash_one(text)
}

/// The shard of a hash, by bits that tables do not look at.
#[inline]
fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl Dictionary {
    /// The tokens of these shards, one for each.
    pub fn of_shards(shards: impl IntoIterator<Item = Shard>) -> Self {
        let mut shards = shards.into_iter();
        let mut shards: [Shard; SHARDS] = std::array::from_fn(|_| shards.next().unwrap_or_default());
        let len = shards.iter().map(Shard::len).sum();
        shards.iter_mut().for_each(|shard| shard.held = 0);
        let held = shards.iter_mut().map(Shard::grown).sum();
        Self { shards, len, held }
    }

    /// The shards, in their order.
    pub fn into_shards(self) -> [Shard; SHARDS] {
        self.shards
    }

    /// How many tokens there are; their ids are `0..len()`.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.held
    }

    /// Has the place of a number brought into the cache, which is asked for soon.
    #[inline]
    pub fn fetch_number(&self, number: u64) {
        let hash = hash_of_number(number);
        self.shards[shard_of(hash)].numbers.fetch(hash);
    }

    /// Id of a number, if it is known.
    pub fn find_number(&self, number: u64) -> Option<u32> {
        let hash = hash_of_number(number);
        self.shards[shard_of(hash)].numbers.find(hash, number)
    }

    /// Id of a text, if it is known.
    pub fn find_text(&self, text: &[u8]) -> Option<u32> {
        if let Some(number) = packed(text) {
            return self.find_number(number);
        }
        let hash = hash_of_text(text);
        self.shards[shard_of(hash)].find_long(hash, text)
    }

    /// The id of `number`, a new one where it was not there.
    #[inline]
    pub fn intern_number(&mut self, number: u64) -> u32 {
        let (hash, next) = (hash_of_number(number), self.len as u32);
        let shard = &mut self.shards[shard_of(hash)];
        let id = shard.intern_number(hash, number, next);
        if id == next {
            self.len += 1;
            self.held += shard.grown();
        }
        id
    }

    /// The id of `text`, a new one where it was not there.
    #[inline]
    pub fn intern_text(&mut self, text: &[u8]) -> u32 {
        match packed(text) {
            Some(number) => self.intern_number(number),
            None => {
                let (hash, next) = (hash_of_text(text), self.len as u32);
                let shard = &mut self.shards[shard_of(hash)];
                let id = shard.intern_long(hash, text, next);
                if id == next {
                    self.len += 1;
                    self.held += shard.grown();
                }
                id
            }
        }
    }

    /// Replaces each id by its entry in `ids`.
    pub fn renumber(&mut self, ids: &[u32]) -> Result<()> {
        let renumber = |shard: &mut Shard| {
            shard.ids().for_each(|id| {
                *id = ids[*id as usize];
                debug_assert!(*id != FREE.id);
            });
        };
        if self.len < WORTH_THREADS {
            self.shards.iter_mut().for_each(renumber);
        } else {
            in_parallel(self.shards.iter_mut(), |shard| {
                renumber(shard);
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Store for Dictionary {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        for Shard { numbers, texts, arena, held: _ } in &self.shards {
            numbers.iter().copied().collect::<Vec<_>>().store(sink)?;
            texts.iter().copied().collect::<Vec<_>>().store(sink)?;
            arena.store(sink)?;
        }
        Ok(())
    }
}

impl Dictionary {
    /// Reads a dictionary and fills its tables, by up to so many threads.
    ///
    /// # Errors
    /// Too few bytes, or bytes that are no dictionary.
    pub fn load(source: &mut Source<'_>, threads: usize) -> Result<Self> {
        let mut parts: Vec<(Vec<Number>, Vec<Text>, Vec<u8>)> = Vec::with_capacity(SHARDS);
        for _ in 0..SHARDS {
            parts.push((Vec::load(source)?, Vec::load(source)?, Vec::load(source)?));
        }
        let tokens: usize = parts.iter().map(|(numbers, texts, _)| numbers.len() + texts.len()).sum();
        if parts.iter().any(|(_, texts, arena)| !texts.iter().all(|text| text.is_in(arena))) {
            return internal_err!("a stored index has a token beyond the end of all texts");
        }
        let threads = if tokens < WORTH_THREADS { 1 } else { threads };
        let shard = |at: usize| Shard::of(&parts[at].0, &parts[at].1, parts[at].2.clone());
        Ok(Self::of_shards(each_in_turn(SHARDS, threads, shard)))
    }
}

impl Text {
    fn is_in(&self, arena: &[u8]) -> bool {
        self.start.checked_add(self.len).is_some_and(|end| end <= arena.len())
    }
}

impl Shard {
    /// The shard of these tokens, no two of which are the same.
    fn of(numbers: &[Number], texts: &[Text], arena: Vec<u8>) -> Self {
        let mut shard = Self { arena, ..Self::default() };
        let Self { numbers: by_number, texts: by_text, arena, .. } = &mut shard;
        let hash = |text: &Text| hash_of_text(&arena[text.start..text.start + text.len]);
        by_number.reserve(numbers.len());
        by_text.reserve(texts.len(), hash);
        for &number in numbers {
            by_number.insert(hash_of_number(number.number), number);
        }
        for &text in texts {
            by_text.insert_unique(hash(&text), text, hash);
        }
        shard
    }

    /// How many tokens are known.
    pub(super) fn len(&self) -> usize {
        self.numbers.len() + self.texts.len()
    }

    /// How many bytes more it holds than when it was last asked.
    fn grown(&mut self) -> usize {
        let held = self.numbers.memory() + self.texts.allocation_size() + self.arena.capacity();
        held - std::mem::replace(&mut self.held, held)
    }

    fn find_long(&self, hash: u64, text: &[u8]) -> Option<u32> {
        self.texts.find(hash, |t| &self.arena[t.start..t.start + t.len] == text).map(|t| t.id)
    }

    /// The id of `number`, `next` where it was not there.
    #[inline]
    fn intern_number(&mut self, hash: u64, number: u64, next: u32) -> u32 {
        if let Some(id) = self.numbers.find(hash, number) {
            return id;
        }
        self.numbers.insert(hash, Number { number, id: next });
        next
    }

    /// The id of a text that is too long for a number, `next` where it was not there.
    fn intern_long(&mut self, hash: u64, text: &[u8], next: u32) -> u32 {
        if let Some(id) = self.find_long(hash, text) {
            return id;
        }
        let Self { texts, arena, .. } = self;
        let new = Text { start: arena.len(), len: text.len(), id: next };
        arena.extend_from_slice(text);
        texts.insert_unique(hash, new, |t| hash_of_text(&arena[t.start..t.start + t.len]));
        next
    }

    fn ids(&mut self) -> impl Iterator<Item = &mut u32> {
        let Self { numbers, texts, .. } = self;
        numbers.ids_mut().chain(texts.iter_mut().map(|t| &mut t.id))
    }

    /// Takes over the tokens of the same shard of another dictionary. Ids here are dense from `first` on; `note` is
    /// told each id there and the one here.
    pub fn absorb(&mut self, other: Self, first: u32, mut note: impl FnMut(u32, u32)) {
        if self.len() == 0 {
            *self = other;
            for (id, next) in self.ids().zip(first..) {
                note(*id, next);
                *id = next;
            }
            return;
        }
        // they come by their places: room for all keeps the first places of a smaller table from filling up
        self.numbers.reserve(other.numbers.len());
        for known in other.numbers.iter() {
            let next = first + self.len() as u32;
            note(known.id, self.intern_number(hash_of_number(known.number), known.number, next));
        }
        for t in &other.texts {
            let (text, next) = (&other.arena[t.start..t.start + t.len], first + self.len() as u32);
            note(t.id, self.intern_long(hash_of_text(text), text, next));
        }
    }
}

/// A short text as an integer that no other short text shares: its bytes, and its length on top.
#[inline]
pub fn packed(text: &[u8]) -> Option<u64> {
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
        let arenas = dictionary.shards.iter().map(|shard| shard.arena.capacity()).sum::<usize>();
        assert!(arenas > 5_000_000 && dictionary.memory() > arenas);
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
            assert_eq!(packed(&text), expected);
        }
    }

    #[test]
    fn absorbing_keeps_content() {
        let (mut a, mut b) = (Dictionary::default(), Dictionary::default());
        let texts = |from: usize| (from..from + 300).map(|n| format!("{}{n}", ["x", "a long token "][n % 2]));
        for (dictionary, from) in [(&mut a, 0), (&mut b, 100)] {
            for text in texts(from) {
                dictionary.intern_text(text.as_bytes());
            }
            assert_eq!(dictionary.len(), 300);
        }
        let known = |dictionary: &Dictionary, from| {
            texts(from).map(|text| (dictionary.find_text(text.as_bytes()).unwrap(), text)).collect::<Vec<_>>()
        };
        let (ids_of_a, ids_of_b) = (known(&a, 0), known(&b, 100));
        let (mut notes, mut next) = ([vec![0; 300], vec![0; 300]], 1000);
        let merge = |(a, b): (Shard, Shard)| {
            let mut whole = Shard::default();
            whole.absorb(a, next, |old, new| notes[0][old as usize] = new);
            whole.absorb(b, next, |old, new| notes[1][old as usize] = new);
            next += whole.len() as u32;
            whole
        };
        let mut whole =
            Dictionary::of_shards(a.into_shards().into_iter().zip(b.into_shards()).map(merge).collect::<Vec<_>>());
        assert_eq!(whole.len(), 400);
        for (notes, ids) in notes.iter().zip([ids_of_a, ids_of_b]) {
            for (id, text) in ids {
                assert_eq!(whole.find_text(text.as_bytes()), Some(notes[id as usize]), "{text}");
            }
        }
        let ids: std::collections::BTreeSet<_> = notes.concat().into_iter().collect();
        assert!(ids.into_iter().eq(1000..1400));
        let doubled: Vec<u32> = (0..1400).map(|id| 2 * id).collect();
        whole.renumber(&doubled).unwrap();
        assert_eq!(whole.find_text(b"x0"), Some(2 * notes[0][0]));
    }
}
