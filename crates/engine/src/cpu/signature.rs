//! All-pairs comparison of bit signatures: how many bits differ, for tiles of rows and columns.
//!
//! A signature is `W` words of 64 bits; where `|popcount(a ^ b)|` exceeds a proven limit the pair cannot match.
//! Columns are kept in [`Block`]s of [`LANES`] signatures, word by word, so that one vector register holds the
//! same word of eight columns and no lane ever has to be summed across. Each column has a limit of its own; a
//! negative limit shuts it out, which is how a caller clips a range that does not end with a block.
//!
//! The instruction set is chosen once, at run time: AVX-512 with VPOPCNTDQ, AVX2 with nibble look-ups, or
//! portable code. All give the same hits in the same order.

/// Columns of a [`Block`].
pub const LANES: usize = 8;

/// The signatures of [`LANES`] columns: `.0[w][lane]` is word `w` of a column.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Block<const W: usize>(pub [[u64; LANES]; W]);

/// Limits of bits that may differ, one for each column of a [`Block`].
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Limits(pub [i64; LANES]);

impl Limits {
    /// Shuts every column out.
    pub const NONE: Self = Self([-1; LANES]);
}

/// A row and a column whose signatures differ in no more bits than the column's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Index of the row in the call's `rows`.
    pub row: u32,
    /// Index of the column: block times [`LANES`] plus lane.
    pub column: u32,
}

/// The blocks of `signatures`, in order; the lanes after the last signature are zero.
pub fn blocks<const W: usize>(signatures: &[[u64; W]]) -> Vec<Block<W>> {
    signatures.chunks(LANES).map(block).collect()
}

fn block<const W: usize>(signatures: &[[u64; W]]) -> Block<W> {
    let mut block = Block([[0; LANES]; W]);
    for (lane, signature) in signatures.iter().enumerate() {
        for (w, &word) in signature.iter().enumerate() {
            block.0[w][lane] = word;
        }
    }
    block
}

/// The instruction set that compares signatures.
///
/// A value is proof that this machine has the instructions: there is no way to make one but by detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Kernel {
    /// The fastest that this machine has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let popcnt = is_x86_feature_detected!("popcnt");
            if popcnt && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq") {
                return Self(Instructions::Avx512);
            }
            if popcnt && is_x86_feature_detected!("avx2") {
                return Self(Instructions::Avx2);
            }
        }
        Self::portable()
    }

    /// The one that every machine has.
    pub fn portable() -> Self {
        Self(Instructions::Portable)
    }

    /// What it is called in EXPLAIN ANALYZE.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512 VPOPCNTDQ",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "AVX2",
            Instructions::Portable => "portable",
        }
    }

    /// Nanoseconds that one pair takes, for cost estimates: a fixed constant per instruction set and word.
    pub fn nanoseconds_per_pair<const W: usize>(self) -> f64 {
        let (fixed, per_word) = match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => (0.04, 0.05),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => (0.15, 0.28),
            Instructions::Portable => (0.3, 1.4),
        };
        fixed + per_word * W as f64
    }

    /// Appends a hit for each row and column that differ in no more bits than the column's limit.
    ///
    /// `limits` belongs to `columns` block by block; the shorter of the two ends the scan. Hits come in no
    /// particular order, which is nevertheless the same on every machine.
    pub fn scan<const W: usize>(self, rows: &[[u64; W]], columns: &[Block<W>], limits: &[Limits], hits: &mut Vec<Hit>) {
        let mut first = 0;
        while first < rows.len() {
            first += match rows.len() - first {
                8.. => self.scan_rows::<W, 8>(rows, first, columns, limits, hits),
                4.. => self.scan_rows::<W, 4>(rows, first, columns, limits, hits),
                _ => self.scan_rows::<W, 1>(rows, first, columns, limits, hits),
            };
        }
    }

    /// Keeps the pairs whose signatures differ in no more bits than allowed.
    ///
    /// `look_up` gives a pair's two signatures, of equal length, and the most bits that may differ.
    pub fn retain<'a, P: Copy>(self, pairs: &mut Vec<P>, look_up: impl FnMut(P) -> (&'a [u64], &'a [u64], i64)) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value exists only where `detect` found popcnt.
            Instructions::Avx512 | Instructions::Avx2 => unsafe { popcnt::retain(pairs, look_up) },
            Instructions::Portable => portable::retain(pairs, look_up),
        }
    }

    /// Scans `R` rows from `first` on, which share each load of a block, and returns `R`.
    fn scan_rows<const W: usize, const R: usize>(
        self,
        rows: &[[u64; W]],
        first: usize,
        columns: &[Block<W>],
        limits: &[Limits],
        hits: &mut Vec<Hit>,
    ) -> usize {
        let tile = columns.iter().zip(limits);
        let rows: &[[u64; W]; R] = &std::array::from_fn(|r| rows[first + r]);
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value exists only where `detect` found avx512f and avx512vpopcntdq.
            Instructions::Avx512 => unsafe { avx512::scan_rows(rows, first, tile, hits) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value exists only where `detect` found avx2.
            Instructions::Avx2 => unsafe { avx2::scan_rows(rows, first, tile, hits) },
            Instructions::Portable => portable::scan_rows(rows, first, tile, hits),
        }
        R
    }
}

