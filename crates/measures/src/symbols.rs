//! Two strings as sequences of symbols, a symbol being one Unicode scalar value.
//!
//! ASCII strings are read in place, byte by byte; others are decoded, up to [`WORD`] symbols without
//! touching the heap. Both give the same sequences, so a measure is written once, over [`Symbol`].

use std::ops::Deref;

/// The symbols that one machine word has bits for.
pub(super) const WORD: usize = u64::BITS as usize;

/// A symbol: a byte of an ASCII string or a decoded `char`.
pub(super) trait Symbol: Copy + Default + Ord + Into<u32> {
    /// Where each symbol stands in a pattern of at most [`WORD`] symbols.
    type Masks: Masks<Self>;
}

/// The positions of each symbol of a short pattern, as bits.
pub(super) trait Masks<S> {
    /// The masks of `pattern`, of which only the first [`WORD`] symbols may exist.
    fn of(pattern: &[S]) -> Self;

    /// Bit `i` is set if the pattern's symbol `i` is `symbol`.
    fn at(&self, symbol: S) -> u64;
}

/// One mask for each ASCII code.
pub(super) struct AsciiMasks([u64; 128]);

impl Masks<u8> for AsciiMasks {
    #[inline]
    fn of(pattern: &[u8]) -> Self {
        let mut masks = [0; 128];
        for (i, &symbol) in pattern.iter().enumerate() {
            masks[usize::from(symbol & 127)] |= 1 << i;
        }
        Self(masks)
    }

    #[inline]
    fn at(&self, symbol: u8) -> u64 {
        self.0[usize::from(symbol & 127)]
    }
}

/// An open-addressed table, twice as large as the longest pattern, so that a free slot always ends a search.
///
/// A slot without positions is free: each symbol in the table stands somewhere in the pattern.
pub(super) struct CharMasks {
    symbols: [char; 2 * WORD],
    masks: [u64; 2 * WORD],
}

impl CharMasks {
    #[inline]
    fn slot(&self, symbol: char) -> usize {
        // Fibonacci hashing: the top bits of the product are the well mixed ones.
        let mut slot = ((symbol as u32).wrapping_mul(0x9E37_79B9) >> 25) as usize;
        while self.masks[slot] != 0 && self.symbols[slot] != symbol {
            slot = (slot + 1) % (2 * WORD);
        }
        slot
    }
}

impl Masks<char> for CharMasks {
    #[inline]
    fn of(pattern: &[char]) -> Self {
        let mut table = Self { symbols: ['\0'; 2 * WORD], masks: [0; 2 * WORD] };
        for (i, &symbol) in pattern.iter().enumerate() {
            let slot = table.slot(symbol);
            table.symbols[slot] = symbol;
            table.masks[slot] |= 1 << i;
        }
        table
    }

    #[inline]
    fn at(&self, symbol: char) -> u64 {
        self.masks[self.slot(symbol)]
    }
}

impl Symbol for u8 {
    type Masks = AsciiMasks;
}

impl Symbol for char {
    type Masks = CharMasks;
}

/// A decoded string, on the stack up to [`WORD`] symbols.
pub(super) struct Decoded {
    short: [char; WORD],
    len: usize,
    long: Vec<char>,
}

impl Decoded {
    fn of(s: &str) -> Self {
        let mut decoded = Self { short: ['\0'; WORD], len: 0, long: Vec::new() };
        let mut symbols = s.chars();
        for (place, symbol) in decoded.short.iter_mut().zip(symbols.by_ref()) {
            *place = symbol;
            decoded.len += 1;
        }
        if let Some(next) = symbols.next() {
            decoded.long.extend_from_slice(&decoded.short);
            decoded.long.push(next);
            decoded.long.extend(symbols);
        }
        decoded
    }
}

impl Deref for Decoded {
    type Target = [char];

    fn deref(&self) -> &[char] {
        if self.long.is_empty() { &self.short[..self.len] } else { &self.long }
    }
}

/// Two strings read as symbols of one kind.
#[expect(clippy::large_enum_variant, reason = "short strings are decoded on the stack on purpose")]
pub(super) enum Symbols<'s> {
    /// Both strings are ASCII.
    Ascii(&'s [u8], &'s [u8]),
    /// Decoded characters, where a string is not ASCII.
    Decoded(Decoded, Decoded),
}

impl<'s> Symbols<'s> {
    /// Reads `a` and `b`.
    #[inline]
    pub(super) fn of(a: &'s str, b: &'s str) -> Self {
        if a.is_ascii() && b.is_ascii() {
            Self::Ascii(a.as_bytes(), b.as_bytes())
        } else {
            Self::Decoded(Decoded::of(a), Decoded::of(b))
        }
    }
}

/// The two strings without their longest common prefix and, after that, without their longest common suffix.
///
/// No edit distance changes by that: an optimal alignment of the whole strings can match both.
#[inline]
pub(super) fn without_common_affixes<'s>(a: &'s str, b: &'s str) -> (&'s str, &'s str) {
    let mut prefix = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    while !a.is_char_boundary(prefix) || !b.is_char_boundary(prefix) {
        prefix -= 1;
    }
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let mut suffix = a.bytes().rev().zip(b.bytes().rev()).take_while(|(x, y)| x == y).count();
    while !a.is_char_boundary(a.len() - suffix) || !b.is_char_boundary(b.len() - suffix) {
        suffix -= 1;
    }
    (&a[..a.len() - suffix], &b[..b.len() - suffix])
}

/// The number of symbols of `s`.
#[inline]
pub(super) fn len(s: &str) -> usize {
    s.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(s: &str) -> Vec<char> {
        Decoded::of(s).to_vec()
    }

    #[test]
    fn decoding_short_and_long_strings() {
        for n in [0, 1, 63, 64, 65, 129] {
            let s = "aé日🦀".chars().cycle().take(n).collect::<String>();
            assert_eq!(decoded(&s), s.chars().collect::<Vec<_>>());
            assert_eq!(len(&s), n);
        }
    }

    #[test]
    fn masks_of_many_distinct_symbols() {
        let pattern = (0..64).map(|i| char::from_u32(0x4E00 + 128 * i).unwrap()).collect::<Vec<_>>();
        let masks = CharMasks::of(&pattern);
        for (i, &symbol) in pattern.iter().enumerate() {
            assert_eq!(masks.at(symbol), 1 << i);
        }
        assert_eq!(masks.at('\0'), 0);
        assert_eq!(CharMasks::of(&['\0', 'x', '\0']).at('\0'), 0b101);
        assert_eq!(AsciiMasks::of(b"abca").at(b'a'), 0b1001);
        assert_eq!(AsciiMasks::of(b"abca").at(b'z'), 0);
    }

    #[test]
    fn affixes_end_between_characters() {
        assert_eq!(without_common_affixes("abcd", "abxd"), ("c", "x"));
        assert_eq!(without_common_affixes("aa", "aaa"), ("", "a"));
        assert_eq!(without_common_affixes("same", "same"), ("", ""));
        assert_eq!(without_common_affixes("", "x"), ("", "x"));
        // é and è share the lead byte, é and ש the last one.
        assert_eq!(without_common_affixes("né", "nè"), ("é", "è"));
        assert_eq!(without_common_affixes("é!", "ש!"), ("é", "ש"));
        assert_eq!(without_common_affixes("\u{e9}", "\u{5e9}"), ("\u{e9}", "\u{5e9}"));
    }
}
