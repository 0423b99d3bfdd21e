//! Rankings by how many conditions hold between two rows, or by the sum of their weights.
//!
//! A condition says where a build row stands among the values of its side, and which places a probe row accepts: an
//! equality accepts one place, a range several that follow each other. So a key is a list of as many [`Span`]s as
//! there are conditions, and a condition holds where they [meet](Span::meets).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, FixedSizeListArray, UInt32Array};
use arrow::datatypes::{DataType, Field, UInt32Type};

use crate::atoms::Span;
use crate::error::{Result, keys_err};

/// Conditions that are counted.
#[derive(Debug, Clone)]
pub struct MatchCount {
    /// How many there are.
    pub conditions: usize,
    /// The weight of each, where they have any; sums are made in this order.
    pub weights: Option<Arc<[f64]>>,
}

/// The keys of rows, of which each of `columns` has the spans for one condition.
///
/// # Errors
/// Columns of several lengths, more spans than an array can hold.
pub fn keys(columns: &[Vec<Span>], rows: usize) -> Result<ArrayRef> {
    if columns.iter().any(|column| column.len() != rows) {
        return keys_err!("the conditions of a match count have keys for different rows");
    }
    let Ok(length) = i32::try_from(2 * columns.len()) else {
        return keys_err!("a match count has more conditions than a list can hold");
    };
    let mut places = Vec::with_capacity(2 * columns.len() * rows);
    for row in 0..rows {
        places.extend(columns.iter().flat_map(|column| [column[row].first, column[row].last]));
    }
    let item = Arc::new(Field::new_list_field(DataType::UInt32, false));
    let values = Arc::new(UInt32Array::from(places));
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, length, values, None, rows)?))
}

/// The spans of `keys` row by row, as [`keys`] made them for so many conditions.
///
/// # Errors
/// Any other array.
pub fn spans(keys: &ArrayRef, conditions: usize) -> Result<Spans<'_>> {
    let lists = keys.as_fixed_size_list_opt().filter(|lists| lists.value_length() as usize == 2 * conditions);
    let Some(places) = lists.and_then(|lists| lists.values().as_primitive_opt::<UInt32Type>()) else {
        return keys_err!("a match count of {conditions} conditions has no keys of type {}", keys.data_type());
    };
    Ok(Spans(places.values().as_chunks::<2>().0))
}

/// Spans that stand row by row, as pairs of numbers in an array of keys.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a>(&'a [[u32; 2]]);

impl Spans<'_> {
    /// The span at a place.
    #[inline]
    pub fn at(self, place: usize) -> Span {
        let [first, last] = self.0[place];
        Span { first, last }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Span> {
        self.0.iter().map(|&[first, last]| Span { first, last })
    }

    /// The spans of each row, of so many conditions.
    pub fn rows(&self, conditions: usize) -> impl Iterator<Item = impl Iterator<Item = Span>> {
        self.0.chunks_exact(conditions.max(1)).map(|row| row.iter().map(|&[first, last]| Span { first, last }))
    }

    /// The places one after the other, two a span.
    pub fn as_numbers(&self) -> &[u32] {
        self.0.as_flattened()
    }
}
