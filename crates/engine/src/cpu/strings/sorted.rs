//! Strings in columns: sorted by group, length and class, in one buffer.

use std::ops::Range;

use crate::error::Result;
use arrow::array::{Array, StringViewArray};

use crate::parallel::each_in_parallel;
use crate::stored::stored;
use crate::strings::features::{Feature, Histogram, Signature, Signer, Slots, class_of, length_of};
use crate::strings::predicate::EditPredicate;
use crate::views::string_views;
use crate::{Cancel, KeyColumn, NO_GROUP};

/// The strings of one side, one a position; a row that can match nothing has none.
#[derive(Debug)]
pub(super) struct SortedStrings {
    /// The row number.
    pub(super) rows: Vec<u32>,
    /// The group of the equality keys.
    pub(super) groups: Vec<u32>,
    /// Length in characters.
    pub(super) lengths: Vec<u32>,
    /// The class of the first character, 0 where it does not matter.
    pub(super) classes: Vec<u8>,
    pub(super) characters: Vec<Signature>,
    pub(super) bigrams: Vec<Signature>,
    /// Histograms of long strings, otherwise empty.
    histograms: Vec<u8>,
    histogram_size: usize,
    starts: Vec<usize>,
    bytes: String,
    /// Rows that are NULL or have no group.
    pub(super) unmatchable: usize,
}

stored!(SortedStrings {
    rows,
    groups,
    lengths,
    classes,
    characters,
    bigrams,
    histograms,
    histogram_size,
    starts,
    bytes,
    unmatchable
});

/// The group of a row, its length in characters, its class, its number.
type Place = (u32, u32, u8, u32);

/// How signatures are made; learnt from the build side, used on both.
#[derive(Debug)]
pub(super) struct Signers {
    characters: Signer,
    bigrams: Signer,
    histogram: Option<Histogram>,
}

stored!(Signers { characters, bigrams, histogram });

impl Signers {
    pub(super) fn learn(texts: &SortedStrings) -> Self {
        let signer = |feature| Signer::learn(feature, texts.len(), |position| texts.text(position));
        let characters: usize = texts.lengths.iter().map(|&length| length as usize).sum();
        let histogram = Histogram::for_length(characters / texts.len().max(1));
        Self { characters: signer(Feature::Characters), bigrams: signer(Feature::Bigrams), histogram }
    }

    /// Bytes of what is computed of each string.
    pub(super) fn size(&self) -> usize {
        2 * size_of::<Signature>() + self.histogram.map_or(0, Histogram::size)
    }

    pub(super) fn memory(&self) -> usize {
        self.characters.memory() + self.bigrams.memory()
    }
}

/// Where one thread puts what it computes.
struct Part<'a> {
    characters: &'a mut [Signature],
    bigrams: &'a mut [Signature],
    histograms: &'a mut [u8],
}

/// Strings between two looks for a cancellation.
const SIGNED_AT_ONCE: usize = 1024;

