//! A column of vectors as one slice of numbers.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_err};

/// No place.
const NONE: (usize, usize) = (usize::MAX, usize::MAX);

/// The vectors of a column that have a score: no NULL, NaN or infinity in them, nor are they NULL themselves.
#[derive(Debug, Default)]
pub struct Vectors {
    /// The elements, vector by vector.
    elements: Vec<f64>,
    /// Where the vector of each row lies, [`NONE`] where it has none.
    places: Vec<(usize, usize)>,
    /// The number of elements of each of them; `None` where they differ.
    length: Option<usize>,
    /// How many there are.
    count: usize,
}

impl Vectors {
    /// Reads lists of Float64.
    ///
    /// # Errors
    /// For a column of anything else.
    pub fn try_new(column: &ArrayRef) -> Result<Self> {
        let mut vectors = Self { places: Vec::with_capacity(column.len()), ..Self::default() };
        match column.data_type() {
            DataType::List(_) => column.as_list::<i32>().iter().try_for_each(|list| vectors.push(list))?,
            DataType::LargeList(_) => column.as_list::<i64>().iter().try_for_each(|list| vectors.push(list))?,
            DataType::FixedSizeList(..) => {
                column.as_fixed_size_list().iter().try_for_each(|list| vectors.push(list))?;
            }
            other => return internal_err!("vectors of {other}"),
        }
        Ok(vectors)
    }

    fn push(&mut self, list: Option<ArrayRef>) -> Result<()> {
        let Some(list) = list else { return self.push_none() };
        let Some(numbers) = list.as_primitive_opt::<Float64Type>() else {
            return internal_err!("vectors of {}", list.data_type());
        };
        let values = numbers.values();
        if numbers.null_count() > 0 || !values.iter().all(|value| value.is_finite()) {
            return self.push_none();
        }
        if self.count == 0 {
            self.length = Some(values.len());
        }
        self.length = self.length.filter(|&length| length == values.len());
        self.count += 1;
        let start = self.elements.len();
        self.elements.extend_from_slice(values);
        self.places.push((start, self.elements.len()));
        Ok(())
    }

    fn push_none(&mut self) -> Result<()> {
        self.places.push(NONE);
        Ok(())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    /// How many of them have a vector.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many elements every vector has, 0 where there is none, `None` where they differ.
    pub fn length(&self) -> Option<usize> {
        if self.count == 0 { Some(0) } else { self.length }
    }

    /// The elements of the vectors, vector by vector; rows without one are left out.
    pub(super) fn elements(&self) -> &[f64] {
        &self.elements
    }

    /// The vector of a row.
    #[inline]
    pub(super) fn at(&self, row: usize) -> Option<&[f64]> {
        let (start, end) = self.places[row];
        (start != NONE.0).then(|| &self.elements[start..end])
    }
}
