//! Lists of any Arrow type, by row.

use std::ops::Range;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, OffsetSizeTrait,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ColumnarValue;

/// One list argument: a column, or a constant that stands in every row.
pub(super) struct ListArgument {
    lists: Lists,
    /// The elements of these lists; the array behind them may hold those of many more.
    elements: ArrayRef,
    /// Where the first of them lies in the array behind.
    base: usize,
    constant: bool,
}

enum Lists {
    List(ListArray),
    LargeList(LargeListArray),
    FixedSizeList(FixedSizeListArray),
}

impl ListArgument {
    pub(super) fn try_new(function: &str, value: &ColumnarValue) -> Result<Self> {
        let (array, constant) = match value {
            ColumnarValue::Array(array) => (array.clone(), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array_of_size(1)?, true),
        };
        let lists = match array.data_type() {
            DataType::List(_) => Lists::List(array.as_list().clone()),
            DataType::LargeList(_) => Lists::LargeList(array.as_list().clone()),
            DataType::FixedSizeList(..) => Lists::FixedSizeList(array.as_fixed_size_list().clone()),
            other => return exec_err!("{function} takes lists, got {other}"),
        };
        let Range { start: base, end } = lists.span();
        let elements = lists.values().slice(base, end - base);
        Ok(Self { lists, elements, base, constant })
    }

    /// The elements of all lists, one after the other.
    pub(super) fn elements(&self) -> &ArrayRef {
        &self.elements
    }

    /// The places of the elements of the list in `row`, `None` for NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.constant { 0 } else { row };
        let places = self.lists.at(row)?;
        Some(places.start - self.base..places.end - self.base)
    }

    pub(super) fn is_constant(&self) -> bool {
        self.constant
    }
}

impl Lists {
    fn values(&self) -> &ArrayRef {
        match self {
            Self::List(lists) => lists.values(),
            Self::LargeList(lists) => lists.values(),
            Self::FixedSizeList(lists) => lists.values(),
        }
    }

    /// The places of all elements in the array behind.
    fn span(&self) -> Range<usize> {
        match self {
            Self::List(lists) => ends(lists.value_offsets()),
            Self::LargeList(lists) => ends(lists.value_offsets()),
            Self::FixedSizeList(lists) => {
                let start = lists.value_offset(0) as usize;
                start..start + lists.len() * lists.value_length() as usize
            }
        }
    }

    fn at(&self, row: usize) -> Option<Range<usize>> {
        match self {
            Self::List(lists) => lists.is_valid(row).then(|| between(lists.value_offsets(), row)),
            Self::LargeList(lists) => lists.is_valid(row).then(|| between(lists.value_offsets(), row)),
            Self::FixedSizeList(lists) => lists.is_valid(row).then(|| {
                let start = lists.value_offset(row) as usize;
                start..start + lists.value_length() as usize
            }),
        }
    }
}

fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> Range<usize> {
    offsets[0].as_usize()..offsets[offsets.len() - 1].as_usize()
}

fn between<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> Range<usize> {
    offsets[row].as_usize()..offsets[row + 1].as_usize()
}

/// The element type of a list type.
pub(super) fn element_type(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => Some(field.data_type()),
        _ => None,
    }
}
