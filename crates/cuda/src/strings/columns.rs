//! The strings of one side as codes of an alphabet, packed row by row for one upload.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use cudarc::driver::CudaStream;
use similarity_engine::error::Result;

use super::alphabet::{Alphabet, ROWS_WORTH_A_THREAD};
use crate::fault::Fault;
use crate::kernels::{StringRows, SymbolBuffer};
use crate::memory::Budget;
use similarity_engine::NO_GROUP;
use similarity_engine::parallel::{each_in_parallel, in_parallel, joined_in_parallel, ranges};

/// Strings that may match something, in the order of their rows.
#[derive(Debug, Default)]
pub(crate) struct StringColumns {
    /// Row numbers.
    pub(super) rows: Vec<u32>,
    /// Groups of the rows; empty where there are no equality keys.
    pub(super) groups: Vec<u32>,
    /// Where the symbols of each row start; one more than rows.
    pub(super) starts: Vec<u64>,
    symbols: PackedSymbols,
    /// Rows whose strings are too long; they are in no column.
    pub(super) long: Vec<u32>,
    /// Characters of the longest of the others.
    pub(super) longest: usize,
    /// Rows that are NULL or have no group.
    pub(super) unmatchable: usize,
}

/// How strings are packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct StringPacking<'a> {
    pub(super) alphabet: &'a Alphabet,
    /// Strings of more characters are too long.
    pub(super) most: usize,
}

/// Codes of the characters of many strings, in parts of one alphabet that follow each other.
#[derive(Debug, Default)]
struct PackedSymbols(Vec<Symbols>);

impl PackedSymbols {
    /// A copy on the device.
    fn upload(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<SymbolBuffer, Fault> {
        let length = self.0.iter().map(Symbols::len).sum();
        let small: Option<Vec<&[u8]>> = self.0.iter().map(Symbols::small).collect();
        Ok(match small {
            Some(parts) => SymbolBuffer::Small(budget.upload_parts(stream, length, parts)?),
            None => {
                SymbolBuffer::Large(budget.upload_parts(stream, length, self.0.iter().filter_map(Symbols::large))?)
            }
        })
    }
}

/// Codes of characters.
#[derive(Debug)]
enum Symbols {
    Small(Vec<u8>),
    Large(Vec<u32>),
}

impl Symbols {
    fn for_alphabet(alphabet: &Alphabet, capacity: usize) -> Self {
        match alphabet.is_small() {
            true => Self::Small(Vec::with_capacity(capacity)),
            false => Self::Large(Vec::with_capacity(capacity)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Small(symbols) => symbols.len(),
            Self::Large(symbols) => symbols.len(),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::Small(symbols) => symbols.truncate(len),
            Self::Large(symbols) => symbols.truncate(len),
        }
    }

    /// Appends the codes of a string's characters.
    fn push_text(&mut self, text: &str, alphabet: &Alphabet) {
        match self {
            Self::Small(symbols) if text.is_ascii() => {
                symbols.extend(text.bytes().map(|byte| alphabet.code(byte.into()) as u8));
            }
            Self::Small(symbols) => symbols.extend(text.chars().map(|character| alphabet.code(character) as u8)),
            Self::Large(symbols) => symbols.extend(text.chars().map(|character| alphabet.code(character))),
        }
    }

    fn small(&self) -> Option<&[u8]> {
        match self {
            Self::Small(symbols) => Some(symbols),
            Self::Large(_) => None,
        }
    }

    fn large(&self) -> Option<&[u32]> {
        match self {
            Self::Small(_) => None,
            Self::Large(symbols) => Some(symbols),
        }
    }
}

impl StringColumns {
    /// The strings of a side, by up to `threads` threads.
    pub(super) fn pack(
        values: &StringViewArray,
        groups: Option<&[u32]>,
        packing: StringPacking<'_>,
        threads: usize,
    ) -> Result<Self> {
        let parts = in_parallel(ranges(values.len(), threads, ROWS_WORTH_A_THREAD), |rows| {
            Ok(part(values, groups, packing, rows))
        })?;
        let (mut whole, mut symbols) = (Self::default(), 0);
        let (mut starts, mut rows, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for (part, packed) in parts {
            starts.push((symbols, part.starts));
            symbols += packed.len() as u64;
            whole.symbols.0.push(packed);
            rows.push(part.rows);
            groups.push(part.groups);
            whole.long.extend(part.long);
            whole.longest = whole.longest.max(part.longest);
            whole.unmatchable += part.unmatchable;
        }
        starts.extend([(symbols, vec![0])]);
        let starts = each_in_parallel(starts.into_iter(), |(before, mut starts)| {
            starts.iter_mut().for_each(|start| *start += before);
            starts
        });
        whole.starts = joined_in_parallel(starts);
        whole.rows = joined_in_parallel(rows);
        whole.groups = joined_in_parallel(groups);
        Ok(whole)
    }

    /// How many symbols all rows have.
    pub(super) fn symbols(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// A copy on the device.
    pub(super) fn upload(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<StringRows, Fault> {
        let groups = (!self.groups.is_empty()).then(|| budget.upload(stream, &self.groups)).transpose()?;
        Ok(StringRows {
            starts: budget.upload(stream, &self.starts)?,
            symbols: self.symbols.upload(budget, stream)?,
            groups,
            rows: budget.upload(stream, &self.rows)?,
            count: self.rows.len() as u32,
        })
    }
}

/// The strings of a range of rows, the start of each but not the last one's end, and their symbols.
fn part(
    values: &StringViewArray,
    groups: Option<&[u32]>,
    StringPacking { alphabet, most }: StringPacking<'_>,
    rows: Range<usize>,
) -> (StringColumns, Symbols) {
    let bytes = values.lengths().skip(rows.start).take(rows.len()).map(|length| length as usize).sum();
    let (mut part, mut symbols) = (StringColumns::default(), Symbols::for_alphabet(alphabet, bytes));
    part.rows.reserve(rows.len());
    part.starts.reserve(rows.len());
    part.groups.reserve(groups.map_or(0, |_| rows.len()));
    for row in rows {
        let group = groups.map(|groups| groups[row]);
        if values.is_null(row) || group == Some(NO_GROUP) {
            part.unmatchable += 1;
            continue;
        }
        let start = symbols.len();
        symbols.push_text(values.value(row), alphabet);
        let length = symbols.len() - start;
        if length > most {
            symbols.truncate(start);
            part.long.push(row as u32);
            continue;
        }
        part.longest = part.longest.max(length);
        part.rows.push(row as u32);
        part.groups.extend(group);
        part.starts.push(start as u64);
    }
    (part, symbols)
}
