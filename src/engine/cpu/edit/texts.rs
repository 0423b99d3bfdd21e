//! Strings in columns: sorted by group, class and length, in one buffer.

use std::ops::Range;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::features::{Features, Signature, class_of};
use super::predicate::EditPredicate;
use crate::engine::{Cancel, KeyColumn, NO_GROUP};

/// The strings of one side, one a position; a row that can match nothing has none.
#[derive(Debug)]
pub(super) struct Texts {
    /// The row number.
    pub(super) rows: Vec<u32>,
    /// Group and class.
    pub(super) families: Vec<Family>,
    /// Length in characters.
    pub(super) lengths: Vec<u32>,
    pub(super) characters: Vec<Signature>,
    pub(super) bigrams: Vec<Signature>,
    starts: Vec<usize>,
    bytes: String,
    /// Rows that are NULL or have no group.
    pub(super) unmatchable: usize,
}

/// The group of the equality keys, and the class of the first character where it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Family {
    pub(super) group: u32,
    pub(super) class: u32,
}

/// What the signatures of one position are computed from, by one thread.
type Signed = (Vec<Signature>, Vec<Signature>);

impl Texts {
    pub(super) fn try_new(
        predicate: &EditPredicate,
        keys: &KeyColumn,
        threads: usize,
        cancel: &Cancel,
        reserve: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<Self> {
        // views share the buffers of the strings that they are made of
        let values = cast(&keys.values, &DataType::Utf8View)?;
        let values = values.as_string_view();
        let group = |row: usize| keys.groups.as_ref().map_or(0, |groups| groups[row]);
        reserve(values.len() * size_of::<(Family, u32, u32)>())?;
        let mut places: Vec<(Family, u32, u32)> = Vec::with_capacity(values.len());
        let mut bytes = 0;
        for row in (0..values.len()).filter(|&row| values.is_valid(row) && group(row) != NO_GROUP) {
            let text = values.value(row);
            let class = if predicate.wants_classes() { class_of(text) } else { 0 };
            let length = if text.is_ascii() { text.len() } else { text.chars().count() };
            places.push((Family { group: group(row), class }, length as u32, row as u32));
            bytes += text.len();
        }
        places.sort_unstable();
        reserve(bytes + places.len() * (size_of::<Family>() + 16 + 2 * size_of::<Signature>()))?;
        let mut texts = Self {
            rows: places.iter().map(|p| p.2).collect(),
            families: places.iter().map(|p| p.0).collect(),
            lengths: places.iter().map(|p| p.1).collect(),
            characters: Vec::with_capacity(places.len()),
            bigrams: Vec::new(),
            starts: Vec::with_capacity(places.len() + 1),
            bytes: String::with_capacity(bytes),
            unmatchable: values.len() - places.len(),
        };
        texts.starts.push(0);
        for &(_, _, row) in &places {
            texts.bytes.push_str(values.value(row as usize));
            texts.starts.push(texts.bytes.len());
        }
        texts.sign(threads, cancel);
        Ok(texts)
    }

    /// Computes the signatures, a range of positions a thread.
    fn sign(&mut self, threads: usize, cancel: &Cancel) {
        let len = self.len();
        let chunk = len.div_ceil(threads.max(1)).max(1024);
        let texts = &*self;
        let parts: Vec<Signed> = std::thread::scope(|scope| {
            let ranges = (0..len).step_by(chunk).map(|start| start..len.min(start + chunk));
            let running: Vec<_> = ranges.map(|range| scope.spawn(move || texts.signed(range, cancel))).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
        });
        for (characters, bigrams) in parts {
            self.characters.extend(characters);
            self.bigrams.extend(bigrams);
        }
    }

    fn signed(&self, range: Range<usize>, cancel: &Cancel) -> Signed {
        let mut features = Features::new();
        let mut signed = (Vec::with_capacity(range.len()), Vec::with_capacity(range.len()));
        for position in range {
            if cancel.is_cancelled() {
                // of the right length, never looked at
                signed.0.push(Signature::default());
                signed.1.push(Signature::default());
                continue;
            }
            signed.0.push(features.characters(self.text(position)));
            signed.1.push(features.bigrams(self.text(position)));
        }
        signed
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(super) fn text(&self, position: usize) -> &str {
        &self.bytes[self.starts[position]..self.starts[position + 1]]
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.rows.len() * (size_of::<Family>() + 16)
            + (self.characters.len() + self.bigrams.len()) * size_of::<Signature>()
    }
}

/// The positions of each family, in order.
#[derive(Debug)]
pub(super) struct Families {
    /// First position of each family, and one past the last.
    ranges: Vec<(Family, Range<usize>)>,
}

impl Families {
    pub(super) fn of(texts: &Texts) -> Self {
        let mut ranges = Vec::new();
        let mut start = 0;
        for alike in texts.families.chunk_by(|a, b| a == b) {
            ranges.push((alike[0], start..start + alike.len()));
            start += alike.len();
        }
        Self { ranges }
    }

    /// The families of a group.
    pub(super) fn of_group(&self, group: u32) -> &[(Family, Range<usize>)] {
        let start = self.ranges.partition_point(|(family, _)| family.group < group);
        let end = start + self.ranges[start..].partition_point(|(family, _)| family.group == group);
        &self.ranges[start..end]
    }

    pub(super) fn memory(&self) -> usize {
        self.ranges.len() * size_of::<(Family, Range<usize>)>()
    }
}
