//! The vectors of one side, by row.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, keys_err};
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float64Array, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};

use crate::condition::VectorCondition;
use crate::parallel::{collect_in_parallel, each_in_parallel, in_parallel, joined_in_parallel};
use crate::stored::{Sink, Source, Store, Stored, stored};
use crate::{KeyColumn, NO_GROUP, PrepareContext};
use similarity_measures::VectorMeasure;

/// A list column, and where the elements of each row are.
#[derive(Debug, Clone)]
pub struct Vectors {
    elements: Float64Array,
    offsets: Offsets,
    nulls: Option<NullBuffer>,
    rows: usize,
}

#[derive(Debug, Clone)]
enum Offsets {
    Fixed { first: usize, length: usize },
    Given(Arc<[usize]>),
}

stored!(Vectors { elements, offsets, nulls, rows });

impl Store for Offsets {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        match self {
            Self::Fixed { first, length } => Some((*first, *length)).store(sink),
            Self::Given(offsets) => {
                None::<(usize, usize)>.store(sink)?;
                offsets.store(sink)
            }
        }
    }
}

impl Stored for Offsets {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        Ok(match Stored::load(source)? {
            Some((first, length)) => Self::Fixed { first, length },
            None => Self::Given(Stored::load(source)?),
        })
    }
}

impl Vectors {
    /// The vectors in `lists`, lists of any kind over numbers, by up to so many threads.
    ///
    /// # Errors
    /// Anything else.
    pub fn try_new(lists: &ArrayRef, threads: usize) -> Result<Self> {
        let (elements, offsets) = match lists.data_type() {
            DataType::List(_) => (lists.as_list::<i32>().values(), given(lists.as_list::<i32>().value_offsets())),
            DataType::LargeList(_) => (lists.as_list::<i64>().values(), given(lists.as_list::<i64>().value_offsets())),
            DataType::FixedSizeList(..) => {
                let lists = lists.as_fixed_size_list();
                let offsets =
                    Offsets::Fixed { first: lists.value_offset(0) as usize, length: lists.value_length() as usize };
                (lists.values(), offsets)
            }
            other => return keys_err!("a vector is a list of numbers, not {other}"),
        };
        let elements = match elements.data_type() {
            DataType::Float64 => elements.as_primitive::<Float64Type>().clone(),
            DataType::Float32 => {
                let elements = elements.as_primitive::<Float32Type>();
                let wide = |at| f64::from(elements.value(at));
                let values = collect_in_parallel(elements.len(), threads, ROWS_OF_THREAD, wide);
                Float64Array::new(values.into(), elements.nulls().cloned())
            }
            _ => cast(elements, &DataType::Float64)?.as_primitive::<Float64Type>().clone(),
        };
        Ok(Self { elements, offsets, nulls: lists.nulls().cloned(), rows: lists.len() })
    }

    /// Whether the vectors in lists of type `from` are those in lists of type `to` that they are cast to: numbers alone
    /// are changed.
    pub fn are_those_cast(from: &DataType, to: &DataType) -> bool {
        let (from, to) = match (from, to) {
            (DataType::List(from), DataType::List(to)) | (DataType::LargeList(from), DataType::LargeList(to)) => {
                (from, to)
            }
            (DataType::FixedSizeList(from, own), DataType::FixedSizeList(to, other)) if own == other => (from, to),
            _ => return false,
        };
        let number = from.data_type();
        let keeps_nulls = to.is_nullable() || !from.is_nullable();
        keeps_nulls && *to.data_type() == DataType::Float64 && (number.is_integer() || number.is_floating())
    }

    /// Bytes of the vectors in `lists`, in double precision.
    pub fn memory_of(lists: &ArrayRef) -> usize {
        let elements = match lists.data_type() {
            DataType::List(_) => lists.as_list::<i32>().values(),
            DataType::LargeList(_) => lists.as_list::<i64>().values(),
            DataType::FixedSizeList(..) => lists.as_fixed_size_list().values(),
            _ => return 0,
        };
        let wide = (elements.len() * size_of::<f64>()).saturating_sub(elements.get_buffer_memory_size());
        lists.get_array_memory_size() + wide
    }

    /// `numbers` in vectors of so many.
    ///
    /// # Errors
    /// Vectors longer than a list may be.
    fn of_numbers(numbers: Vec<f64>, dimension: usize) -> Result<Self> {
        let (field, length) = (Arc::new(Field::new_list_field(DataType::Float64, false)), i32::try_from(dimension));
        let length = length.map_err(|_| Error::Keys("a vector has too many elements".into()))?;
        let elements = Arc::new(Float64Array::from(numbers));
        let lists: ArrayRef = Arc::new(FixedSizeListArray::try_new(field, length, elements, None)?);
        Self::try_new(&lists, 1)
    }

