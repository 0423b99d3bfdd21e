//! The groups of one equality key whose values are strings or whole numbers.
//!
//! A string of up to twelve bytes is its own view, one integer; so is a number. Numbers that lie close together, as those of a
//! key often do, index a table instead of being hashed.

use std::hash::BuildHasher;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use crate::engine::NO_GROUP;

/// Dense ids of the values of one key.
#[derive(Debug)]
pub(super) struct KeyGroups {
    /// The id of NULL, where two NULLs are equal.
    null: Option<u32>,
    short: HashMap<u128, u32, FixedState>,
    /// Numbers that lie close together.
    close: Option<CloseNumbers>,
    /// Hash, id and row of each longer string.
    long: HashTable<(u64, u32, u32)>,
    /// The build side, for the longer strings.
    values: Option<StringViewArray>,
    next: u32,
    hasher: FixedState,
}

/// Ids by number.
#[derive(Debug)]
struct CloseNumbers {
    least: i64,
    /// [`NO_GROUP`] for a number that there is none of.
    ids: Vec<u32>,
}

/// Places of the table for each number at most: with fewer it is smaller than a hash table.
const PLACES: i128 = 4;

impl CloseNumbers {
    /// A table for `numbers`, where they lie close enough together.
    fn for_numbers(numbers: &Int64Array) -> Option<Self> {
        let (least, most) = (min(numbers)?, max(numbers)?);
        let places = i128::from(most) - i128::from(least) + 1;
        let close = places <= PLACES * numbers.len() as i128;
        close.then(|| Self { least, ids: vec![NO_GROUP; places as usize] })
    }

    /// The place of a number; one beyond the table where it is not between the least and the most.
    #[inline]
    fn place(&self, number: i64) -> usize {
        number.wrapping_sub(self.least) as u64 as usize
    }

    #[inline]
    fn find(&self, number: i64) -> u32 {
        self.ids.get(self.place(number)).copied().unwrap_or(NO_GROUP)
    }
}

/// The longest string that its view holds.
const INLINE: u32 = 12;

/// A key column in one of two forms.
enum Values {
    Strings(StringViewArray),
    Numbers(ArrayRef),
}

impl Values {
    fn of(column: &ArrayRef) -> Result<Self> {
        Ok(match column.data_type() {
            DataType::Int64 => Self::Numbers(ArrayRef::clone(column)),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Date32 => {
                Self::Numbers(cast(column, &DataType::Int64)?)
            }
            _ => Self::Strings(cast(column, &DataType::Utf8View)?.as_string_view().clone()),
        })
    }
}

impl KeyGroups {
    /// Whether keys of this type can be told apart here.
    pub(super) fn supports(data_type: &DataType) -> bool {
        match data_type {
            DataType::Dictionary(_, value) => value.is_string(),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32 => true,
            other => other.is_string(),
        }
    }

    /// The groups of a build side, and the group of each row.
    pub(super) fn build(column: &ArrayRef, null_equals_null: bool) -> Result<(Self, Vec<u32>)> {
        let mut groups = Self {
            null: None,
            short: HashMap::default(),
            close: None,
            long: HashTable::new(),
            values: None,
            next: 0,
            hasher: FixedState::default(),
        };
        let values = Values::of(column)?;
        let mut ids = Vec::with_capacity(column.len());
        match &values {
            Values::Numbers(numbers) => {
                let numbers = numbers.as_primitive::<Int64Type>();
                groups.close = CloseNumbers::for_numbers(numbers);
                for number in numbers {
                    ids.push(match number {
                        Some(number) => groups.intern_number(number),
                        None => groups.intern_null(null_equals_null),
                    });
                }
            }
            Values::Strings(strings) => {
                for row in 0..strings.len() {
                    ids.push(match strings.is_null(row) {
                        true => groups.intern_null(null_equals_null),
                        false if strings.views()[row] as u32 <= INLINE => groups.intern_short(strings.views()[row]),
                        false => groups.intern_long(strings, row),
                    });
                }
            }
        }
        if let Values::Strings(strings) = values {
            groups.values = Some(strings);
        }
        Ok((groups, ids))
    }

    /// The build side's group of each row, [`NO_GROUP`] where it has none.
    pub(super) fn look_up(&self, column: &ArrayRef) -> Result<Vec<u32>> {
        let null = self.null.unwrap_or(NO_GROUP);
        let short = |key: u128| self.short.get(&key).copied().unwrap_or(NO_GROUP);
        Ok(match Values::of(column)? {
            Values::Numbers(numbers) => {
                let numbers = numbers.as_primitive::<Int64Type>();
                let find = |number: i64| match &self.close {
                    Some(close) => close.find(number),
                    None => short(number as u64 as u128),
                };
                numbers.iter().map(|number| number.map_or(null, find)).collect()
            }
            Values::Strings(strings) => {
                let id = |row: usize| match strings.is_null(row) {
                    true => null,
                    false if strings.views()[row] as u32 <= INLINE => short(strings.views()[row]),
                    false => self.find_long(strings.value(row)).unwrap_or(NO_GROUP),
                };
                (0..strings.len()).map(id).collect()
            }
        })
    }

