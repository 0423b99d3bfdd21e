//! From a key column to sets of dense token ids.
//!
//! A build side is cut into ranges of rows, one a thread, each with a dictionary of its own; its reader makes
//! one of them. A probe side reads the build side's dictionary and numbers what it lacks from there on: such a
//! token matches nothing but counts for the size of its set.

use std::ops::Range;

use datafusion::common::Result;

use super::dictionary::Dictionary;
use super::elements::{Element, Elements, Lists};
use super::memory::{Ledger, Reserve};
use super::strings::Strings;
use crate::engine::parallel::{in_parallel, ranges};
use crate::engine::{Cancel, KeyColumn, NO_GROUP, PrepareContext};
use crate::measure::{Tokenizer, qgrams, trigram, word_tokens};

/// The sets of a range of rows. Within a row ids are distinct and in order of first appearance.
#[derive(Debug)]
pub(in crate::engine) struct RowSets {
    /// The rows.
    pub(in crate::engine) rows: Range<usize>,
    /// Where each row's ids end; a row without a set (NULL, blank, no group) has none.
    pub(in crate::engine) ends: Vec<usize>,
    /// The ids of all rows.
    pub(in crate::engine) ids: Vec<u32>,
    /// In how many rows each id occurs.
    pub(in crate::engine) frequencies: Vec<u32>,
    /// The tokens that the range itself has numbered.
    pub(in crate::engine) dictionary: Dictionary,
}

impl RowSets {
    /// The ids of the `at`-th row of the range.
    #[inline]
    pub(in crate::engine) fn ids(&self, at: usize) -> &[u32] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.ids[start..self.ends[at]]
    }
}

/// A key column, ready to be tokenised by several threads.
enum Keys<'a> {
    Strings(Strings<'a>),
    Lists(&'a Lists, Elements<'a>),
}

/// Tokenises a build side with up to `threads` threads.
pub(in crate::engine) fn tokenise_build(
    tokenizer: Tokenizer,
    keys: &KeyColumn,
    threads: usize,
    cancel: &Cancel,
    reserve: Reserve<'_>,
) -> Result<Vec<RowSets>> {
    with_keys(tokenizer, keys, reserve, |source| {
        in_parallel(ranges(keys.values.len(), threads, ROWS_WORTH_A_THREAD), |range| {
            Tokens::new(None, range.len(), reserve).tokenise(tokenizer, &source, keys, range, cancel)
        })
    })
}

/// Tokenises a probe batch against the dictionary of the build side.
pub(in crate::engine) fn tokenise_probe(
    tokenizer: Tokenizer,
    keys: &KeyColumn,
    known: &Dictionary,
    context: &PrepareContext<'_>,
) -> Result<Vec<RowSets>> {
    let unlimited = |_| Ok(());
    let ranges_of_rows = with_keys(tokenizer, keys, &unlimited, |source| {
        in_parallel(ranges(keys.values.len(), context.threads, ROWS_WORTH_A_THREAD), |range| {
            let tokens = Tokens::new(Some(known), range.len(), &unlimited);
            tokens.tokenise(tokenizer, &source, keys, range, context.cancel)
        })
    })?;
    // once it is cancelled some rows have no sets
    context.cancel.check()?;
    Ok(ranges_of_rows)
}

/// What a dictionary may hold of the grams of `text`: long grams overlap in the text, but not in the dictionary.
fn arena(tokenizer: Tokenizer, text: &str) -> usize {
    match tokenizer {
        Tokenizer::QGrams { q, .. } if q > 8 => text.len().saturating_mul(q),
        _ => 0,
    }
}

/// Below this a thread costs more than it saves.
const ROWS_WORTH_A_THREAD: usize = 512;

fn with_keys<T>(
    tokenizer: Tokenizer,
    keys: &KeyColumn,
    reserve: Reserve<'_>,
    work: impl FnOnce(Keys<'_>) -> Result<T>,
) -> Result<T> {
    match tokenizer {
        Tokenizer::Elements => {
            let lists = Lists::try_new(&keys.values)?;
            reserve(lists.elements_memory())?;
            work(Keys::Lists(&lists, lists.elements()?))
        }
        _ => work(Keys::Strings(Strings::try_new(&keys.values)?)),
    }
}

/// The sets of a range of rows while they are made.
struct Tokens<'a> {
    known: Option<&'a Dictionary>,
    own: Dictionary,
    /// For each id, the row (counted from 1) that had it last.
    seen: Vec<u32>,
    frequencies: Vec<u32>,
    ids: Vec<u32>,
    ends: Vec<usize>,
    ledger: Ledger<'a>,
}

