//! Which access path: an estimate of each from the collected keys.
//!
//! The probe side is taken to resemble the build side, which in a self-join it is. Evenly spaced rows stand for all of
//! them: for each, the postings that its prefix would meet and the pairs that its sizes allow are counted, and some
//! of these pairs are tested by their signatures. Times are fixed constants, measured on a server core of 2022, so
//! that the same data always takes the same path on the same instruction set.

use std::fmt;
use std::ops::Range;

use super::bits;
use super::join::{AccessPath, Sides};
use super::prefix::{indexed, prefix};
use super::requirements::{Reach, Requirements};
use crate::cpu::signature::Kernel;
use crate::sets::predicate::Sizes;

/// Nanoseconds of one core that each path is expected to take, building included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    prefix: f64,
    tiles: f64,
    /// What bands of hashes take, where pairs may be missed.
    bands: Option<f64>,
}

impl Estimate {
    pub(super) fn cheapest(self) -> AccessPath {
        if self.bands.is_some_and(|bands| bands < self.prefix.min(self.tiles)) {
            return AccessPath::Bands;
        }
        if self.tiles < self.prefix { AccessPath::Tiles } else { AccessPath::Prefix }
    }

    /// The estimate where bands of hashes would take so many nanoseconds.
    pub(super) fn with_bands(self, nanoseconds: f64) -> Self {
        Self { bands: Some(nanoseconds), ..self }
    }
}

/// A posting that is met among 100,000 sets: looks at memory, and its share of signatures and merges.
const POSTING: f64 = 10.0;
/// What a posting takes more for each doubling of the sets, as they outgrow the caches.
const DOUBLING: f64 = 4.2;
/// What a posting takes at least.
const NEAR_POSTING: f64 = 4.0;
/// A posting that is written.
const WRITE: f64 = 12.0;
/// A list of which the range that sizes allow is searched.
const LIST: f64 = 25.0;
/// A row of the tiles, whatever it meets.
const ROW: f64 = 150.0;
/// A pair whose whole signatures are compared.
const PAIR: f64 = 22.0;
/// What each word of these signatures beyond the first eight takes more.
const WORD: f64 = 0.5;
/// A pair that is merged.
const MERGE: f64 = 30.0;
/// Each token of a pair that is merged.
const TOKEN: f64 = 2.0;

/// Rows that stand for all.
const ROWS: usize = 1024;
/// Pairs of each of them that are tested by their signatures.
const PAIRS: usize = 128;

/// Estimates both paths for a probe side of `probe_rows` rows that resembles the build side.
///
/// `sides` must have the build side on both.
pub(super) fn estimate(sides: &Sides<'_>, tokens: usize, probe_rows: usize) -> Estimate {
    let n = sides.build.len();
    let mut requirements = Requirements::new(sides.predicate, sides.build.largest());
    let lists = list_lengths(sides, tokens, &mut requirements);
    let (mut prefix, mut tiles) = (0.0, 0.0);
    let sample = (0..n).step_by(1 + n / ROWS);
    let scale = probe_rows as f64 / sample.len().max(1) as f64;
    for row in sample {
        let reach = requirements.reach_of_probe(sides.build.sizes[row]);
        let partners = sides.partners(row, reach);
        let survivors = surviving(sides, row, partners.clone(), &mut requirements);
        let merging = survivors.merged * (MERGE + TOKEN * f64::from(sides.build.known(row)));
        prefix += scale * (merging + by_prefix(sides, row, reach, partners.len(), &lists));
        tiles += scale * (merging + by_tiles(sides, partners.len(), survivors));
    }
    let postings: f64 = lists.iter().map(|&l| f64::from(l)).sum();
    Estimate { prefix: prefix + postings * WRITE, tiles, bands: None }
}

/// What one row with so many partners takes by the prefix index, merging aside.
fn by_prefix(sides: &Sides<'_>, row: usize, reach: Reach, partners: usize, lists: &[u32]) -> f64 {
    let n = sides.build.len() as f64;
    let tokens = &sides.build.tokens(row)[..prefix(sides.build.known(row), reach.least)];
    let listed: f64 = tokens.iter().map(|&t| f64::from(lists[t as usize])).sum();
    let met = listed * partners as f64 / n;
    let posting = (POSTING + DOUBLING * (n / 1e5).log2()).max(NEAR_POSTING);
    tokens.len() as f64 * LIST + met * posting + met.min(partners as f64) * words_cost(sides.build.words)
}

/// What one row with so many partners takes by the tiles, merging aside.
fn by_tiles(sides: &Sides<'_>, partners: usize, survivors: Survivors) -> f64 {
    let words = sides.build.words;
    ROW + partners as f64 * nanoseconds_per_pair(words) + survivors.hit * (PAIR + words_cost(words))
}

/// What comparing signatures takes beyond what is in the other constants.
fn words_cost(words: usize) -> f64 {
    WORD * words.saturating_sub(8) as f64
}

/// How long each token's list would be.
fn list_lengths(sides: &Sides<'_>, tokens: usize, requirements: &mut Requirements) -> Vec<u32> {
    let mut lists = vec![0; tokens];
    for p in 0..sides.build.len() {
        let n = indexed(sides.build, p, sides.self_join, requirements);
        sides.build.tokens(p)[..n].iter().for_each(|&t| lists[t as usize] += 1);
    }
    lists
}

/// How many of a row's partners by size the signatures leave.
#[derive(Clone, Copy)]
struct Survivors {
    /// Partners left by folded signatures.
    hit: f64,
    /// Partners left by whole signatures.
    merged: f64,
}

fn surviving(sides: &Sides<'_>, row: usize, partners: Range<usize>, requirements: &mut Requirements) -> Survivors {
    let sets = sides.build;
    let folded = |position| bits::fold(sets.signature(position)).collect::<Vec<_>>();
    let row_folded = folded(row);
    let (mut all, mut hit, mut merged) = (0usize, 0usize, 0usize);
    for column in partners.clone().step_by(1 + partners.len() / PAIRS).filter(|&c| c != row) {
        all += 1;
        let sizes = Sizes { build: sets.sizes[column], probe: sets.sizes[row] };
        let Some(least) = requirements.min_overlap(sizes) else { continue };
        let limit = bits::limit(sets.folded_weight(row), sets.folded_weight(column), least);
        if bits::differing(&row_folded, &folded(column)) <= limit {
            let (row, column, limit) = sides.signatures(row, column, least);
            hit += 1;
            merged += usize::from(bits::differing(row, column) <= limit);
        }
    }
    let scale = partners.len() as f64 / all.max(1) as f64;
    Survivors { hit: hit as f64 * scale, merged: merged as f64 * scale }
}

fn nanoseconds_per_pair(words: usize) -> f64 {
    let kernel = Kernel::detect();
    match bits::folded_words(words) {
        1 => kernel.nanoseconds_per_pair::<1>(),
        2 => kernel.nanoseconds_per_pair::<2>(),
        _ => kernel.nanoseconds_per_pair::<4>(),
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "estimated {:.3} core-seconds by prefix index, {:.3} by tiles", self.prefix / 1e9, self.tiles / 1e9)?;
        self.bands.map_or(Ok(()), |bands| write!(f, ", {:.3} by hash bands", bands / 1e9))
    }
}
