//! The groups of one equality key whose values are strings or numbers.
//!
//! A string of up to twelve bytes is its own view. Numbers that lie close together, as those of a
//! key often do, index a table instead of being hashed.

use std::hash::BuildHasher;

use crate::error::{Result, internal_err};
use arrow::array::{Array, ArrayRef, Int64Array, StringViewArray};
use arrow::compute::{max, min};
use foldhash::fast::FixedState;

use super::values::Values;
use crate::NO_GROUP;
use crate::numbering::Numbering;

/// Dense ids of the values of one key.
#[derive(Debug)]
pub struct KeyGroups {
    /// The id of NULL, the last one, where two NULLs are equal.
    null: Option<u32>,
    ids: Ids,
}

#[derive(Debug)]
enum Ids {
    /// Ids of numbers that lie close together.
    Close(CloseNumbers),
    /// Ids of other numbers.
    Numbers(Numbering<i64>),
    /// Ids of strings, by their views, and the strings of the build side.
    Strings(Numbering<View>, StringViewArray),
}

/// Ids by number.
#[derive(Debug)]
struct CloseNumbers {
    least: i64,
    /// [`NO_GROUP`] for a number that there is none of.
    ids: Vec<u32>,
    /// How many numbers there are.
    count: u32,
}

/// Places of the table for each number at most: with fewer it is smaller than a hash table.
const PLACES: i128 = 4;

impl CloseNumbers {
    /// A table for `numbers`, where they lie close enough together.
    fn for_numbers(numbers: &Int64Array) -> Option<Self> {
        let (least, most) = (min(numbers)?, max(numbers)?);
        let places = i128::from(most) - i128::from(least) + 1;
        let close = places <= PLACES * numbers.len() as i128;
        close.then(|| Self { least, ids: vec![NO_GROUP; places as usize], count: 0 })
    }

    /// The place of a number; one beyond the table where it is not between the least and the most.
    #[inline]
    fn place(&self, number: i64) -> usize {
        number.wrapping_sub(self.least) as u64 as usize
    }

    /// The id of a number of those that the table is for.
    #[inline]
    fn intern(&mut self, number: i64) -> u32 {
        let place = self.place(number);
        let id = &mut self.ids[place];
        if *id == NO_GROUP {
            *id = self.count;
            self.count += 1;
        }
        *id
    }

    #[inline]
    fn find(&self, number: i64) -> u32 {
        self.ids.get(self.place(number)).copied().unwrap_or(NO_GROUP)
    }
}

/// The longest string that its view holds.
const INLINE: u32 = 12;

impl KeyGroups {
    /// The groups of a build side, and the group of each row, by up to `threads` threads.
    pub(super) fn build(column: &ArrayRef, null_equals_null: bool, threads: usize) -> Result<(Self, Vec<u32>)> {
        let values = Values::of(column)?;
        let nulls = values.nulls();
        let (ids, mut groups, count) = match values {
            Values::Numbers(numbers) => match CloseNumbers::for_numbers(&numbers) {
                Some(mut close) => {
                    let groups = numbers.iter().map(|n| n.map_or(NO_GROUP, |n| close.intern(n))).collect();
                    let count = close.count;
                    (Ids::Close(close), groups, count)
                }
                None => {
                    let key = |row| numbers.is_valid(row).then(|| numbers.value(row));
                    let equal = |one: &i64, other: &i64| one == other;
                    let (numbering, groups) = Numbering::of_rows(numbers.len(), threads, key, hash_of_number, equal);
                    let count = numbering.count();
                    (Ids::Numbers(numbering), groups, count)
                }
            },
            Values::Strings(strings) => {
                let key = |row| strings.is_valid(row).then(|| View::of(&strings, row));
                let hash = |view: &View| view.hash(&strings);
                let equal = |one: &View, other: &View| one.is(&strings, other, &strings);
                let (numbering, groups) = Numbering::of_rows(strings.len(), threads, key, hash, equal);
                let count = numbering.count();
                (Ids::Strings(numbering, strings), groups, count)
            }
        };
        let nulls = nulls.filter(|_| null_equals_null);
        if let Some(nulls) = &nulls {
            groups.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(group, _)| *group = count);
        }
        Ok((Self { null: nulls.map(|_| count), ids }, groups))
    }

    /// The build side's group of each row, [`NO_GROUP`] where it has none.
    pub(super) fn look_up(&self, column: &ArrayRef) -> Result<Vec<u32>> {
        let null = self.null.unwrap_or(NO_GROUP);
        Ok(match (&self.ids, Values::of(column)?) {
            (Ids::Close(close), Values::Numbers(numbers)) => {
                numbers.iter().map(|number| number.map_or(null, |number| close.find(number))).collect()
            }
            (Ids::Numbers(numbering), Values::Numbers(numbers)) => {
                let find = |number: i64| numbering.find(hash_of_number(&number), |&known| known == number);
                let id = |number: Option<i64>| number.map_or(null, |number| find(number).unwrap_or(NO_GROUP));
                numbers.iter().map(id).collect()
            }
            (Ids::Strings(numbering, known), Values::Strings(strings)) => {
                let find = |view: View| numbering.find(view.hash(&strings), |one| one.is(known, &view, &strings));
                let id = |row| match strings.is_null(row) {
                    true => null,
                    false => find(View::of(&strings, row)).unwrap_or(NO_GROUP),
                };
                (0..strings.len()).map(id).collect()
            }
            _ => return internal_err!("the sides of an equality have keys of different kinds"),
        })
    }

    pub(super) fn memory(&self) -> usize {
        // the strings themselves are those of the collected rows, or count with them
        match &self.ids {
            Ids::Close(close) => close.ids.capacity() * size_of::<u32>(),
            Ids::Numbers(numbering) => numbering.memory(),
            Ids::Strings(numbering, _) => numbering.memory(),
        }
    }
}

