//! Decides an edit or Jaro condition for any pair of rows.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Result;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;

use crate::atoms::AtomRows;
use crate::cache::fetch;
use crate::cpu::compact::{keep, retain_from};
use crate::cpu::prefilter::{self, Lanes, MaxDifferences, Prefilter, Sketch as _};
use crate::parallel::collect_in_parallel;
use crate::stored::{Sink, Source, Store, Stored};
use crate::strings::features::length_of;
use crate::strings::predicate::{EditPredicate, LONGEST_PREFIX};
use crate::views::string_views;
use crate::{ColumnPair, Pairs, RowPair};

/// Below this a thread costs more than it saves.
const ROWS_WORTH_A_THREAD: usize = 1 << 11;

/// The strings of one side, by row.
#[derive(Debug)]
pub struct StringColumn {
    values: StringViewArray,
    /// What most pairs are decided by, on one cache line; made once it pays.
    sketches: OnceLock<Vec<Sketch>>,
    /// Pairs that were decided without them.
    decided: AtomicUsize,
    threads: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sketch {
    /// A bit for each occurrence of a character, several a bit.
    characters: u64,
    /// Length in characters.
    length: u32,
    class: u32,
}

impl Sketch {
    fn of(text: Option<&str>) -> Self {
        let Some(text) = text else { return Self { characters: 0, length: 0, class: prefilter::NOTHING } };
        let length = length_of(text) as u32;
        Self { characters: occurring(text), length, class: prefilter::class(length) }
    }
}

impl prefilter::Sketch for Sketch {
    #[inline(always)]
    fn near(self) -> (u64, u32) {
        (self.characters, self.class)
    }
}

/// The strings are written; sketches are made of them again.
impl Store for StringColumn {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.values.store(sink)
    }
}

impl StringColumn {
    /// Reads the strings of one side, to be read by up to `threads` threads.
    ///
    /// # Errors
    /// Bytes that are no strings.
    pub fn load(source: &mut Source<'_>, threads: usize) -> Result<Self> {
        Ok(Self::of(Stored::load(source)?, threads))
    }

    /// The strings in `keys`, read by up to `threads` threads.
    ///
    /// # Errors
    /// Keys that are no strings.
    pub fn try_new(keys: &ArrayRef, threads: usize) -> Result<Self> {
        Ok(Self::of(string_views(keys)?, threads))
    }

    fn of(values: StringViewArray, threads: usize) -> Self {
        Self { values, sketches: OnceLock::new(), decided: AtomicUsize::new(0), threads }
    }

    /// The strings of some rows, ready, by up to `threads` threads.
    pub fn take(&self, rows: &[u32], threads: usize) -> Result<Self> {
        let values = take(&self.values, &UInt32Array::from(rows.to_vec()), None)?;
        let taken = Self::of(values.as_string_view().clone(), threads);
        taken.make_ready();
        Ok(taken)
    }

    /// What most pairs are decided by, of all rows.
    pub fn make_ready(&self) {
        if self.sketches.get().is_none() {
            // not within the cell, which a part that runs meanwhile may ask
            let sketches =
                collect_in_parallel(self.values.len(), self.threads, ROWS_WORTH_A_THREAD, |row| self.sketch(row));
            let _ = self.sketches.set(sketches);
        }
    }

    fn sketch(&self, row: usize) -> Sketch {
        Sketch::of(self.values.is_valid(row).then(|| self.values.value(row)))
    }

    /// Lengths and signatures of all rows; this thread alone makes them where they are not ready.
    #[inline]
    fn sketches(&self) -> &[Sketch] {
        self.sketches.get_or_init(|| (0..self.values.len()).map(|row| self.sketch(row)).collect())
    }

    /// Sketches of all rows. They are made once the number of pairs that were decided without them reaches that of the
    /// rows; `None` before.
    fn sketches_that_pay(&self, pairs: usize) -> Option<&[Sketch]> {
        if self.sketches.get().is_none() {
            let before = self.decided.fetch_add(pairs, Ordering::Relaxed);
            if before < self.values.len() && before + pairs >= self.values.len() {
                self.make_ready();
            }
        }
        self.sketches.get().map(Vec::as_slice)
    }