    pub(super) fn memory(&self) -> usize {
        // the strings themselves are those of the collected rows, or count with them
        let close = self.close.as_ref().map_or(0, |close| close.ids.capacity() * size_of::<u32>());
        self.short.allocation_size() + self.long.allocation_size() + close
    }

    fn new_id(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn intern_null(&mut self, equal: bool) -> u32 {
        if !equal {
            return NO_GROUP;
        }
        match self.null {
            Some(id) => id,
            None => {
                let id = self.new_id();
                self.null = Some(id);
                id
            }
        }
    }

    #[inline]
    fn intern_number(&mut self, number: i64) -> u32 {
        let Some(close) = &mut self.close else { return self.intern_short(number as u64 as u128) };
        let place = close.place(number);
        let id = &mut close.ids[place];
        if *id == NO_GROUP {
            *id = self.next;
            self.next += 1;
        }
        *id
    }

    fn intern_short(&mut self, key: u128) -> u32 {
        let next = self.next;
        let id = *self.short.entry(key).or_insert(next);
        self.next += u32::from(id == next);
        id
    }

    fn intern_long(&mut self, strings: &StringViewArray, row: usize) -> u32 {
        let text = strings.value(row);
        let hash = self.hasher.hash_one(text.as_bytes());
        let known = self.long.find(hash, |&(h, _, at)| h == hash && strings.value(at as usize) == text);
        if let Some(&(_, id, _)) = known {
            return id;
        }
        let id = self.new_id();
        self.long.insert_unique(hash, (hash, id, row as u32), |&(hash, ..)| hash);
        id
    }

    fn find_long(&self, text: &str) -> Option<u32> {
        let strings = self.values.as_ref()?;
        let hash = self.hasher.hash_one(text.as_bytes());
        let known = self.long.find(hash, |&(h, _, at)| h == hash && strings.value(at as usize) == text);
        known.map(|&(_, id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{DictionaryArray, Int32Array, LargeStringArray, StringArray};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn equal_values_have_equal_groups() {
        let long = "a string that no view holds";
        let texts = vec![Some("x"), None, Some(long), Some("x"), Some(""), Some(long), None, Some("a string tha")];
        let plain: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        for null_equals_null in [false, true] {
            let null = if null_equals_null { 1 } else { NO_GROUP };
            let by_hand: Vec<u32> = match null_equals_null {
                true => vec![0, null, 2, 0, 3, 2, null, 4],
                false => vec![0, null, 1, 0, 2, 1, null, 3],
            };
            let (groups, ids) = KeyGroups::build(&plain, null_equals_null).unwrap();
            assert_eq!(ids, by_hand);
            let others: [ArrayRef; 3] = [
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>()),
                cast(&plain, &DataType::Utf8View).unwrap(),
            ];
            for other in &others {
                assert_eq!(groups.look_up(other).unwrap(), by_hand, "{}", other.data_type());
            }
            let unknown: ArrayRef = Arc::new(StringArray::from(vec!["y", "another string that no view holds"]));
            assert_eq!(groups.look_up(&unknown).unwrap(), [NO_GROUP; 2]);
        }
    }

    #[test]
    fn equal_numbers_have_equal_groups() {
        for (other, close) in [(7, true), (15, false), (i64::MAX, false)] {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(other), Some(-1)]));
            let (groups, ids) = KeyGroups::build(&numbers, false).unwrap();
            assert_eq!(groups.close.is_some(), close);
            assert_eq!(ids, [0, NO_GROUP, 1, 0]);
            assert_eq!(groups.look_up(&numbers).unwrap(), ids);
            let unknown: ArrayRef = Arc::new(Int64Array::from(vec![-2, 0, 6, 8, i64::MIN, i64::MAX - 1]));
            assert_eq!(groups.look_up(&unknown).unwrap(), [NO_GROUP; 6]);
        }
        let (_, ids) =
            KeyGroups::build(&(Arc::new(Int32Array::from(vec![Some(3), None, None])) as ArrayRef), true).unwrap();
        assert_eq!(ids, [0, 1, 1]);
        let (_, ids) = KeyGroups::build(&(Arc::new(Int32Array::from(vec![None; 2])) as ArrayRef), false).unwrap();
        assert_eq!(ids, [NO_GROUP; 2]);
    }
}
