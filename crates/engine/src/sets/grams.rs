//! Ids of short grams of few different bytes: by a place in a table, where a dictionary would hash.

/// Bits of the place of a gram at most: a table of a megabyte of ids.
const MOST_BITS: usize = 18;

/// Bits of the code of a byte at first, enough for letters of one case.
const FIRST_BITS: usize = 5;

/// The ids of grams of so many bytes that were asked for before.
///
/// A byte has a code from when it first comes, while there are codes. Grams of equal places are equal, as all their
/// bytes have codes.
#[derive(Debug)]
pub(super) struct GramIds {
    /// Bytes of a gram.
    len: usize,
    /// Bits of a code.
    bits: usize,
    /// The code of each byte, [`NO_CODE`] where it has none.
    codes: [u16; 256],
    /// How many bytes have one.
    coded: usize,
    /// One more than the id at each place, 0 where none is known.
    ids: Vec<u32>,
}

const NO_CODE: u16 = u16::MAX;

impl GramIds {
    /// A table for grams of `len` bytes; none where too few codes would do for them.
    pub(super) fn of(len: usize) -> Option<Self> {
        let bits = FIRST_BITS;
        let fits = len > 0 && bits.checked_mul(len)? <= MOST_BITS;
        fits.then(|| Self { len, bits, codes: [NO_CODE; 256], coded: 0, ids: vec![0; 1 << (bits * len)] })
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.ids.capacity() * size_of::<u32>()
    }

    /// Calls `each` with the id of each gram of `text`, in order. What a gram is that was not asked for before,
    /// `intern` says.
    #[inline]
    pub(super) fn of_text(&mut self, text: &[u8], mut intern: impl FnMut(&[u8]) -> u32, mut each: impl FnMut(u32)) {
        let has_code = |byte: &u8| self.codes[usize::from(*byte)] != NO_CODE;
        if !text.iter().fold(true, |all, byte| all & has_code(byte)) && !self.add(text) {
            text.windows(self.len).for_each(|gram| each(intern(gram)));
            return;
        }
        let (mut place, within) = (0, self.ids.len() - 1);
        for (at, &byte) in text.iter().enumerate() {
            place = (place << self.bits | usize::from(self.codes[usize::from(byte)])) & within;
            if at + 1 >= self.len {
                let id = &mut self.ids[place];
                if *id == 0 {
                    *id = intern(&text[at + 1 - self.len..=at]) + 1;
                }
                each(*id - 1);
            }
        }
    }

    /// Gives the bytes of `text` codes; with more bits to a code the table is made anew. Says whether all have one now.
    #[cold]
    fn add(&mut self, text: &[u8]) -> bool {
        for &byte in text {
            if self.codes[usize::from(byte)] != NO_CODE {
                continue;
            }
            if self.coded == 1 << self.bits {
                if (self.bits + 1) * self.len > MOST_BITS {
                    return false;
                }
                self.bits += 1;
                self.ids = vec![0; 1 << (self.bits * self.len)];
            }
            self.codes[usize::from(byte)] = self.coded as u16;
            self.coded += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_gram_has_the_id_that_it_was_given() {
        for len in [1, 2, 3] {
            let (mut table, mut given) = (GramIds::of(len).unwrap(), HashMap::<Vec<u8>, u32>::new());
            // few bytes at first, then all, so that a table grows and then has no code left; texts of no gram between
            // them
            let mut state = 1u32;
            let mut random = |end: u32| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) % end
            };
            for of in [2, 30, 40, 64, 256, 20] {
                let (mut asked, mut told) = (0, 0);
                for _ in 0..4_000 {
                    let text: Vec<u8> = (0..random(20)).map(|_| random(of) as u8).collect();
                    let mut ids = Vec::new();
                    let intern = |gram: &[u8]| {
                        told += 1;
                        let next = given.len() as u32;
                        *given.entry(gram.to_vec()).or_insert(next)
                    };
                    table.of_text(&text, intern, |id| ids.push(id));
                    asked += ids.len();
                    assert_eq!(ids, text.windows(len).map(|gram| given[gram]).collect::<Vec<_>>());
                }
                assert!(of != 20 || told < asked / 2, "{told} of {asked} grams of {of} bytes were not known");
            }
        }
        assert!(GramIds::of(4).is_none() && GramIds::of(usize::MAX).is_none() && GramIds::of(0).is_none());
    }
}
