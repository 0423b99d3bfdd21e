//! Sets of dense token ids from a key column.
//!
//! A build side is cut into ranges of rows, one a thread, each with a dictionary of its own; its reader makes
//! one of them. A probe side reads the build side's dictionary and numbers what it lacks from there on: such a
//! token matches nothing but counts for the size of its set.

use std::ops::Range;

use crate::error::Result;

use super::dictionary::{Dictionary, packed};
use super::elements::{Element, Elements, Lists};
use super::grams::GramIds;
use super::memory::{Ledger, Reserve};
use super::string_column::Strings;
use crate::cache::fetch;
use crate::parallel::{in_parallel, ranges};
use crate::{Cancel, KeyColumn, NO_GROUP, PrepareContext};
use similarity_measures::{Tokenizer, qgrams, trigram, word_tokens};

/// The sets of a range of rows. Within a row ids are distinct and in order of first appearance.
#[derive(Debug)]
pub struct RowSets {
    /// The rows.
    pub rows: Range<usize>,
    /// Where each row's ids end; a row without a set (NULL, blank, no group) has none.
    pub ends: Vec<usize>,
    /// The ids of all rows.
    pub ids: Vec<u32>,
    /// In how many rows each id occurs.
    pub frequencies: Vec<u32>,
    /// The tokens that the range itself has numbered.
    pub dictionary: Dictionary,
}

