//! Strings of any Arrow type, by row.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, LargeStringArray, StringArray, StringBuilder, StringViewArray,
};
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

    /// A column of strings, `None` for one of another type.
    pub(super) fn of_column(column: &ArrayRef) -> Option<Self> {
        Some(Self { values: Values::of_column(column)?, constant: false })
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
    fn of_column(column: &ArrayRef) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Utf8 => Self::Utf8(column.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeUtf8(column.as_string().clone()),
            DataType::Utf8View => Self::Utf8View(column.as_string_view().clone()),
            _ => return None,
        })
    }

    fn try_new(function: &str, array: &ArrayRef) -> Result<Self> {
        if let Some(strings) = Self::of_column(array) {
            return Ok(strings);
        }
        match array.data_type() {
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

/// The bytes of the strings of one result. An array of type Utf8 cannot hold more of them than its offsets reach,
/// and aborts where it has to.
#[derive(Default)]
pub(super) struct ResultBytes(usize);

impl ResultBytes {
    /// Counts one more string.
    ///
    /// # Errors
    /// Where the array cannot hold it any more.
    pub(super) fn add(&mut self, function: &str, text: &str) -> Result<()> {
        self.0 = self.0.saturating_add(text.len());
        if self.0 > i32::MAX as usize {
            return exec_err!("{function}: the results of one batch exceed 2 GiB; use a smaller batch_size");
        }
        Ok(())
    }
}

/// One string a row, from one string a row.
///
/// # Errors
/// Where the results are too long for one array.
pub(super) fn map_strings(
    function: &str,
    argument: &StringArgument,
    rows: usize,
    map: impl Fn(&str) -> String,
) -> Result<ArrayRef> {
    let mut bytes = ResultBytes::default();
    let mut mapped = StringBuilder::new();
    for row in 0..rows {
        let text = argument.at(row).map(&map);
        bytes.add(function, text.as_deref().unwrap_or_default())?;
        mapped.append_option(text);
    }
    Ok(Arc::new(mapped.finish()))
}