    /// Bytes held, or to be held once a pair is decided.
    pub fn memory(&self) -> usize {
        self.values.get_buffer_memory_size() + self.values.len() * size_of::<Sketch>()
    }

    /// Which rows are not NULL.
    pub fn valid(&self) -> BooleanBuffer {
        self.values.nulls().map_or_else(|| BooleanBuffer::new_set(self.values.len()), |nulls| nulls.inner().clone())
    }

    /// The signature and the class of a row.
    #[inline(always)]
    pub fn near(&self, row: u32) -> (u64, u32) {
        self.sketches()[row as usize].near()
    }

    /// Puts what is first asked of `rows` side by side.
    pub fn gather(&self, rows: &[u32], lanes: &mut Lanes) {
        lanes.gather(rows, self.sketches());
    }

    /// The strings by row.
    pub fn values(&self) -> &StringViewArray {
        &self.values
    }

    /// Rows as an engine other than the CPU takes them.
    pub fn rows(&self) -> AtomRows<'_> {
        AtomRows::Strings { values: &self.values }
    }

    /// The mean length in characters.
    pub fn mean_length(&self) -> f64 {
        let known = self.sketches().iter().filter(|sketch| sketch.class != prefilter::NOTHING);
        let (count, sum) = known.fold((0u64, 0u64), |(n, sum), sketch| (n + 1, sum + u64::from(sketch.length)));
        sum as f64 / count.max(1) as f64
    }
}

/// A bit for each character and each time that it occurs: an edit that changes two occurrences changes two bits at
/// most.
fn occurring(text: &str) -> u64 {
    let mut times = [0u8; 64];
    text.chars().fold(0, |bits, c| {
        let character = (u32::from(c).wrapping_mul(0x9E37_79B1) >> 26) as usize;
        let nth = u32::from(times[character]);
        times[character] = times[character].wrapping_add(1);
        bits | 1 << ((character as u32 + STEP * nth) % 64)
    })
}

/// Distance from the bit of an occurrence to that of the next one.
const STEP: u32 = 27;

impl ColumnPair<'_, StringColumn> {
    /// Lengths and signatures of two rows.
    #[inline]
    fn sketches(self, pair: RowPair) -> (Sketch, Sketch) {
        (self.build.sketches()[pair.build as usize], self.probe.sketches()[pair.probe as usize])
    }
}

/// A predicate, and what it allows.
#[derive(Debug)]
pub struct EditDecider {
    predicate: EditPredicate,
    /// Number of character occurrences in which strings may differ, from each pair of lengths. It is computed when it
    /// is first asked for.
    allowance: OnceLock<MaxDifferences>,
}

impl EditDecider {
    /// Decides pairs of rows by `predicate`.
    pub fn new(predicate: EditPredicate) -> Self {
        Self { predicate, allowance: OnceLock::new() }
    }

    /// The places of `selected` whose pair in `block` matches, appended to `passed`. Once `stop` is true some may be
    /// missing.
    pub fn select(
        &self,
        columns: ColumnPair<'_, StringColumn>,
        block: &Pairs,
        selected: &[u16],
        stop: &dyn Fn() -> bool,
        passed: &mut Vec<u16>,
    ) {
        let (first, ColumnPair { build, probe }) = (passed.len(), columns);
        let made = [build, probe].map(|column| column.sketches_that_pay(selected.len()));
        let [Some(build_sketches), Some(probe_sketches)] = made else {
            passed.extend(selected.iter().filter(|&&place| {
                let pair = block.at(place);
                let sketches = (build.sketch(pair.build as usize), probe.sketch(pair.probe as usize));
                let is_open = self.allowance().admits(sketches.0.near(), sketches.1.near());
                is_open && self.verify(columns, pair, sketches, stop)
            }));
            return;
        };
        let filter = Prefilter { allowance: self.allowance(), build: build_sketches, probe: probe_sketches, block };
        keep(selected, passed, &filter);
        let ahead = |place| {
            let pair = block.at(place);
            fetch(build.values.views(), pair.build as usize);
            fetch(probe.values.views(), pair.probe as usize);
        };
        let verify = |place| {
            let pair = block.at(place);
            let sketches = (build_sketches[pair.build as usize], probe_sketches[pair.probe as usize]);
            self.verify(columns, pair, sketches, stop)
        };
        retain_from(passed, first, ahead, verify);
    }