impl SortedStrings {
    /// Sorts and copies the strings of `keys`; they still have to be [signed](Self::sign).
    pub(super) fn try_new(
        predicate: &EditPredicate,
        keys: &KeyColumn,
        reserve: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<Self> {
        reserve(keys.values.len() * (size_of::<u128>() + size_of::<Place>()))?;
        let values = string_views(&keys.values)?;
        let places = places(predicate, &values, keys.groups.as_deref());
        let bytes = places.iter().map(|p| values.value(p.3 as usize).len()).sum();
        reserve(bytes + places.len() * Self::ROW)?;
        let mut texts = Self {
            rows: places.iter().map(|p| p.3).collect(),
            groups: places.iter().map(|p| p.0).collect(),
            lengths: places.iter().map(|p| p.1).collect(),
            classes: places.iter().map(|p| p.2).collect(),
            characters: Vec::new(),
            bigrams: Vec::new(),
            histograms: Vec::new(),
            histogram_size: 0,
            starts: Vec::with_capacity(places.len() + 1),
            bytes: String::with_capacity(bytes),
            unmatchable: values.len() - places.len(),
        };
        texts.starts.push(0);
        for &(_, _, _, row) in &places {
            texts.bytes.push_str(values.value(row as usize));
            texts.starts.push(texts.bytes.len());
        }
        Ok(texts)
    }

    /// Bytes for each string besides its text and what is computed of it.
    const ROW: usize = size_of::<Place>() + size_of::<usize>();

    /// Computes the signatures, a range of positions a thread; of a cancelled build they are never looked at.
    pub(super) fn sign(&mut self, signers: &Signers, threads: usize, cancel: &Cancel) {
        let len = self.len();
        self.histogram_size = signers.histogram.map_or(0, Histogram::size);
        let (mut characters, mut bigrams) = (vec![Signature::default(); len], vec![Signature::default(); len]);
        let mut histograms = vec![0; len * self.histogram_size];
        let chunk = len.div_ceil(threads.max(1)).max(SIGNED_AT_ONCE);
        let texts = &*self;
        let mut histogram_chunks = histograms.chunks_mut((chunk * texts.histogram_size).max(1));
        let parts = characters.chunks_mut(chunk).zip(bigrams.chunks_mut(chunk));
        let parts = parts.map(|(characters, bigrams)| Part {
            characters,
            bigrams,
            histograms: histogram_chunks.next().unwrap_or_default(),
        });
        each_in_parallel(parts.enumerate(), |(n, part)| texts.sign_part(n * chunk, signers, part, cancel));
        (self.characters, self.bigrams, self.histograms) = (characters, bigrams, histograms);
    }

    fn sign_part(&self, first: usize, signers: &Signers, part: Part<'_>, cancel: &Cancel) {
        let mut slots = Slots::new();
        let mut histograms = part.histograms.chunks_mut(self.histogram_size.max(1));
        for (position, (characters, bigrams)) in (first..).zip(part.characters.iter_mut().zip(part.bigrams)) {
            if position % SIGNED_AT_ONCE == 0 && cancel.is_cancelled() {
                return;
            }
            let text = self.text(position);
            *characters = signers.characters.sign(text, &mut slots);
            *bigrams = signers.bigrams.sign(text, &mut slots);
            if let (Some(histogram), Some(counters)) = (signers.histogram, histograms.next()) {
                histogram.count(text, counters);
            }
        }
    }

    /// The histogram of a position's bigrams; empty where there are none.
    #[inline]
    pub(super) fn histogram(&self, position: usize) -> &[u8] {
        &self.histograms[position * self.histogram_size..(position + 1) * self.histogram_size]
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(super) fn text(&self, position: usize) -> &str {
        &self.bytes[self.place(position)]
    }

    /// The bytes of all strings, position after position.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_bytes()
    }

    /// Where the string of a position lies among the bytes.
    #[inline]
    pub(super) fn place(&self, position: usize) -> Range<usize> {
        self.starts[position]..self.starts[position + 1]
    }

    /// Whether the string of a position has characters of one byte only.
    #[inline]
    pub(super) fn is_ascii(&self, position: usize) -> bool {
        self.place(position).len() == self.lengths[position] as usize
    }

    /// The end of the positions up to `end` that are of the group, length and class of `position`.
    pub(super) fn alike(&self, position: usize, end: usize) -> usize {
        let key = |p: usize| (self.groups[p], self.lengths[p], self.classes[p]);
        (position + 1..end).find(|&p| key(p) != key(position)).unwrap_or(end)
    }

    /// Positions of a class among `positions`, which are of one group and length.
    pub(super) fn of_class(&self, positions: Range<usize>, class: u8) -> Range<usize> {
        let classes = &self.classes[positions.clone()];
        let low = classes.partition_point(|&c| c < class);
        let high = low + classes[low..].partition_point(|&c| c == class);
        positions.start + low..positions.start + high
    }

    pub(super) fn memory(&self) -> usize {
        let signatures = self.characters.capacity() + self.bigrams.capacity();
        self.bytes.capacity()
            + self.rows.len() * Self::ROW
            + signatures * size_of::<Signature>()
            + self.histograms.capacity()
    }
}

/// The rows that have a partner to hope for, in the order of their strings' positions.
fn places(predicate: &EditPredicate, values: &StringViewArray, groups: Option<&[u32]>) -> Vec<Place> {
    let group = |row: usize| groups.map_or(0, |groups| groups[row]);
    let mut places: Vec<Place> = Vec::with_capacity(values.len());
    for row in (0..values.len()).filter(|&row| values.is_valid(row) && group(row) != NO_GROUP) {
        let text = values.value(row);
        let class = if predicate.wants_classes() { class_of(text) } else { 0 };
        let length = length_of(text);
        places.push((group(row), length as u32, class, row as u32));
    }
    places.sort_unstable();
    places
}

/// The places of the characters of a string among its bytes.
pub(super) struct Characters<'a> {
    bytes: &'a [u8],
    /// Where each character starts, and the end; empty where each has one byte.
    starts: &'a [u32],
}

impl<'a> Characters<'a> {
    /// `starts` is memory to be used.
    pub(super) fn of(text: &'a str, length: usize, starts: &'a mut Vec<u32>) -> Self {
        starts.clear();
        if text.len() != length {
            starts.extend(text.char_indices().map(|(at, _)| at as u32));
            starts.push(text.len() as u32);
        }
        Self { bytes: text.as_bytes(), starts }
    }

    /// The bytes of `len` characters from `start` on.
    #[inline]
    pub(super) fn slice(&self, start: usize, len: usize) -> &'a [u8] {
        let Range { start, end } = match self.starts {
            [] => start..start + len,
            starts => starts[start] as usize..starts[start + len] as usize,
        };
        &self.bytes[start..end]
    }
}
