//! The strings of one side as codes of an alphabet, packed row by row for one upload.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use datafusion::arrow::array::{Array, StringViewArray};
use datafusion::common::Result;

use super::alphabet::Alphabet;
use crate::engine::NO_GROUP;
use crate::engine::cuda::fault::Fault;
use crate::engine::cuda::kernels::{SymbolBuffer, TextRows};
use crate::engine::cuda::memory::Budget;
use crate::engine::parallel::{in_parallel, ranges};

/// Characters of the longest string that kernels compare, as `LONGEST_TEXT` and `LONGEST_MATCHED` in `kernels/measure` say.
pub(super) const LONGEST: usize = 1024;

/// Strings that may match something, in the order of their rows.
#[derive(Debug, Default)]
pub(super) struct TextColumns {
    /// Row numbers.
    pub(super) rows: Vec<u32>,
    /// Empty where there are no equality keys.
    pub(super) groups: Vec<u32>,
    /// Where the symbols of each row start; one more than rows.
    pub(super) starts: Vec<u64>,
    pub(super) symbols: Symbols,
    /// Rows whose strings are longer than [`LONGEST`]; they are in no column.
    pub(super) long: Vec<u32>,
    /// Rows that are NULL or have no group.
    pub(super) unmatchable: usize,
}

/// Codes of characters.
#[derive(Debug)]
pub(in crate::engine::cuda) enum Symbols {
    Small(Vec<u8>),
    Large(Vec<u32>),
}

impl Default for Symbols {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
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

    /// Appends symbols of the same alphabet.
    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Small(symbols), Self::Small(other)) => symbols.extend(other),
            (Self::Large(symbols), Self::Large(other)) => symbols.extend(other),
            _ => unreachable!("one alphabet has codes of one size"),
        }
    }
}

impl TextColumns {
    /// The strings of a side, by up to `threads` threads.
    pub(super) fn pack(
        values: &StringViewArray,
        groups: Option<&[u32]>,
        alphabet: &Alphabet,
        threads: usize,
    ) -> Result<Self> {
        let parts = in_parallel(ranges(values.len(), threads, ROWS_WORTH_A_THREAD), |rows| {
            Ok(part(values, groups, alphabet, rows))
        })?;
        let mut parts = parts.into_iter();
        let mut whole = parts.next().unwrap_or_default();
        for part in parts {
            let before = whole.symbols.len() as u64;
            whole.starts.pop();
            whole.starts.extend(part.starts.iter().map(|start| before + start));
            whole.rows.extend(part.rows);
            whole.groups.extend(part.groups);
            whole.symbols.append(part.symbols);
            whole.long.extend(part.long);
            whole.unmatchable += part.unmatchable;
        }
        Ok(whole)
    }

    /// A copy on the device.
    pub(super) fn upload(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<TextRows, Fault> {
        let groups = (!self.groups.is_empty()).then(|| budget.upload(stream, &self.groups)).transpose()?;
        Ok(TextRows {
            starts: budget.upload(stream, &self.starts)?,
            symbols: match &self.symbols {
                Symbols::Small(symbols) => SymbolBuffer::Small(budget.upload(stream, symbols)?),
                Symbols::Large(symbols) => SymbolBuffer::Large(budget.upload(stream, symbols)?),
            },
            groups,
            rows: budget.upload(stream, &self.rows)?,
            count: self.rows.len() as u32,
        })
    }
}

/// All strings of a side, by row: where the symbols of each start, and the symbols; those of a NULL are none. `None` where one
/// is longer than [`LONGEST`].
pub(in crate::engine::cuda) fn pack_rows(
    values: &StringViewArray,
    alphabet: &Alphabet,
    threads: usize,
) -> Result<Option<(Vec<u64>, Symbols)>> {
    let parts = in_parallel(ranges(values.len(), threads, ROWS_WORTH_A_THREAD), |rows| {
        let bytes = values.lengths().skip(rows.start).take(rows.len()).map(|length| length as usize).sum();
        let (mut starts, mut symbols) = (Vec::with_capacity(rows.len()), Symbols::for_alphabet(alphabet, bytes));
        let mut longest = 0;
        for row in rows {
            starts.push(symbols.len() as u64);
            if values.is_valid(row) {
                symbols.push_text(values.value(row), alphabet);
            }
            longest = longest.max(symbols.len() as u64 - starts[starts.len() - 1]);
        }
        Ok((starts, symbols, longest))
    })?;
    let (mut starts, mut symbols) = (Vec::with_capacity(values.len() + 1), Symbols::for_alphabet(alphabet, 0));
    for (part, own, longest) in parts {
        if longest > LONGEST as u64 {
            return Ok(None);
        }
        let before = symbols.len() as u64;
        starts.extend(part.iter().map(|start| before + start));
        symbols.append(own);
    }
    starts.push(symbols.len() as u64);
    Ok(Some((starts, symbols)))
}

/// Below this a thread costs more than it saves.
pub(super) const ROWS_WORTH_A_THREAD: usize = 4096;

fn part(values: &StringViewArray, groups: Option<&[u32]>, alphabet: &Alphabet, rows: Range<usize>) -> TextColumns {
    let bytes = values.lengths().skip(rows.start).take(rows.len()).map(|length| length as usize).sum();
    let mut part =
        TextColumns { starts: vec![0], symbols: Symbols::for_alphabet(alphabet, bytes), ..TextColumns::default() };
    for row in rows {
        let group = groups.map(|groups| groups[row]);
        if values.is_null(row) || group == Some(NO_GROUP) {
            part.unmatchable += 1;
            continue;
        }
        let start = part.symbols.len();
        part.symbols.push_text(values.value(row), alphabet);
        if part.symbols.len() - start > LONGEST {
            part.symbols.truncate(start);
            part.long.push(row as u32);
            continue;
        }
        part.rows.push(row as u32);
        part.groups.extend(group);
        part.starts.push(part.symbols.len() as u64);
    }
    part
}
