//! The values of one equality key, as they are told apart.

use crate::error::Result;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, UInt64Type};

use crate::views::string_views;

/// A key column in one of two forms.
#[derive(Debug)]
pub enum Values {
    /// Strings of any type.
    Strings(StringViewArray),
    /// Whatever has a number of 64 bits of its own for each value.
    Numbers(Int64Array),
}

impl Values {
    /// Whether keys of this type have one of these forms.
    pub fn supports(data_type: &DataType) -> bool {
        match data_type {
            DataType::Dictionary(_, value) => value.is_string(),
            DataType::Boolean | DataType::Float32 | DataType::Float64 => true,
            DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => true,
            DataType::Timestamp(..) | DataType::Duration(_) => true,
            other => other.is_integer() || other.is_string(),
        }
    }

    /// The values of a column of a type that [has such a form](Self::supports). Floating-point numbers are equal where
    /// their bits are.
    ///
    /// # Errors
    /// A column of another type.
    pub fn of(column: &ArrayRef) -> Result<Self> {
        let as_numbers = |column: &dyn Array| cast(column, &DataType::Int64).map(|cast| cast.as_primitive().clone());
        Ok(Self::Numbers(match column.data_type() {
            DataType::Int64 => column.as_primitive().clone(),
            DataType::UInt64 => column.as_primitive::<UInt64Type>().unary(|number| number as i64),
            DataType::Float64 => column.as_primitive::<Float64Type>().unary(|number| number.to_bits() as i64),
            DataType::Float32 => column.as_primitive::<Float32Type>().unary(|number| i64::from(number.to_bits())),
            DataType::Time32(_) => as_numbers(&cast(column, &DataType::Int32)?)?,
            other if other.is_numeric() || other.is_temporal() || *other == DataType::Boolean => as_numbers(column)?,
            _ => return Ok(Self::Strings(string_views(column)?)),
        }))
    }

    /// The rows that have a value; none where all have.
    pub fn nulls(&self) -> Option<NullBuffer> {
        let nulls = match self {
            Self::Strings(strings) => strings.nulls(),
            Self::Numbers(numbers) => numbers.nulls(),
        };
        nulls.filter(|nulls| nulls.null_count() > 0).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use arrow::array::Float64Array;
    use arrow::datatypes::TimeUnit;

    use super::*;
    use crate::equality::rows::RowGroups;
    use crate::equality::{Groups, Numberer};

    #[test]
    fn keys_of_all_types_group_as_rows_do() {
        let number = |row: i64| (row % 7 > 0).then_some(row * row % 11);
        let numbers: ArrayRef = Arc::new((0..60).map(number).collect::<Int64Array>());
        let unit = TimeUnit::Microsecond;
        let mut columns: Vec<ArrayRef> = [
            DataType::Boolean,
            DataType::Int8,
            DataType::UInt8,
            DataType::Int16,
            DataType::UInt16,
            DataType::Int32,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float32,
            DataType::Float64,
            DataType::Date64,
            DataType::Time64(unit),
            DataType::Timestamp(unit, Some("+01:00".into())),
            DataType::Duration(unit),
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
        ]
        .iter()
        .map(|data_type| cast(&numbers, data_type).unwrap())
        .collect();
        for data_type in [DataType::Date32, DataType::Time32(TimeUnit::Second)] {
            columns.push(cast(&cast(&numbers, &DataType::Int32).unwrap(), &data_type).unwrap());
        }
        let special = [f64::NAN, f64::INFINITY, 0.0, f64::MIN_POSITIVE / 2.0, f64::from_bits(f64::NAN.to_bits() + 1)];
        columns.push(Arc::new((0..60).map(|row| special[row % 5]).collect::<Float64Array>()));
        columns.push(numbers);
        for column in columns {
            assert!(Values::supports(column.data_type()), "{}", column.data_type());
            let columns = [Arc::clone(&column)];
            let by = Numberer { threads: 2, self_join: false, device: None };
            let (groups, ids) = Groups::build(&columns, vec![false], by).unwrap();
            assert!(matches!(groups, Groups::Keys(_)));
            let (_, expected) = RowGroups::build(&columns, vec![false]).unwrap();
            let renamed: BTreeSet<_> = expected.iter().copied().zip(ids.on_host().unwrap().iter().copied()).collect();
            let names: BTreeMap<u32, u32> = renamed.iter().copied().collect();
            let different: BTreeSet<_> = names.values().collect();
            assert!(renamed.len() == names.len() && different.len() == names.len(), "{}", column.data_type());
            assert_eq!(groups.look_up(&columns).unwrap().on_host().unwrap(), ids.on_host().unwrap());
        }
    }
}