    /// Some rows one after the other, which are not copied.
    fn slice(&self, rows: Range<usize>) -> Self {
        let offsets = match &self.offsets {
            Offsets::Fixed { first, length } => Offsets::Fixed { first: first + rows.start * length, length: *length },
            Offsets::Given(offsets) => Offsets::Given(offsets[rows.start..=rows.end].into()),
        };
        let nulls = self.nulls.as_ref().map(|nulls| nulls.slice(rows.start, rows.len()));
        Self { elements: self.elements.clone(), offsets, nulls, rows: rows.len() }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn places(&self, row: usize) -> Range<usize> {
        match &self.offsets {
            Offsets::Fixed { first, length } => first + row * length..first + (row + 1) * length,
            Offsets::Given(offsets) => offsets[row]..offsets[row + 1],
        }
    }

    /// The vector in `row`; `None` for NULL and where an element is NULL.
    pub fn at(&self, row: usize) -> Option<&[f64]> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let places = self.places(row);
        let nulls = self.elements.nulls().filter(|nulls| nulls.null_count() > 0);
        let has_null = nulls.is_some_and(|nulls| places.clone().any(|place| nulls.is_null(place)));
        (!has_null).then(|| &self.elements.values()[places])
    }

    /// The vector in a row that has one.
    #[inline(always)]
    pub fn given(&self, row: usize) -> &[f64] {
        &self.elements.values()[self.places(row)]
    }

    /// The elements of all rows one after the other, where every row has `dimension` of them, NULL or not.
    pub fn matrix(&self, dimension: usize) -> Option<&[f64]> {
        let rows = self.rows;
        let first = if rows == 0 { 0 } else { self.places(0).start };
        let filterable = match &self.offsets {
            Offsets::Fixed { length, .. } => *length == dimension,
            Offsets::Given(offsets) => offsets.windows(2).all(|pair| pair[1] - pair[0] == dimension),
        };
        filterable.then(|| &self.elements.values()[first..first + rows * dimension])
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let offsets = match &self.offsets {
            Offsets::Fixed { .. } => 0,
            Offsets::Given(offsets) => size_of_val(&offsets[..]),
        };
        self.elements.get_array_memory_size() + offsets
    }

    /// The number of elements that every vector has, none where there is no vector.
    ///
    /// # Errors
    /// Two different numbers of elements.
    pub fn dimension(&self) -> Result<Option<usize>, [usize; 2]> {
        if let Offsets::Fixed { length, .. } = self.offsets {
            return Ok((0..self.len()).any(|row| self.at(row).is_some()).then_some(length));
        }
        let mut dimension = None;
        for row in 0..self.rows {
            let length = self.places(row).len();
            match dimension {
                Some(known) if known == length => {}
                _ if self.at(row).is_none() => {}
                Some(known) => return Err([known, length]),
                None => dimension = Some(length),
            }
        }
        Ok(dimension)
    }
}

/// The error for vectors of two lengths.
pub fn incomparable([one, other]: [usize; 2]) -> Error {
    Error::Keys(format!("vectors of {one} and of {other} elements cannot be compared"))
}

fn given<O: OffsetSizeTrait>(offsets: &[O]) -> Offsets {
    Offsets::Given(offsets.iter().map(|offset| offset.as_usize()).collect())
}

/// Some rows with vectors.
#[derive(Debug, Default)]
pub struct Rows {
    /// Row numbers.
    pub rows: Vec<u32>,
    /// Group of each row; all are 0 without equality keys.
    pub groups: Vec<u32>,
}

stored!(Rows { rows, groups });

impl Rows {
    fn with_capacity(rows: usize) -> Self {
        Self { rows: Vec::with_capacity(rows), groups: Vec::with_capacity(rows) }
    }

    fn push(&mut self, row: usize, group: u32) {
        self.rows.push(row as u32);
        self.groups.push(group);
    }

    /// The rows of all `parts`, in their order.
    fn joined(parts: Vec<Self>) -> Self {
        let (rows, groups) = parts.into_iter().map(|part| (part.rows, part.groups)).unzip();
        Self { rows: joined_in_parallel(rows), groups: joined_in_parallel(groups) }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.rows.capacity() + self.groups.capacity()) * size_of::<u32>()
    }
}