fn hash_of_number(number: &i64) -> u64 {
    FixedState::default().hash_one(number)
}

/// The view of a string, as two halves: its length and first bytes, and either the rest of it or where it stands.
#[derive(Debug, Clone, Copy)]
struct View([u64; 2]);

impl View {
    #[inline]
    fn of(strings: &StringViewArray, row: usize) -> Self {
        let view = strings.views()[row];
        Self([view as u64, (view >> u64::BITS) as u64])
    }

    /// Whether it holds all of the string.
    #[inline]
    fn is_short(self) -> bool {
        self.0[0] as u32 <= INLINE
    }

    /// A longer string, one of these.
    #[inline]
    fn text(self, strings: &StringViewArray) -> &[u8] {
        let [length, buffer, start] = [self.0[0] as u32, self.0[1] as u32, (self.0[1] >> u32::BITS) as u32];
        &strings.data_buffers()[buffer as usize][start as usize..][..length as usize]
    }

    #[inline]
    fn hash(self, strings: &StringViewArray) -> u64 {
        match self.is_short() {
            true => FixedState::default().hash_one((self.0[0], self.0[1])),
            false => FixedState::default().hash_one(self.text(strings)),
        }
    }

    /// Whether it is the same string, each of its own column.
    #[inline]
    fn is(self, strings: &StringViewArray, other: &Self, others: &StringViewArray) -> bool {
        match self.is_short() {
            true => self.0 == other.0,
            false => self.0[0] == other.0[0] && self.text(strings) == other.text(others),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int32Array, LargeStringArray, StringArray};
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, Int32Type};

    use super::*;

    #[test]
    fn equal_values_have_equal_groups() {
        let long = "a string that no view holds";
        let texts = vec![Some("x"), None, Some(long), Some("x"), Some(""), Some(long), None, Some("a string tha")];
        let plain: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        for null_equals_null in [false, true] {
            let null = if null_equals_null { 4 } else { NO_GROUP };
            let by_hand = vec![0, null, 1, 0, 2, 1, null, 3];
            let (groups, ids) = KeyGroups::build(&plain, null_equals_null, 2).unwrap();
            assert_eq!(ids, by_hand);
            let others: [ArrayRef; 3] = [
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>()),
                cast(&plain, &DataType::Utf8View).unwrap(),
            ];
            for other in &others {
                assert_eq!(groups.look_up(other).unwrap(), by_hand, "{}", other.data_type());
            }
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 3]));
            assert!(groups.look_up(&numbers).is_err());
            let unknown: ArrayRef = Arc::new(StringArray::from(vec!["y", "another string that no view holds"]));
            assert_eq!(groups.look_up(&unknown).unwrap(), [NO_GROUP; 2]);
        }
    }

    #[test]
    fn a_dictionary_whose_value_is_null_has_no_group() {
        let values = StringArray::from(vec![Some("x"), None, Some("")]);
        let keys = Int32Array::from(vec![Some(1), Some(0), Some(2), None]);
        let column: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
        let (groups, ids) = KeyGroups::build(&column, false, 1).unwrap();
        assert_eq!(ids, [NO_GROUP, 0, 1, NO_GROUP]);
        assert_eq!(groups.look_up(&column).unwrap(), ids);
    }

    #[test]
    fn equal_numbers_have_equal_groups() {
        for (other, close) in [(7, true), (15, false), (i64::MAX, false)] {
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None, Some(other), Some(-1)]));
            let (groups, ids) = KeyGroups::build(&numbers, false, 2).unwrap();
            assert_eq!(matches!(groups.ids, Ids::Close(_)), close);
            assert_eq!(ids, [0, NO_GROUP, 1, 0]);
            assert_eq!(groups.look_up(&numbers).unwrap(), ids);
            let unknown: ArrayRef = Arc::new(Int64Array::from(vec![-2, 0, 6, 8, i64::MIN, i64::MAX - 1]));
            assert_eq!(groups.look_up(&unknown).unwrap(), [NO_GROUP; 6]);
        }
        let (_, ids) =
            KeyGroups::build(&(Arc::new(Int32Array::from(vec![Some(3), None, None])) as ArrayRef), true, 2).unwrap();
        assert_eq!(ids, [0, 1, 1]);
        let (_, ids) = KeyGroups::build(&(Arc::new(Int32Array::from(vec![None; 2])) as ArrayRef), false, 2).unwrap();
        assert_eq!(ids, [NO_GROUP; 2]);
    }
}
