//! Strings of a column as views.

use crate::error::Result;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;

/// The strings of a column of any type of strings; views share the buffers of the strings that they are made of. A row
/// whose value in a dictionary is NULL is NULL.
///
/// # Errors
/// A column of another type.
pub fn string_views(column: &ArrayRef) -> Result<StringViewArray> {
    let cast = cast(column, &DataType::Utf8View)?;
    let views = cast.as_string_view();
    let nulls = match column.data_type() {
        // the cast looks at the NULLs of keys alone
        DataType::Dictionary(..) => NullBuffer::union(views.nulls(), column.logical_nulls().as_ref()),
        _ => return Ok(views.clone()),
    };
    Ok(StringViewArray::try_new(views.views().clone(), views.data_buffers().to_vec(), nulls)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int32Array, LargeStringArray, StringArray};

    use super::*;

    #[test]
    fn all_types_of_strings_have_the_same_views() {
        let long = "a string that no view holds";
        let texts = [Some("x"), None, Some(long), Some(""), None, Some("x")];
        let expected: StringViewArray = texts.into_iter().collect();
        let plain: ArrayRef = Arc::new(texts.into_iter().collect::<StringArray>());
        let large: ArrayRef = Arc::new(texts.into_iter().collect::<LargeStringArray>());
        // a NULL by its key, and one by its value
        let keys = Int32Array::from(vec![Some(2), None, Some(3), Some(0), Some(1), Some(2)]);
        let values = StringArray::from(vec![Some(""), None, Some("x"), Some(long)]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
        for column in [plain, large, dictionary, Arc::new(expected.clone())] {
            let views = string_views(&column).unwrap();
            assert!(views.iter().eq(expected.iter()), "{}", column.data_type());
            assert!(string_views(&column.slice(1, 4)).unwrap().iter().eq(expected.slice(1, 4).iter()));
        }
        let structs: ArrayRef = Arc::new(arrow::array::StructArray::new_empty_fields(3, None));
        assert!(string_views(&structs).is_err());
    }
}
