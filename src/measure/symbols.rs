//! Strings as symbols, one a Unicode scalar value, and the bits in which a pattern has each of them.

/// One symbol: a byte of an ASCII string, or a scalar value.
pub(super) trait Symbol: Copy + Eq {
    fn code(self) -> u32;
}

impl Symbol for u8 {
    fn code(self) -> u32 {
        self.into()
    }
}

impl Symbol for char {
    fn code(self) -> u32 {
        self.into()
    }
}

/// Evaluates an expression over the symbols of two strings: bytes where both are ASCII, else scalar values.
macro_rules! over_symbols {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $body:expr) => {
        if $a.is_ascii() && $b.is_ascii() {
            let ($x, $y) = ($a.as_bytes(), $b.as_bytes());
            $body
        } else {
            let (x, y): (Vec<char>, Vec<char>) = ($a.chars().collect(), $b.chars().collect());
            let ($x, $y) = (x.as_slice(), y.as_slice());
            $body
        }
    };
}

pub(super) use over_symbols;

/// For a pattern of at most 64 symbols, the places of each symbol as bits.
pub(super) struct Places {
    ascii: [u64; 128],
    /// Open addressing by code; 64 symbols leave half of the slots free. A slot is free where its bits are 0.
    others: Option<Box<[(u32, u64); 128]>>,
}

impl Places {
    pub(super) fn of<S: Symbol>(pattern: &[S]) -> Self {
        let mut places = Self { ascii: [0; 128], others: None };
        for (i, symbol) in pattern.iter().enumerate() {
            *places.slot(symbol.code()) |= 1 << i;
        }
        places
    }

    #[inline]
    pub(super) fn get<S: Symbol>(&self, symbol: S) -> u64 {
        let code = symbol.code();
        match self.ascii.get(code as usize) {
            Some(&bits) => bits,
            None => self.others.as_ref().map_or(0, |others| others[find(others, code)].1),
        }
    }

    fn slot(&mut self, code: u32) -> &mut u64 {
        if (code as usize) < self.ascii.len() {
            return &mut self.ascii[code as usize];
        }
        let others = self.others.get_or_insert_with(|| Box::new([(0, 0); 128]));
        let slot = find(others, code);
        others[slot].0 = code;
        &mut others[slot].1
    }
}

/// The slot of `code`, or the free one where it would stand.
fn find(slots: &[(u32, u64); 128], code: u32) -> usize {
    let mut slot = (code.wrapping_mul(0x9e37_79b9) >> 25) as usize;
    while slots[slot].1 != 0 && slots[slot].0 != code {
        slot = (slot + 1) % slots.len();
    }
    slot
}

/// Both without what they have in common at their beginnings and ends, which no edit distance counts.
pub(super) fn trimmed<'a, S: Symbol>(mut a: &'a [S], mut b: &'a [S]) -> (&'a [S], &'a [S]) {
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    (&a[..a.len() - suffix], &b[..b.len() - suffix])
}
