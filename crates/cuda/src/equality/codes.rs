//! Codes of rows by their equality keys, numbered on a device.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use cudarc::driver::CudaStream;
use similarity_engine::equality::{Codes, Values};
use similarity_engine::error::Result;

use super::known::{KnownKeys, number_strings};
use super::numbers::{MOST_ROWS, are_too_many, on_stream};
use super::records::{Numbering, RowsByNumber};
use super::sort_keys::Which;
use crate::arrow_strings::ArrowStrings;
use crate::fault::Fault;
use crate::memory::Budget;

/// The code of each row by what it has in all of `columns`, [`NO_GROUP`] where that is a NULL which equals nothing;
/// equal values have equal codes, from 0 on. With what it takes to look up those of another side, where that
/// `is_known`. `None` where the device has too little memory, or cannot tell two values apart.
///
/// # Errors
/// Columns that [have no values](Values::supports), a device that fails.
pub fn codes(
    budget: &Budget,
    columns: &[ArrayRef],
    null_equals_null: &[bool],
    is_known: bool,
) -> Result<Option<(Codes, Option<KnownKeys>)>> {
    if are_too_many(columns.iter().map(|column| column.len())) {
        return Ok(None);
    }
    let values = columns.iter().zip(null_equals_null);
    let values: Vec<_> =
        values.map(|(column, &equal)| Ok((column, Values::of(column)?, equal))).collect::<Result<_>>()?;
    let nulls: Vec<_> = values.iter().filter_map(|(_, values, equal)| values.nulls().filter(|_| !equal)).collect();
    let rows = columns.first().map_or(0, |column| column.len());
    on_stream(budget, |stream| {
        let Some((numbers, known)) = KnownKeys::build(budget, stream, &values, is_known)? else { return Ok(None) };
        Ok(Some((Codes::from_device(Arc::new(numbers), Some(having_one(&nulls, rows))), known)))
    })
}

/// The rows that are NULL in none of several keys.
fn having_one(nulls: &[NullBuffer], rows: usize) -> BooleanBuffer {
    nulls.iter().fold(BooleanBuffer::new_set(rows), |having_one, nulls| &having_one & nulls.inner())
}

/// Codes of strings that are on the device, and of the column that they come from, for a self-join.
pub(crate) fn codes_of_strings(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    (strings, column): (&ArrowStrings, &StringViewArray),
    null_equals_null: bool,
) -> Result<Option<Codes>, Fault> {
    if column.len() > MOST_ROWS {
        return Ok(None);
    }
    let numbering = Numbering { which: Which::with_values(null_equals_null), is_known: false };
    let values: ArrayRef = Arc::new(column.clone());
    let Some(RowsByNumber { numbers, .. }) = number_strings(budget, stream, (strings, values), numbering)? else {
        return Ok(None);
    };
    let nulls: Vec<_> = column.nulls().filter(|_| !null_equals_null).cloned().into_iter().collect();
    Ok(Some(Codes::from_device(Arc::new(numbers), Some(having_one(&nulls, column.len())))))
}