impl RowSets {
    /// The ids of the `at`-th row of the range.
    #[inline]
    pub fn ids(&self, at: usize) -> &[u32] {
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
pub fn tokenise_build(
    tokenizer: Tokenizer,
    keys: &KeyColumn,
    threads: usize,
    cancel: &Cancel,
    reserve: Reserve<'_>,
) -> Result<Vec<RowSets>> {
    with_keys(tokenizer, keys, reserve, |source| {
        in_parallel(ranges(keys.values.len(), threads, ROWS_WORTH_A_THREAD), |range| {
            Tokens::new(None, tokenizer, range.len(), reserve).tokenise(tokenizer, &source, keys, range, cancel)
        })
    })
}

/// Tokenises a probe batch against the dictionary of the build side.
pub fn tokenise_probe(
    tokenizer: Tokenizer,
    keys: &KeyColumn,
    known: &Dictionary,
    context: &PrepareContext<'_>,
) -> Result<Vec<RowSets>> {
    let unlimited = |_| Ok(());
    let ranges_of_rows = with_keys(tokenizer, keys, &unlimited, |source| {
        in_parallel(ranges(keys.values.len(), context.threads, ROWS_WORTH_A_THREAD), |range| {
            let tokens = Tokens::new(Some(known), tokenizer, range.len(), &unlimited);
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

/// Below this a table of grams costs more than it saves.
const ROWS_WORTH_A_TABLE: usize = 256;

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
    /// Ids of short grams in either.
    grams: Option<GramIds>,
    /// Tokens by id.
    tokens: Vec<Token>,
    ids: Vec<u32>,
    ends: Vec<usize>,
    waiting: Waiting,
    ledger: Ledger<'a>,
}

/// Texts of one row that are looked up in one go, when the memory of all has been asked for.
#[derive(Default)]
struct Waiting {
    texts: Vec<Packed>,
    /// The bytes of those that are not packed into numbers.
    bytes: Vec<u8>,
    /// Ids that have been found.
    found: Vec<u32>,
}

/// Texts that wait at most.
const AT_ONCE: usize = 64;

/// A text, as a number where it is [short](packed), else by its place among the bytes of all.
enum Packed {
    Short(u64),
    Long { start: usize, end: usize },
}

/// What is known of a token.
#[derive(Clone, Copy, Default)]
struct Token {
    /// The row (counted from 1) that had it last.
    last: u32,
    /// Number of rows in which the token occurs.
    frequency: u32,
}

impl<'a> Tokens<'a> {
    fn new(known: Option<&'a Dictionary>, tokenizer: Tokenizer, rows: usize, reserve: Reserve<'a>) -> Self {
        let first = known.map_or(0, Dictionary::len);
        let grams = match tokenizer {
            Tokenizer::QGrams { q, .. } if rows >= ROWS_WORTH_A_TABLE => GramIds::of(q),
            _ => None,
        };
        Self {
            known,
            own: Dictionary::default(),
            grams,
            tokens: vec![Token::default(); first],
            ids: Vec::new(),
            ends: Vec::with_capacity(rows),
            waiting: Waiting::default(),
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
        let Self { ids, ends, tokens, own: dictionary, .. } = self;
        let frequencies = tokens.into_iter().map(|token| token.frequency).collect();
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
                    Tokenizer::Words => word_tokens::word_tokens(text, scratch, |t| self.wait(t.as_bytes(), mark)),
                    Tokenizer::QGrams { q, pad } => self.add_qgrams(text, q, pad, mark, scratch),
                    Tokenizer::Trigrams => trigram::trigrams(text, scratch, |t| self.wait(t.as_bytes(), mark)),
                    Tokenizer::Elements => {}
                }
                self.add_waiting(mark);
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
        let grams = self.grams.as_ref().map_or(0, GramIds::memory);
        let held = grams
            + self.own.memory()
            + self.waiting.bytes.capacity()
            + self.ids.capacity() * size_of::<u32>()
            + self.tokens.capacity() * size_of::<Token>();
        self.ledger.hold(held + self.ends.capacity() * size_of::<usize>() + tokens * size_of::<u32>() + bytes)
    }

    /// Adds a text to a row once others wait with it, in their order.
    #[inline]
    fn wait(&mut self, text: &[u8], mark: u32) {
        let Waiting { texts, bytes, .. } = &mut self.waiting;
        texts.push(match packed(text) {
            Some(number) => {
                self.known.unwrap_or(&self.own).fetch_number(number);
                Packed::Short(number)
            }
            None => {
                let start = bytes.len();
                bytes.extend_from_slice(text);
                Packed::Long { start, end: bytes.len() }
            }
        });
        if texts.len() == AT_ONCE {
            self.add_waiting(mark);
        }
    }

    fn add_waiting(&mut self, mark: u32) {
        let Self { known, own, tokens, ids, waiting: Waiting { texts, bytes, found }, .. } = self;
        for text in texts.drain(..) {
            let id = match text {
                Packed::Short(number) => id_of_number(*known, own, number),
                Packed::Long { start, end } => id_of_text(*known, own, &bytes[start..end]),
            };
            fetch(tokens, id as usize);
            found.push(id);
        }
        found.drain(..).for_each(|id| add(tokens, ids, id, mark));
        bytes.clear();
    }

    #[inline]
    fn add_text(&mut self, text: &[u8], mark: u32) {
        let id = id_of_text(self.known, &mut self.own, text);
        self.add(id, mark);
    }

    fn add_qgrams(&mut self, text: &str, q: usize, pad: Option<char>, mark: u32, scratch: &mut String) {
        // bytes are characters, and there is no gram of fewer
        let is_plain = text.is_ascii() && pad.map_or(text.len() >= q, |pad| pad.is_ascii());
        match self {
            Self { known, own, grams: Some(grams), tokens, ids, .. } if is_plain => {
                let padded = qgrams::padded(text, q, pad, scratch);
                let intern = |gram: &[u8]| id_of_text(*known, own, gram);
                grams.of_text(padded.as_bytes(), intern, |id| add(tokens, ids, id, mark));
            }
            _ => qgrams::qgrams(text, q, pad, scratch, |gram| self.add_text(gram.as_bytes(), mark)),
        }
    }

    #[inline]
    fn add_number(&mut self, number: u64, mark: u32) {
        let id = id_of_number(self.known, &mut self.own, number);
        self.add(id, mark);
    }

    #[inline]
    fn add(&mut self, id: u32, mark: u32) {
        add(&mut self.tokens, &mut self.ids, id, mark);
    }
}

/// Adds `id` to the row that `mark` stands for, unless it is there.
#[inline]
fn add(tokens: &mut Vec<Token>, ids: &mut Vec<u32>, id: u32, mark: u32) {
    let at = id as usize;
    if at >= tokens.len() {
        tokens.push(Token::default());
    }
    let token = &mut tokens[at];
    if token.last != mark {
        token.last = mark;
        token.frequency += 1;
        ids.push(id);
    }
}

/// The id of a text, a new one where neither dictionary has it.
#[inline]
fn id_of_text(known: Option<&Dictionary>, own: &mut Dictionary, text: &[u8]) -> u32 {
    match known.and_then(|known| known.find_text(text)) {
        Some(id) => id,
        None => own.intern_text(text) + first_own(known),
    }
}

/// The id of a number, a new one where neither dictionary has it.
#[inline]
fn id_of_number(known: Option<&Dictionary>, own: &mut Dictionary, number: u64) -> u32 {
    match known.and_then(|known| known.find_number(number)) {
        Some(id) => id,
        None => own.intern_number(number) + first_own(known),
    }
}

/// The first id that is not of the build side.
#[inline]
fn first_own(known: Option<&Dictionary>) -> u32 {
    known.map_or(0, Dictionary::len) as u32
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    /// Strings of more and more different characters, some of them empty, not ASCII or NULL.
    fn strings(rows: u32, salt: u32) -> Vec<Option<String>> {
        let mut state = salt;
        let mut random = move |end: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % end
        };
        let text = |row: u32| {
            let of = 2 + row * 93 / rows;
            let text: String = (0..random(12)).map(|_| char::from((b' ' + random(of) as u8).min(b'~'))).collect();
            match random(40) {
                0 => None,
                1 => Some(text + "é日"),
                _ => Some(text),
            }
        };
        (0..rows).map(text).collect()
    }

    /// Asserts that the ids of each row are those of its different grams, in order, and that these are counted.
    fn check(range: &RowSets, strings: &[Option<String>], (q, pad): (usize, Option<char>), known: Option<&Dictionary>) {
        let mut frequencies = vec![0; range.frequencies.len()];
        for (at, text) in strings.iter().enumerate() {
            let Some(text) = text else {
                assert!(range.ids(at).is_empty());
                continue;
            };
            let mut expected = Vec::new();
            qgrams::qgrams(text, q, pad, &mut String::new(), |gram| {
                let of_known = known.and_then(|known| known.find_text(gram.as_bytes()));
                let own = || range.dictionary.find_text(gram.as_bytes()).map(|id| id + first_own(known));
                let id = of_known.or_else(own).expect("every gram is numbered");
                if !expected.contains(&id) {
                    expected.push(id);
                    frequencies[id as usize] += 1;
                }
            });
            assert_eq!(range.ids(at), expected, "row {at}, {q} {pad:?}");
        }
        assert_eq!(range.frequencies, frequencies, "{q} {pad:?}");
    }

    #[test]
    fn grams_of_all_lengths_are_those_of_the_measure() {
        let key_column = |strings: &[Option<String>]| KeyColumn {
            values: Arc::new(strings.iter().map(Option::as_deref).collect::<StringArray>()),
            groups: None,
        };
        let never = Cancel::default();
        for (q, pad) in (0..6).flat_map(|q| [None, Some('#'), Some('·')].map(|pad| (q, pad))) {
            let tokenizer = Tokenizer::QGrams { q, pad };
            // a table is made for all of them, and for none
            for rows in [ROWS_WORTH_A_TABLE as u32 * 4, 100] {
                let (build, probe) = (strings(rows, 1), strings(rows, 2));
                let ranges = tokenise_build(tokenizer, &key_column(&build), 1, &never, &|_| Ok(())).unwrap();
                check(&ranges[0], &build, (q, pad), None);
                let known = &ranges[0].dictionary;
                let context = PrepareContext { threads: 1, cancel: &never };
                let probed = tokenise_probe(tokenizer, &key_column(&probe), known, &context).unwrap();
                check(&probed[0], &probe, (q, pad), Some(known));
            }
        }
    }
}