/// The rows of one side that may match.
#[derive(Debug)]
pub struct Points {
    /// Vectors of all rows.
    pub vectors: Vectors,
    /// Numbers a vector; 0 where there is none.
    pub dimension: usize,
    /// Rows that a filter may tell apart.
    pub filterable: Rows,
    /// Rows that have to be compared with all others.
    pub unfilterable: Rows,
    /// Rows that can never match.
    pub unmatchable: usize,
}

/// Fewer rows are not worth a thread.
const ROWS_OF_THREAD: usize = 1 << 16;

/// Points side by side that single precision tells apart well.
const MOST_ABREAST: f64 = (1u32 << 18) as f64;

/// Below this sum of squares the rounding of tiny products makes a cosine anything.
const TINY: f64 = 1e-280;

impl Points {
    /// The rows of `keys`, told apart as `context` says; those of a batch have the `dimension` of the build
    /// side, where that has rows.
    ///
    /// # Errors
    /// Vectors of several lengths.
    pub fn try_new(
        condition: &VectorCondition,
        keys: &KeyColumn,
        dimension: Option<usize>,
        context: &PrepareContext<'_>,
    ) -> Result<Self> {
        let PrepareContext { threads, cancel } = *context;
        let vectors = Vectors::try_new(&keys.values, threads)?;
        let (known, other) = match (vectors.dimension(), dimension) {
            (Err([one, other]), _) => (Some(one), Some(other)),
            (Ok(own), dimension) => (dimension.or(own), own),
        };
        if let (Some(known), Some(other)) = (known, other)
            && known != other
        {
            return Err(incomparable([known, other]));
        }
        let rows = keys.values.len();
        let stretch = rows.div_ceil(threads.max(1)).max(ROWS_OF_THREAD);
        let starts = (0..rows.max(1)).step_by(stretch);
        let parts = in_parallel(starts, |start| {
            let end = rows.min(start + stretch);
            let filterable = Rows::with_capacity(end - start);
            let mut sorting = Sorting { condition, filterable, unfilterable: Rows::default(), unmatchable: 0 };
            for row in (start..end).take_while(|_| !cancel.is_cancelled()) {
                let group = keys.groups.as_ref().map_or(0, |groups| groups[row]);
                match vectors.at(row).filter(|_| group != NO_GROUP) {
                    Some(vector) => sorting.add(row, group, vector),
                    None => sorting.unmatchable += 1,
                }
            }
            Ok(sorting)
        })?;
        let unmatchable = parts.iter().map(|part| part.unmatchable).sum();
        let (filterable, unfilterable) = parts.into_iter().map(|part| (part.filterable, part.unfilterable)).unzip();
        let (filterable, unfilterable) = (Rows::joined(filterable), Rows::joined(unfilterable));
        Ok(Self { vectors, dimension: known.unwrap_or(0), filterable, unfilterable, unmatchable })
    }

    /// Whether single precision tells neighbours apart well, among points with norms up to about `norm`: one is about
    /// as far as n^(1/d) points abreast are from each other.
    pub fn suit_single_precision(&self, norm: f64) -> bool {
        let abreast = (self.filterable.len() as f64).powf((self.dimension.max(1) as f64).recip());
        norm < 1e15 && abreast < MOST_ABREAST
    }

    /// The vector of a filterable row.
    pub fn filterable(&self, at: usize) -> &[f64] {
        self.vectors.given(self.filterable.rows[at] as usize)
    }

    /// The rows from the first to the last of some filterable ones, which are there at these places.
    pub fn rows(&self, places: Range<usize>) -> Range<usize> {
        match self.filterable.rows[places].iter().as_slice() {
            [] => 0..0,
            [only] => *only as usize..*only as usize + 1,
            [first, .., last] => *first as usize..*last as usize + 1,
        }
    }

    /// Points of some places alone, numbered from the first one on.
    pub fn part(&self, places: Range<usize>) -> Self {
        let rows = self.rows(places.clone());
        let filterable = Rows {
            rows: self.filterable.rows[places.clone()].iter().map(|&row| row - rows.start as u32).collect(),
            groups: self.filterable.groups[places].to_vec(),
        };
        let (vectors, dimension) = (self.vectors.slice(rows), self.dimension);
        Self { vectors, dimension, filterable, unfilterable: Rows::default(), unmatchable: 0 }
    }

