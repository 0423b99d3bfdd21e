//! Strings of any Arrow type, by row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ColumnarValue;

/// One string argument: a column, or a constant that stands in every row.
pub(super) struct StringArgument {
    values: Values,
    constant: bool,
}

enum Values {
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
}

impl StringArgument {
    pub(super) fn try_new(function: &str, value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self { values: Values::try_new(function, array)?, constant: false },
            ColumnarValue::Scalar(scalar) => {
                Self { values: Values::try_new(function, &scalar.to_array_of_size(1)?)?, constant: true }
            }
        })
    }

    /// The string in `row`, `None` for NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> Option<&str> {
        self.values.at(if self.constant { 0 } else { row })
    }

    pub(super) fn is_constant(&self) -> bool {
        self.constant
    }
}

impl Values {
    fn try_new(function: &str, array: &ArrayRef) -> Result<Self> {
        match array.data_type() {
            DataType::Utf8 => Ok(Self::Utf8(array.as_string().clone())),
            DataType::LargeUtf8 => Ok(Self::LargeUtf8(array.as_string().clone())),
            DataType::Utf8View => Ok(Self::Utf8View(array.as_string_view().clone())),
            DataType::Dictionary(_, value) => Self::try_new(function, &cast(array, value)?),
            DataType::Null => Self::try_new(function, &cast(array, &DataType::Utf8)?),
            other => exec_err!("{function} takes strings, got {other}"),
        }
    }

    #[inline]
    fn at(&self, row: usize) -> Option<&str> {
        match self {
            Self::Utf8(a) => a.is_valid(row).then(|| a.value(row)),
            Self::LargeUtf8(a) => a.is_valid(row).then(|| a.value(row)),
            Self::Utf8View(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }
}

/// One string a row, from one string a row.
pub(super) fn map_strings(argument: &StringArgument, rows: usize, map: impl Fn(&str) -> String) -> ArrayRef {
    Arc::new((0..rows).map(|row| argument.at(row).map(&map)).collect::<StringArray>())
}
