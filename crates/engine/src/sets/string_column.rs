//! String columns of every Arrow layout, read row by row without a copy.

use crate::error::{Result, keys_err};
use arrow::array::{AnyDictionaryArray, Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use arrow::datatypes::DataType;

/// A borrowed string column.
pub enum Strings<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    View(&'a StringViewArray),
    Dictionary { keys: &'a dyn AnyDictionaryArray, index: Vec<usize>, values: Box<Strings<'a>> },
}

impl<'a> Strings<'a> {
    /// Whether a column of this type can be read.
    pub fn reads(data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
            DataType::Dictionary(_, values) => Self::reads(values),
            _ => false,
        }
    }

    pub fn try_new(array: &'a ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string()),
            DataType::Utf8View => Self::View(array.as_string_view()),
            DataType::Dictionary(_, _) => {
                let keys = array.as_any_dictionary();
                // Where there are no values there is no row with one, and nothing to normalise.
                let index = if keys.values().is_empty() { vec![] } else { keys.normalized_keys() };
                Self::Dictionary { keys, index, values: Box::new(Self::try_new(keys.values())?) }
            }
            other => return keys_err!("a set over strings cannot read a key of type {other}; cast it to Utf8"),
        })
    }

    /// The string of `row`, or none for NULL.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Utf8(a) => a.is_valid(row).then(|| a.value(row)),
            Self::LargeUtf8(a) => a.is_valid(row).then(|| a.value(row)),
            Self::View(a) => a.is_valid(row).then(|| a.value(row)),
            Self::Dictionary { keys, index, values } => keys.is_valid(row).then(|| values.get(index[row]))?,
        }
    }
}