/// Appends the hits of one block from one bit mask a row.
#[cold]
fn push_hits<const R: usize>(masks: [u8; R], first: usize, block: usize, hits: &mut Vec<Hit>) {
    for (row, mut mask) in masks.into_iter().enumerate() {
        while mask != 0 {
            let lane = mask.trailing_zeros();
            hits.push(Hit { row: (first + row) as u32, column: (block * LANES) as u32 + lane });
            mask &= mask - 1;
        }
    }
}

mod portable {
    use super::{Block, Hit, LANES, Limits, push_hits};

    pub(super) fn scan_rows<'a, const W: usize, const R: usize>(
        rows: &[[u64; W]; R],
        first: usize,
        tile: impl Iterator<Item = (&'a Block<W>, &'a Limits)>,
        hits: &mut Vec<Hit>,
    ) {
        for (b, (block, limits)) in tile.enumerate() {
            let masks = rows.map(|row| mask(&row, block, limits));
            if masks.iter().any(|&m| m != 0) {
                push_hits(masks, first, b, hits);
            }
        }
    }

    /// The loop that [`super::popcnt`] has too: here `count_ones` is what the target's baseline makes of it.
    #[inline(always)]
    pub(super) fn retain<'a, P: Copy>(pairs: &mut Vec<P>, mut look_up: impl FnMut(P) -> (&'a [u64], &'a [u64], i64)) {
        let mut kept = 0;
        for at in 0..pairs.len() {
            let pair = pairs[at];
            let (left, right, limit) = look_up(pair);
            let mut differing = 0;
            for (l, r) in left.iter().zip(right) {
                differing += i64::from((l ^ r).count_ones());
            }
            pairs[kept] = pair;
            kept += usize::from(differing <= limit);
        }
        pairs.truncate(kept);
    }

    fn mask<const W: usize>(row: &[u64; W], block: &Block<W>, limits: &Limits) -> u8 {
        (0..LANES).fold(0, |mask, lane| {
            let differing: u32 = (0..W).map(|w| (row[w] ^ block.0[w][lane]).count_ones()).sum();
            mask | u8::from(i64::from(differing) <= limits.0[lane]) << lane
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod popcnt {
    /// The portable loop, compiled with the one instruction that the baseline of x86-64 lacks.
    #[target_feature(enable = "popcnt")]
    pub(super) fn retain<'a, P: Copy>(pairs: &mut Vec<P>, look_up: impl FnMut(P) -> (&'a [u64], &'a [u64], i64)) {
        super::portable::retain(pairs, look_up);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{Block, Hit, LANES, Limits, push_hits};

    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    pub(super) fn scan_rows<'a, const W: usize, const R: usize>(
        rows: &[[u64; W]; R],
        first: usize,
        tile: impl Iterator<Item = (&'a Block<W>, &'a Limits)>,
        hits: &mut Vec<Hit>,
    ) {
        let mut broadcast = [[_mm512_setzero_si512(); W]; R];
        for r in 0..R {
            for w in 0..W {
                broadcast[r][w] = _mm512_set1_epi64(rows[r][w] as i64);
            }
        }
        for (b, (block, limits)) in tile.enumerate() {
            let limits = load_limits(&limits.0);
            let mut nearest = differing(&broadcast[0], block);
            for row in &broadcast[1..] {
                nearest = _mm512_min_epi64(nearest, differing(row, block));
            }
            // Rarely true: only then is it worth the while to ask which row it was.
            if _mm512_cmple_epi64_mask(nearest, limits) != 0 {
                push_hits(row_masks(&broadcast, block, limits), first, b, hits);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn row_masks<const W: usize, const R: usize>(
        rows: &[[__m512i; W]; R],
        block: &Block<W>,
        limits: __m512i,
    ) -> [u8; R] {
        let mut masks = [0; R];
        for r in 0..R {
            masks[r] = _mm512_cmple_epi64_mask(differing(&rows[r], block), limits);
        }
        masks
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    #[inline]
    #[expect(clippy::needless_range_loop, reason = "an iterator's closures would not inherit the instruction set")]
    fn differing<const W: usize>(row: &[__m512i; W], block: &Block<W>) -> __m512i {
        let mut sum = _mm512_popcnt_epi64(_mm512_xor_si512(row[0], load_word(&block.0[0])));
        for w in 1..W {
            let bits = _mm512_popcnt_epi64(_mm512_xor_si512(row[w], load_word(&block.0[w])));
            sum = _mm512_add_epi64(sum, bits);
        }
        sum
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load_word(word: &[u64; LANES]) -> __m512i {
        // SAFETY: the reference covers 64 readable bytes, and the load asks for no alignment.
        unsafe { _mm512_loadu_si512(word.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load_limits(limits: &[i64; LANES]) -> __m512i {
        // SAFETY: the reference covers 64 readable bytes, and the load asks for no alignment.
        unsafe { _mm512_loadu_si512(limits.as_ptr().cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Block, Hit, LANES, Limits, push_hits};

    /// Lanes of a 256-bit register: half a block.
    const HALF: usize = LANES / 2;

    #[target_feature(enable = "avx2")]
    pub(super) fn scan_rows<'a, const W: usize, const R: usize>(
        rows: &[[u64; W]; R],
        first: usize,
        tile: impl Iterator<Item = (&'a Block<W>, &'a Limits)>,
        hits: &mut Vec<Hit>,
    ) {
        const { assert!(W < 32, "a byte of the nibble counts holds 31 words") };
        for (b, (block, limits)) in tile.enumerate() {
            let mut masks = [0; R];
            for r in 0..R {
                masks[r] = half_mask(&rows[r], block, limits, 0) | half_mask(&rows[r], block, limits, HALF) << HALF;
            }
            if masks.iter().fold(0, |any, m| any | m) != 0 {
                push_hits(masks, first, b, hits);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(clippy::needless_range_loop, reason = "an iterator's closures would not inherit the instruction set")]
    fn half_mask<const W: usize>(row: &[u64; W], block: &Block<W>, limits: &Limits, from: usize) -> u8 {
        let mut bytes = _mm256_setzero_si256();
        for w in 0..W {
            let differing = _mm256_xor_si256(_mm256_set1_epi64x(row[w] as i64), load_words(&block.0[w], from));
            bytes = _mm256_add_epi8(bytes, byte_counts(differing));
        }
        let sums = _mm256_sad_epu8(bytes, _mm256_setzero_si256());
        let beyond = _mm256_cmpgt_epi64(sums, load_limits(&limits.0, from));
        !_mm256_movemask_pd(_mm256_castsi256_pd(beyond)) as u8 & 0x0f
    }

    /// How many bits of each byte are set, by looking up both of its nibbles.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn byte_counts(bits: __m256i) -> __m256i {
        let counts = _mm256_setr_epi8(
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
        );
        let low = _mm256_set1_epi8(0x0f);
        let high_nibbles = _mm256_and_si256(_mm256_srli_epi16::<4>(bits), low);
        let low_nibbles = _mm256_and_si256(bits, low);
        _mm256_add_epi8(_mm256_shuffle_epi8(counts, low_nibbles), _mm256_shuffle_epi8(counts, high_nibbles))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_words(word: &[u64; LANES], from: usize) -> __m256i {
        // SAFETY: slicing checks that the half lies in the block; the load asks for no alignment.
        unsafe { _mm256_loadu_si256(word[from..from + HALF].as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_limits(limits: &[i64; LANES], from: usize) -> __m256i {
        // SAFETY: slicing checks that the half lies in the block; the load asks for no alignment.
        unsafe { _mm256_loadu_si256(limits[from..from + HALF].as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every instruction set that this machine has.
    fn kernels() -> Vec<Kernel> {
        let mut all = vec![Kernel::portable(), Kernel::detect()];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            all.push(Kernel(Instructions::Avx2));
        }
        all
    }

    fn signatures<const W: usize>(n: usize, seed: u64) -> Vec<[u64; W]> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        (0..n).map(|_| std::array::from_fn(|_| next() & next())).collect()
    }

    fn check<const W: usize>(n_rows: usize, n_columns: usize) {
        let rows = signatures::<W>(n_rows, 1);
        let mut columns = signatures::<W>(n_columns, 2);
        if let (Some(r), Some(c)) = (rows.first(), columns.last_mut()) {
            *c = *r;
        }
        let limits = |c: usize| if c % 5 == 4 { -1 } else { (c % 30 * W) as i64 };
        let mut expected = Vec::new();
        for (r, row) in rows.iter().enumerate() {
            for (c, column) in columns.iter().enumerate() {
                let differing: u32 = row.iter().zip(column).map(|(a, b)| (a ^ b).count_ones()).sum();
                if i64::from(differing) <= limits(c) {
                    expected.push((r as u32, c as u32));
                }
            }
        }
        let blocks = blocks(&columns);
        let mut limit_blocks = vec![Limits::NONE; blocks.len()];
        (0..columns.len()).for_each(|c| limit_blocks[c / LANES].0[c % LANES] = limits(c));
        for kernel in kernels() {
            let mut hits = Vec::new();
            kernel.scan(&rows, &blocks, &limit_blocks, &mut hits);
            let mut found: Vec<_> = hits.iter().map(|h| (h.row, h.column)).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{} {W} {n_rows} x {n_columns}", kernel.name());
        }
    }

    #[test]
    fn retaining_is_counting() {
        let signatures = signatures::<4>(40, 3);
        let all: Vec<(usize, usize)> = (0..40).flat_map(|a| (0..40).map(move |b| (a, b))).collect();
        let limit = |(a, b): (usize, usize)| (a * b % 90) as i64 - 1;
        let differing = |(a, b): (usize, usize)| -> i64 {
            signatures[a].iter().zip(&signatures[b]).map(|(x, y)| i64::from((x ^ y).count_ones())).sum()
        };
        let expected: Vec<_> = all.iter().copied().filter(|&p| differing(p) <= limit(p)).collect();
        assert!(!expected.is_empty() && expected.len() < all.len());
        for kernel in kernels() {
            let mut pairs = all.clone();
            kernel.retain(&mut pairs, |p| (&signatures[p.0], &signatures[p.1], limit(p)));
            assert_eq!(pairs, expected, "{}", kernel.name());
        }
    }

    #[test]
    fn every_instruction_set_finds_what_counting_finds() {
        for (rows, columns) in [(0, 5), (5, 0), (1, 1), (3, 8), (4, 9), (9, 70), (17, 64)] {
            check::<1>(rows, columns);
            check::<2>(rows, columns);
            check::<4>(rows, columns);
        }
    }
}