    /// Copies of some filterable rows, numbered as they come, by up to so many threads.
    ///
    /// # Errors
    /// Vectors longer than a list may be.
    pub fn gathered(&self, rows: &[u32], threads: usize) -> Result<Self> {
        let dimension = self.dimension;
        let mut numbers = vec![0.0; rows.len() * dimension];
        let share = rows.len().div_ceil(threads.max(1)).max(ROWS_OF_THREAD);
        if dimension > 0 {
            each_in_parallel(numbers.chunks_mut(share * dimension).zip(rows.chunks(share)), |(numbers, rows)| {
                let places = numbers.chunks_exact_mut(dimension).zip(rows);
                places.for_each(|(place, &row)| place.copy_from_slice(self.vectors.given(row as usize)));
            });
        }
        let group = |at: usize| {
            let place = self.filterable.rows.binary_search(&rows[at]);
            place.map_or(NO_GROUP, |place| self.filterable.groups[place])
        };
        Self::of_numbers(numbers, collect_in_parallel(rows.len(), threads, ROWS_OF_THREAD, group), dimension)
    }

    /// Filterable rows with these groups, whose vectors follow each other in `numbers`.
    ///
    /// # Errors
    /// Vectors longer than a list may be.
    pub fn of_numbers(numbers: Vec<f64>, groups: Vec<u32>, dimension: usize) -> Result<Self> {
        let filterable = Rows { rows: (0..groups.len() as u32).collect(), groups };
        let vectors = Vectors::of_numbers(numbers, dimension)?;
        Ok(Self { vectors, dimension, filterable, unfilterable: Rows::default(), unmatchable: 0 })
    }
}

/// Tells rows apart.
struct Sorting<'a> {
    condition: &'a VectorCondition,
    filterable: Rows,
    unfilterable: Rows,
    unmatchable: usize,
}