impl<'a> Tokens<'a> {
    fn new(known: Option<&'a Dictionary>, rows: usize, reserve: Reserve<'a>) -> Self {
        let first = known.map_or(0, Dictionary::len);
        Self {
            known,
            own: Dictionary::default(),
            seen: vec![0; first],
            frequencies: vec![0; first],
            ids: Vec::new(),
            ends: Vec::with_capacity(rows),
            ledger: Ledger::new(reserve),
        }
    }

    fn tokenise(
        mut self,
        tokenizer: Tokenizer,
        source: &Keys<'_>,
        keys: &KeyColumn,
        rows: Range<usize>,
        cancel: &Cancel,
    ) -> Result<RowSets> {
        let mut scratch = String::new();
        for row in rows.clone() {
            if cancel.is_cancelled() {
                break;
            }
            if keys.groups.as_ref().is_none_or(|g| g[row] != NO_GROUP) {
                self.add_row(tokenizer, source, row, (row - rows.start) as u32 + 1, &mut scratch)?;
            }
            self.ends.push(self.ids.len());
        }
        self.ends.resize(rows.len(), self.ids.len());
        let Self { ids, ends, frequencies, own: dictionary, .. } = self;
        Ok(RowSets { rows, ends, ids, frequencies, dictionary })
    }

    fn add_row(
        &mut self,
        tokenizer: Tokenizer,
        source: &Keys<'_>,
        row: usize,
        mark: u32,
        scratch: &mut String,
    ) -> Result<()> {
        match source {
            Keys::Strings(strings) => {
                let Some(text) = strings.get(row) else { return Ok(()) };
                self.expect(text.len(), arena(tokenizer, text))?;
                match tokenizer {
                    Tokenizer::Words => word_tokens::word_tokens(text, scratch, |t| self.add_text(t.as_bytes(), mark)),
                    Tokenizer::QGrams { q, pad } => {
                        qgrams::qgrams(text, q, pad, scratch, |t| self.add_text(t.as_bytes(), mark));
                    }
                    Tokenizer::Trigrams => trigram::trigrams(text, scratch, |t| self.add_text(t.as_bytes(), mark)),
                    Tokenizer::Elements => {}
                }
            }
            Keys::Lists(lists, elements) => {
                let Some(range) = lists.get(row) else { return Ok(()) };
                self.expect(range.len(), 0)?;
                for at in range {
                    match elements.get(at) {
                        Some(Element::Number(number)) => self.add_number(number, mark),
                        Some(Element::Text(text)) => self.add_text(text, mark),
                        None => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Reserves what is held and what a row of up to `tokens` tokens adds, the text of which takes up to `bytes`.
    fn expect(&mut self, tokens: usize, bytes: usize) -> Result<()> {
        let per_id = 2 * size_of::<u32>();
        let held = self.own.memory() + self.ids.capacity() * size_of::<u32>() + self.seen.capacity() * per_id;
        self.ledger.hold(held + self.ends.capacity() * size_of::<usize>() + tokens * size_of::<u32>() + bytes)
    }

    #[inline]
    fn add_text(&mut self, text: &[u8], mark: u32) {
        let id = match self.known.and_then(|k| k.find_text(text)) {
            Some(id) => id,
            None => self.own.intern_text(text) + self.first_own(),
        };
        self.add(id, mark);
    }

    #[inline]
    fn add_number(&mut self, number: u64, mark: u32) {
        let id = match self.known.and_then(|k| k.find_number(number)) {
            Some(id) => id,
            None => self.own.intern_number(number) + self.first_own(),
        };
        self.add(id, mark);
    }

    #[inline]
    fn first_own(&self) -> u32 {
        self.known.map_or(0, Dictionary::len) as u32
    }

    /// Adds `id` to the row that `mark` stands for, unless it is there.
    #[inline]
    fn add(&mut self, id: u32, mark: u32) {
        let at = id as usize;
        if at >= self.seen.len() {
            self.seen.push(0);
            self.frequencies.push(0);
        }
        if self.seen[at] != mark {
            self.seen[at] = mark;
            self.frequencies[at] += 1;
            self.ids.push(id);
        }
    }
}