    /// Whether the measure has to be computed for a pair of a build and a probe row.
    pub fn is_open(&self, columns: ColumnPair<'_, StringColumn>, pair: RowPair) -> bool {
        let (build, probe) = columns.sketches(pair);
        self.allowance().admits(build.near(), probe.near()) && self.is_possible(build, probe)
    }

    /// What sizes and signatures may differ in.
    pub fn allowance(&self) -> &MaxDifferences {
        let differing = |build: u32, probe: u32| {
            let slack = self.predicate.slack(build as usize, probe as usize, LONGEST_PREFIX);
            slack.map(|slack| slack.characters)
        };
        self.allowance.get_or_init(|| MaxDifferences::new(differing))
    }

    #[inline]
    fn is_possible(&self, build: Sketch, probe: Sketch) -> bool {
        build.class.max(probe.class) != prefilter::LARGE
            || self.predicate.is_possible(build.length as usize, probe.length as usize, LONGEST_PREFIX)
    }

    #[inline(never)]
    fn verify(
        &self,
        columns: ColumnPair<'_, StringColumn>,
        pair: RowPair,
        (build, probe): (Sketch, Sketch),
        stop: &dyn Fn() -> bool,
    ) -> bool {
        if !self.is_possible(build, probe) {
            return false;
        }
        let longest = build.length.max(probe.length) as usize;
        let build = columns.build.values.value(pair.build as usize);
        let probe = columns.probe.values.value(pair.probe as usize);
        self.predicate.matches(build, probe, longest, stop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;
    use crate::condition::Bounds;
    use similarity_measures::EditMeasure;

    #[test]
    fn agrees_with_the_measure() {
        let words = ["", "a", "ab", "ba", "martha", "marhta", "Straße", "strasse", "dixon", "dicksonx", "aaaaab"];
        let long = ["ab".repeat(40), "ab".repeat(41), "ba".repeat(40)];
        let texts: Vec<Option<&str>> =
            words.into_iter().chain(long.iter().map(String::as_str)).map(Some).chain([None]).collect();
        let column = StringColumn::try_new(&(Arc::new(StringArray::from(texts.clone())) as ArrayRef), 2).unwrap();
        column.make_ready();
        let raised = [[0.25, 0.0], [0.25, 0.7], [0.1, 0.0]].map(|w| EditMeasure::JARO_WINKLER.with(&w).unwrap());
        for &measure in EditMeasure::ALL.iter().chain(&raised) {
            let bounds = if measure.is_distance() { Bounds::at_most(2.0, true) } else { Bounds::at_least(0.8, true) };
            let condition = EditDecider::new(EditPredicate { measure, bounds });
            for (i, left) in texts.iter().enumerate() {
                for (j, right) in texts.iter().enumerate() {
                    let score = left.zip(*right).and_then(|(l, r)| measure.score(l, r));
                    let expected = score.is_some_and(|score| bounds.contains(score));
                    let mut passed = Vec::new();
                    let block = Pairs { build: vec![0, i as u32], probe: vec![0, j as u32] };
                    // whose sketches are made already, and not yet
                    let fresh = StringColumn::of(column.values.clone(), 1);
                    for column in [&column, &fresh] {
                        let columns = ColumnPair { build: column, probe: column };
                        condition.select(columns, &block, &[1], &|| false, &mut passed);
                        assert_eq!(!passed.is_empty(), expected, "{measure:?} {left:?} {right:?}");
                        passed.clear();
                    }
                    assert!(column.sketches.get().is_some() && fresh.sketches.get().is_none());
                }
            }
        }
    }
}
