//! Batches put together as one.

mod nulls;
mod numbers;
mod views;

use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, SchemaRef};

use self::numbers::{Numbers, NumbersPiece};
use self::views::{Views, ViewsPiece};
use crate::accelerator::ColumnPrefetch;
use crate::accelerator::prefetch::ViewBuffer;
use crate::parallel::each_in_parallel;

/// Below this many rows threads cost more than they save.
const WORTH_THREADS: usize = 1 << 15;

/// The rows of `batches`, one after the other, by up to `threads` threads; some columns are sent to a device at the
/// same time.
pub fn concat_in_parallel(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    threads: usize,
    ahead: Option<&dyn ColumnPrefetch>,
) -> Result<RecordBatch> {
    if let [only] = batches {
        return Ok(only.clone());
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let threads = if rows < WORTH_THREADS { 1 } else { threads.max(1) };
    let parts: Vec<Vec<&dyn Array>> =
        (0..schema.fields().len()).map(|at| batches.iter().map(|batch| batch.column(at).as_ref()).collect()).collect();
    let column = |(at, field): (usize, &FieldRef)| {
        let views = Views::of(field.data_type(), &parts[at], || ahead?.room(at).map(ViewBuffer::Lent));
        let numbers = || if threads > 1 { Numbers::of(field.data_type(), &parts[at]) } else { None };
        match views {
            Some(views) => Column::Views(views),
            None => numbers().map_or(Column::Whole, Column::Numbers),
        }
    };
    let mut columns: Vec<Column> = schema.fields().iter().enumerate().map(column).collect();
    let mut work = Vec::new();
    for (at, column) in columns.iter_mut().enumerate() {
        match column {
            Column::Views(views) => work.extend(views.pieces(at, &parts[at]).into_iter().map(Work::CopyViews)),
            Column::Numbers(numbers) => work.extend(numbers.pieces().into_iter().map(Work::CopyNumbers)),
            Column::Whole => work.push(Work::Concat(at)),
        }
    }
    let work = &Mutex::new(work.into_iter());
    let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    let concatenated = each_in_parallel(0..threads, |_| {
        let mut whole = Vec::new();
        while let Some(work) = next() {
            match work {
                Work::CopyViews(piece) => {
                    let (column, rows) = (piece.column, (piece.first, piece.len()));
                    piece.copy();
                    ahead.iter().for_each(|ahead| ahead.send(column, rows));
                }
                Work::CopyNumbers(piece) => piece.copy(),
                Work::Concat(at) if parts[at].is_empty() => {
                    whole.push((at, Ok(new_empty_array(schema.field(at).data_type()))));
                }
                Work::Concat(at) => whole.push((at, concat(&parts[at]))),
            }
        }
        whole
    });
    let mut arrays: Vec<Option<ArrayRef>> = Vec::with_capacity(columns.len());
    for (column, parts) in columns.into_iter().zip(&parts) {
        // SAFETY: all pieces of either were copied.
        arrays.push(match column {
            Column::Views(views) => Some(unsafe { views.into_array(parts) }),
            Column::Numbers(numbers) => Some(unsafe { numbers.into_array(parts) }?),
            Column::Whole => None,
        });
    }
    for (at, array) in concatenated.into_iter().flatten() {
        arrays[at] = Some(array?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), arrays.into_iter().flatten().collect(), &options)?)
}

/// A column that is put together.
enum Column {
    Views(Views),
    Numbers(Numbers),
    /// Column of another type, which one thread puts together.
    Whole,
}

/// What a thread takes up.
enum Work<'a> {
    /// Some views.
    CopyViews(ViewsPiece<'a>),
    /// Some numbers.
    CopyNumbers(NumbersPiece<'a>),
    /// A whole column.
    Concat(usize),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{FixedSizeListArray, Float32Array, Int16Array, Int64Array, StringArray, StringViewArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::{Field, Float32Type, Schema};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Columns of every kind that is put together in its own way, and of others.
    fn batch(rows: usize, nulls: bool, rng: &mut StdRng) -> RecordBatch {
        let mut some = |share: f64| (0..rows).map(|_| !rng.random_bool(share)).collect::<Vec<_>>();
        let (there, elements) = (some(if nulls { 0.1 } else { 0.0 }), some(if nulls { 0.05 } else { 0.0 }));
        let optional = |row: usize| there[row].then_some(row as i64 * 7);
        let text = |row: usize| there[row].then(|| format!("a string of many bytes, {row}"));
        let list = |row: usize, has_all: bool| {
            there[row]
                .then(|| (0..5).map(|at| (has_all || at != 3).then_some((row * 5 + at) as f32)).collect::<Vec<_>>())
        };
        let lists = |has_all: bool| -> ArrayRef {
            let rows = (0..rows).map(|row| list(row, has_all || elements[row]));
            Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 5))
        };
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("wide", Arc::new((0..rows).map(optional).collect::<Int64Array>())),
            ("narrow", Arc::new((0..rows).map(|row| optional(row).map(|x| x as i16)).collect::<Int16Array>())),
            ("float", Arc::new((0..rows).map(|row| optional(row).map(|x| x as f32)).collect::<Float32Array>())),
            ("vector", lists(true)),
            ("holes", lists(false)),
            ("text", Arc::new((0..rows).map(text).collect::<StringArray>())),
            ("view", Arc::new((0..rows).map(text).collect::<StringViewArray>())),
        ];
        let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
    }

    #[test]
    fn rows_are_those_of_all_batches() {
        let mut rng = StdRng::seed_from_u64(3);
        for (sizes, nulls) in [(vec![40_000, 1, 0, 7000], false), (vec![3, 33_000, 5], true), (vec![10, 20], true)] {
            let whole: Vec<RecordBatch> = sizes.iter().map(|&rows| batch(rows + 9, nulls, &mut rng)).collect();
            // parts begin behind the start of their buffers
            let batches: Vec<RecordBatch> =
                whole.iter().zip(&sizes).map(|(batch, &rows)| batch.slice(4, rows)).collect();
            let schema = batches[0].schema();
            let expected = concat_batches(&schema, &batches).unwrap();
            for threads in [1, 3] {
                assert_eq!(concat_in_parallel(&schema, &batches, threads, None).unwrap(), expected, "{sizes:?}");
            }
        }
    }
}
