//! Sets of tokens as sorted ids, for the functions that compare sets row by row.

use std::hash::BuildHasher;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use hashbrown::HashTable;

use super::lists::ListArgument;
use super::strings::StringArgument;

/// Gives equal byte strings the same id and different ones different ids.
#[derive(Default)]
pub(super) struct Interner {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ids: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

impl Interner {
    pub(super) fn id(&mut self, token: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(token);
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(&id) = self.ids.find(hash, |&id| token_at(bytes, ends, id) == token) {
            return id;
        }
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len());
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        self.ids.insert_unique(hash, id, |&id| hasher.hash_one(token_at(bytes, ends, id)));
        id
    }
}

fn token_at<'a>(bytes: &'a [u8], ends: &[usize], id: u32) -> &'a [u8] {
    let start = id.checked_sub(1).map_or(0, |before| ends[before as usize]);
    &bytes[start..ends[id as usize]]
}

/// One set of ids a row; one row in all for a constant.
pub(super) struct TokenSets {
    ids: Vec<u32>,
    /// Where the ids of each set end.
    ends: Vec<usize>,
    /// The set of each row, `None` for NULL.
    rows: Vec<Option<u32>>,
    constant: bool,
}

impl TokenSets {
    /// The sets of the strings in `rows` rows, as `tokenise` cuts them. Equal strings share a set: a nested loop
    /// join compares all pairs of two lists of rows in one batch, and most of its strings are in many of them.
    pub(super) fn of_strings(
        strings: &StringArgument,
        rows: usize,
        interner: &mut Interner,
        mut tokenise: impl FnMut(&str, &mut dyn FnMut(&str)),
    ) -> Self {
        let mut sets = Self::new(strings.is_constant());
        let mut distinct = Interner::default();
        for row in 0..if strings.is_constant() { 1 } else { rows } {
            let set = strings.at(row).map(|text| {
                let set = distinct.id(text.as_bytes());
                if set as usize == sets.ends.len() {
                    tokenise(text, &mut |token| sets.ids.push(interner.id(token.as_bytes())));
                    sets.close();
                }
                set
            });
            sets.rows.push(set);
        }
        sets
    }

    /// The sets of the lists in `rows` rows: their distinct elements without NULLs, floats by bits with -0.0 = 0.0
    /// and one NaN.
    pub(super) fn of_lists(lists: &ListArgument, rows: usize, interner: &mut Interner) -> Result<Self> {
        let elements = canonical_floats(lists.elements());
        if let Some(strings) = StringArgument::of_column(&elements) {
            return Ok(Self::of_elements(lists, rows, |place| Some(interner.id(strings.at(place)?.as_bytes()))));
        }
        let converter = RowConverter::new(vec![SortField::new(elements.data_type().clone())])?;
        let encoded = converter.convert_columns(std::slice::from_ref(&elements))?;
        let nulls = elements.logical_nulls();
        let is_null = |place| nulls.as_ref().is_some_and(|nulls| nulls.is_null(place));
        Ok(Self::of_elements(lists, rows, |place| (!is_null(place)).then(|| interner.id(encoded.row(place).as_ref()))))
    }

    /// The sets of the lists in `rows` rows, by the ids of the elements; `None` for NULL.
    fn of_elements(lists: &ListArgument, rows: usize, mut id: impl FnMut(usize) -> Option<u32>) -> Self {
        let mut sets = Self::new(lists.is_constant());
        for row in 0..if lists.is_constant() { 1 } else { rows } {
            let set = lists.at(row).map(|places| {
                sets.ids.extend(places.filter_map(&mut id));
                sets.close();
                sets.ends.len() as u32 - 1
            });
            sets.rows.push(set);
        }
        sets
    }

    fn new(constant: bool) -> Self {
        Self { ids: Vec::new(), ends: Vec::new(), rows: Vec::new(), constant }
    }

    /// Makes what was pushed since the last call the next set.
    fn close(&mut self) {
        let start = self.ends.last().copied().unwrap_or(0);
        self.ids[start..].sort_unstable();
        let mut kept = start;
        for place in start..self.ids.len() {
            if kept == start || self.ids[kept - 1] != self.ids[place] {
                self.ids[kept] = self.ids[place];
                kept += 1;
            }
        }
        self.ids.truncate(kept);
        self.ends.push(kept);
    }

    /// The set in `row`, in rising order of its ids; `None` for NULL.
    pub(super) fn at(&self, row: usize) -> Option<&[u32]> {
        let set = self.rows[if self.constant { 0 } else { row }]? as usize;
        let start = set.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.ids[start..self.ends[set]])
    }
}

/// How many ids two sets share.
pub(super) fn overlap(left: &[u32], right: &[u32]) -> usize {
    let (mut l, mut r, mut shared) = (0, 0, 0);
    while l < left.len() && r < right.len() {
        let (a, b) = (left[l], right[r]);
        shared += usize::from(a == b);
        l += usize::from(a <= b);
        r += usize::from(b <= a);
    }
    shared
}

/// Floats such that equal ones have equal bits.
fn canonical_floats(values: &ArrayRef) -> ArrayRef {
    use std::sync::Arc;
    let canonical = |v: f64| match v {
        0.0 => 0.0,
        v if v.is_nan() => f64::NAN,
        v => v,
    };
    match values.data_type() {
        DataType::Float64 => Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical)),
        // widening and narrowing again changes no value
        DataType::Float32 => {
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| canonical(v.into()) as f32))
        }
        DataType::Float16 => {
            Arc::new(values.as_primitive::<Float16Type>().unary::<_, Float64Type>(|v| canonical(v.to_f64())))
        }
        _ => Arc::clone(values),
    }
}