impl Sorting<'_> {
    fn add(&mut self, row: usize, group: u32, vector: &[f64]) {
        let condition = self.condition;
        let squares = || vector.iter().map(|x| x * x).sum::<f64>();
        let angular = matches!(condition.measure, VectorMeasure::Cosine | VectorMeasure::CosineDistance);
        if !condition.decides(vector) {
            match condition.undecided_from {
                Some(_) => self.unfilterable.push(row, group),
                None => self.unmatchable += 1,
            }
        } else if angular && vector.iter().all(|x| *x == 0.0) {
            self.unmatchable += 1;
        } else if angular && !(TINY..f64::INFINITY).contains(&squares()) {
            self.unfilterable.push(row, group);
        } else {
            self.filterable.push(row, group);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{LargeListArray, ListArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::condition::Bounds;

    fn condition(measure: VectorMeasure, undecided_from: Option<u16>) -> VectorCondition {
        VectorCondition { measure, bounds: Bounds::at_most(1.0, true), undecided_from }
    }

    /// Type of the same lists in double precision.
    fn of_float64(lists: &DataType) -> DataType {
        match lists {
            DataType::List(_) => DataType::new_list(DataType::Float64, true),
            DataType::LargeList(_) => DataType::new_large_list(DataType::Float64, true),
            DataType::FixedSizeList(_, length) => DataType::new_fixed_size_list(DataType::Float64, *length, true),
            other => panic!("{other} is no list"),
        }
    }

    #[test]
    fn memory_is_that_of_double_precision() {
        let lists =
            FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>((0..1000).map(|_| Some([Some(1.0); 8])), 8);
        let narrow: ArrayRef = Arc::new(lists);
        let wide = cast(&narrow, &of_float64(narrow.data_type())).unwrap();
        for lists in [narrow, wide] {
            let (bytes, numbers) = (Vectors::memory_of(&lists), 8 * 8 * 1000);
            assert!((numbers..numbers + numbers / 8).contains(&bytes), "{}: {bytes}", lists.data_type());
        }
    }

    #[test]
    fn other_casts_change_more_than_numbers() {
        let fixed = |of, length| DataType::new_fixed_size_list(of, length, true);
        for (from, to) in [
            (fixed(DataType::Float32, 3), fixed(DataType::Float64, 4)),
            (DataType::new_list(DataType::Float32, true), fixed(DataType::Float64, 3)),
            (DataType::new_list(DataType::Float64, true), DataType::new_list(DataType::Float32, true)),
            (DataType::new_list(DataType::Utf8, true), DataType::new_list(DataType::Float64, true)),
            (DataType::new_list(DataType::Float32, true), DataType::new_list(DataType::Float64, false)),
            (DataType::Float32, DataType::Float64),
        ] {
            assert!(!Vectors::are_those_cast(&from, &to), "{from} to {to}");
        }
    }

    #[test]
    fn vectors_of_every_list_type() {
        let rows = [Some(vec![Some(1), Some(2)]), None, Some(vec![Some(3), None]), Some(vec![Some(5), Some(6)])];
        let narrow =
            rows.clone().map(|row| row.map(|row| row.into_iter().map(|x| x.map(|x| x as f32)).collect::<Vec<_>>()));
        let lists: [ArrayRef; 5] = [
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows.clone())),
            Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(rows.clone())),
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(rows, 2)),
            Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(narrow.clone())),
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(narrow, 2)),
        ];
        for lists in lists {
            let wide = cast(&lists, &of_float64(lists.data_type())).unwrap();
            assert!(Vectors::are_those_cast(lists.data_type(), wide.data_type()));
            let vectors = Vectors::try_new(&lists, 2).unwrap();
            let all: Vec<_> = (0..4).map(|row| vectors.at(row)).collect();
            assert_eq!(all, [Some(&[1.0, 2.0][..]), None, None, Some(&[5.0, 6.0][..])]);
            assert_eq!(vectors.dimension(), Ok(Some(2)));
            let sliced = Vectors::try_new(&lists.slice(3, 1), 1).unwrap();
            assert_eq!(sliced.at(0), Some(&[5.0, 6.0][..]));
        }
    }

    #[test]
    fn lengths_differ_where_a_vector_is_whole() {
        let lists = |rows: Vec<Option<Vec<Option<f32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
        };
        let mixed = lists(vec![Some(vec![None]), Some(vec![Some(1.0); 2]), Some(vec![Some(1.0); 3])]);
        assert_eq!(Vectors::try_new(&mixed, 1).unwrap().dimension(), Err([2, 3]));
        let same = lists(vec![Some(vec![None]), Some(vec![Some(1.0); 2]), None]);
        assert_eq!(Vectors::try_new(&same, 1).unwrap().dimension(), Ok(Some(2)));
        let keys = KeyColumn { values: same, groups: None };
        assert!(Points::try_new(&condition(VectorMeasure::L2, None), &keys, Some(3), &PrepareContext::by(1)).is_err());
    }

    #[test]
    fn rows_that_no_filter_tells_apart() {
        let rows = [vec![1.0], vec![0.0], vec![f64::INFINITY], vec![1e200], vec![1e-200]];
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(
            rows.map(|row| Some(row.into_iter().map(Some).collect::<Vec<_>>())),
        );
        let keys = KeyColumn { values: Arc::new(lists), groups: None };
        let of = |measure, undecided| {
            let Points { filterable, unfilterable, unmatchable, .. } =
                Points::try_new(&condition(measure, undecided), &keys, None, &PrepareContext::by(2)).unwrap();
            (filterable.rows, unfilterable.rows, unmatchable)
        };
        assert_eq!(of(VectorMeasure::L2, None), (vec![0, 1, 3, 4], vec![], 1));
        assert_eq!(of(VectorMeasure::L2, Some(465)), (vec![0, 1, 4], vec![2, 3], 0));
        assert_eq!(of(VectorMeasure::Cosine, None), (vec![0], vec![3, 4], 2));
    }

    #[test]
    fn parts_and_copies_of_some_rows() {
        let row = |at: u32| (at % 4 != 1).then(|| vec![Some(f64::from(at)), Some(-f64::from(at))]);
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>((0..20).map(row)));
        let fixed = FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>((0..20).map(row), 2);
        for values in [lists, Arc::new(fixed)] {
            let keys =
                KeyColumn { values, groups: Some((0..20).map(|at| if at == 4 { NO_GROUP } else { at }).collect()) };
            let points =
                Points::try_new(&condition(VectorMeasure::L2, None), &keys, None, &PrepareContext::by(2)).unwrap();
            assert_eq!(points.filterable.rows[..5], [0, 2, 3, 6, 7]);
            let part = points.part(2..5);
            assert_eq!((points.rows(2..5), points.rows(3..4), points.rows(3..3)), (3..8, 6..7, 0..0));
            assert_eq!(
                (part.filterable.rows.as_slice(), part.filterable.groups.as_slice()),
                (&[0, 3, 4][..], &[3, 6, 7][..])
            );
            assert_eq!((part.vectors.len(), part.vectors.at(2), part.filterable(1)), (5, None, &[6.0, -6.0][..]));
            let matrix = part.vectors.matrix(2).map(|matrix| matrix[6..].to_vec());
            assert!(matrix.is_none_or(|matrix| matrix == [6.0, -6.0, 7.0, -7.0]));
            let copies = points.gathered(&[7, 0, 3], 2).unwrap();
            assert_eq!((copies.filterable.rows, copies.filterable.groups), (vec![0, 1, 2], vec![7, 0, 3]));
            assert_eq!(copies.vectors.matrix(2), Some(&[7.0, -7.0, 0.0, 0.0, 3.0, -3.0][..]));
            assert_eq!(points.gathered(&[], 2).unwrap().filterable.len(), 0);
        }
    }
}
