//! Keys that repeat: rows of one group with the same value, which an index has to see only once.
//!
//! ```text
//! rows   0:x  1:y  2:x  3:NULL  4:x  5:y        ranks  4 0 1 5 2 3
//! keys   x: rows 2 4 0      y: rows 1 5         the rows of a key by their ranks
//! ```
//!
//! Two values are the same where Arrow's row format of them is: bit by bit, so that every score of one is a score of
//! the other. A sample tells beforehand whether enough rows share their keys; it misses few rows' worth of
//! repetition.

mod nearest;
mod spread;

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::row::{Row, RowConverter, Rows, SortField};
use foldhash::fast::FixedState;
use hashbrown::{HashSet, HashTable};

use super::{Cancel, KeyColumn, NO_GROUP};
use crate::stored::stored;

pub use nearest::{NearestRepeated, RankedRows};
pub use spread::Spread;

/// Rows that a key has on average from which on an index of pairs sees each key once.
pub const FEWEST_ROWS: f64 = 2.0;

/// Rows whose keys are read at once.
const CHUNK: usize = 1 << 13;
/// Sampled rows for each row that a square of them has: eight pairs of them share a key where each row shares its key
/// with one other on average.
const SAMPLED: usize = 4;
const FEWEST_SAMPLED: usize = 64;
/// Sampled rows that share their keys with others, below which a sample tells nothing.
const FEWEST_SHARED: usize = 16;

/// The rows of one side, key by key.
#[derive(Debug)]
pub struct Repeated {
    /// Rows that have a value and a group, key by key; those of a key by their ranks.
    rows: Vec<u32>,
    /// Where the rows of each key begin, and the end of the last one.
    starts: Vec<u32>,
}

stored!(Repeated { rows, starts });

impl Repeated {
    /// The keys of a side whose rows have `ranks`, or are as good as each other; `None` where its rows share their keys
    /// with fewer than one other row on average, or where `reserve` refuses the memory.
    ///
    /// # Errors
    /// Values that Arrow cannot read, a cancelled query.
    pub fn of(
        keys: &KeyColumn,
        ranks: Option<&[u32]>,
        cancel: &Cancel,
        reserve: &(dyn Fn(usize) -> Result<()> + Sync),
    ) -> Result<Option<Self>> {
        let field = SortField::new(keys.values.data_type().clone());
        let rows = keys.values.len();
        if !RowConverter::supports_fields(std::slice::from_ref(&field)) || !sample_repeats(keys, &field)? {
            return Ok(None);
        }
        if reserve(3 * (rows + 1) * size_of::<u32>()).is_err() {
            return Ok(None);
        }
        let mut numbers = vec![NO_GROUP; rows];
        let mut known = Known::new(field)?;
        for start in (0..rows).step_by(CHUNK) {
            cancel.check()?;
            let before = known.memory();
            known.number(keys, start..rows.min(start + CHUNK), &mut numbers)?;
            if reserve(known.memory() - before).is_err() {
                return Ok(None);
            }
        }
        let repeated = Self::by_number(&numbers, known.count(), ranks);
        Ok(repeated.is_worthwhile(rows).then_some(repeated))
    }

    fn by_number(numbers: &[u32], count: usize, ranks: Option<&[u32]>) -> Self {
        let mut starts = vec![0; count + 1];
        let numbered = || (0u32..).zip(numbers).filter(|(_, number)| **number != NO_GROUP);
        numbered().for_each(|(_, &number)| starts[number as usize + 1] += 1);
        (1..starts.len()).for_each(|key| starts[key] += starts[key - 1]);
        let mut next = starts.clone();
        let mut rows = vec![0; starts[count] as usize];
        for (row, &number) in numbered() {
            let place = &mut next[number as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        let mut repeated = Self { rows, starts };
        ranks.into_iter().for_each(|ranks| repeated.sort(ranks));
        repeated
    }

    fn sort(&mut self, ranks: &[u32]) {
        let rank = |&row: &u32| (ranks[row as usize], row);
        for key in 0..self.count() {
            let rows = self.places(key as u32);
            let rows = &mut self.rows[rows];
            if !rows.is_sorted_by_key(rank) {
                rows.sort_unstable_by_key(rank);
            }
        }
    }

    /// Whether a row shares its key with another one on average.
    fn is_worthwhile(&self, rows: usize) -> bool {
        let shared: usize = self.starts.windows(2).map(|key| (key[1] - key[0]) as usize).map(|n| n * (n - 1)).sum();
        shared >= rows
    }

    /// How many rows a key has on average.
    pub fn mean_rows(&self) -> f64 {
        self.rows.len() as f64 / self.count().max(1) as f64
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn places(&self, key: u32) -> Range<usize> {
        self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize
    }

    /// The rows of a key, the best rank first.
    pub fn rows(&self, key: u32) -> &[u32] {
        &self.rows[self.places(key)]
    }

    /// All rows that have a key.
    pub fn all(&self) -> &[u32] {
        &self.rows
    }

    /// The best row of each key.
    pub fn first_rows(&self) -> impl Iterator<Item = u32> {
        self.starts[..self.count()].iter().map(|&start| self.rows[start as usize])
    }

    /// Each key once, at the place of its number.
    ///
    /// # Errors
    /// Values that Arrow cannot take.
    pub fn keys(&self, of: &KeyColumn) -> Result<KeyColumn> {
        let values = take(&of.values, &UInt32Array::from_iter_values(self.first_rows()), None)?;
        let groups = of.groups.as_ref().map(|groups| self.first_rows().map(|row| groups[row as usize]).collect());
        Ok(KeyColumn { values, groups })
    }

    /// The best rank of each key.
    pub fn ranks(&self, of: &[u32]) -> Vec<u32> {
        self.first_rows().map(|row| of[row as usize]).collect()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.rows.capacity() + self.starts.capacity()) * size_of::<u32>()
    }
}

/// How many of so many `rows` have the same key on average, by the keys of a sample of them; 1 where it cannot tell.
///
/// The number of keys is the lower bound of Chao, *Nonparametric estimation of the number of classes in a population*,
/// 1984, by those that one and that two sampled rows have.
///
/// # Errors
/// Values that Arrow cannot read.
pub fn estimated_mean_rows(sampled: &KeyColumn, rows: usize) -> Result<f64> {
    let count = sampled.values.len();
    let field = SortField::new(sampled.values.data_type().clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        return Ok(1.0);
    }
    let (mut known, mut numbers) = (Known::new(field)?, vec![NO_GROUP; count]);
    known.number(sampled, 0..count, &mut numbers)?;
    let repeated = Repeated::by_number(&numbers, known.count(), None);
    let so_often = |n| (0..repeated.count() as u32).filter(|&key| repeated.rows(key).len() == n).count() as f64;
    let (once, twice) = (so_often(1), so_often(2));
    let shared: usize = (0..repeated.count() as u32).map(|key| repeated.rows(key).len()).filter(|&n| n > 1).sum();
    if shared < FEWEST_SHARED {
        return Ok(1.0);
    }
    let unseen = once * (once - 1.0) / (2.0 * (twice + 1.0));
    let with_key = rows as f64 * repeated.all().len() as f64 / count as f64;
    Ok((with_key / (repeated.count() as f64 + unseen)).max(1.0))
}

/// Rows that have a value and a group.
fn has_key(keys: &KeyColumn) -> impl Fn(usize) -> bool {
    let nulls = keys.values.logical_nulls();
    let groups = keys.groups.as_deref();
    move |row| {
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && groups.is_none_or(|groups| groups[row] != NO_GROUP)
    }
}

/// The columns that tell keys apart.
fn columns(values: ArrayRef, groups: impl Iterator<Item = u32>) -> [ArrayRef; 2] {
    [values, Arc::new(UInt32Array::from_iter_values(groups))]
}

fn converter(field: &SortField) -> Result<RowConverter> {
    let group = SortField::new(DataType::UInt32);
    Ok(RowConverter::new(vec![field.clone(), group])?)
}

/// Whether two of some rows, each from another stretch, share a key.
fn sample_repeats(keys: &KeyColumn, field: &SortField) -> Result<bool> {
    let (rows, hasher) = (keys.values.len(), FixedState::default());
    if rows < 2 {
        return Ok(false);
    }
    let count = rows.min((SAMPLED * rows.isqrt()).max(FEWEST_SAMPLED));
    let has_key = has_key(keys);
    let first = |stretch: usize| stretch * rows / count;
    let sampled = (0..count).map(|stretch| {
        let stretch = first(stretch)..first(stretch + 1);
        stretch.start + hasher.hash_one(stretch.start) as usize % stretch.len()
    });
    let sampled: Vec<u32> = sampled.filter(|&row| has_key(row)).map(|row| row as u32).collect();
    let group = |row: &u32| keys.groups.as_ref().map_or(0, |groups| groups[*row as usize]);
    let values = take(&keys.values, &UInt32Array::from(sampled.clone()), None)?;
    let sampled = converter(field)?.convert_columns(&columns(values, sampled.iter().map(group)))?;
    let mut seen = HashSet::with_capacity_and_hasher(sampled.num_rows(), hasher);
    Ok(!sampled.iter().all(|row| seen.insert(row)))
}

/// The keys met so far.
struct Known {
    converter: RowConverter,
    keys: Rows,
    numbers: HashTable<u32>,
    hasher: FixedState,
}

impl Known {
    fn new(field: SortField) -> Result<Self> {
        let converter = converter(&field)?;
        let (keys, numbers) = (converter.empty_rows(0, 0), HashTable::new());
        Ok(Self { converter, keys, numbers, hasher: FixedState::default() })
    }

    /// Numbers the keys of some rows; a row without one keeps the number that it has.
    fn number(&mut self, keys: &KeyColumn, range: Range<usize>, numbers: &mut [u32]) -> Result<()> {
        let has_key = has_key(keys);
        let group = |row: usize| keys.groups.as_ref().map_or(0, |groups| groups[row]);
        let values = keys.values.slice(range.start, range.len());
        let rows = self.converter.convert_columns(&columns(values, range.clone().map(group)))?;
        for (row, key) in range.zip(&rows).filter(|(row, _)| has_key(*row)) {
            numbers[row] = self.intern(key);
        }
        Ok(())
    }

    fn intern(&mut self, key: Row<'_>) -> u32 {
        let Self { keys, numbers, hasher, .. } = self;
        let hash = hasher.hash_one(key.as_ref());
        if let Some(&number) = numbers.find(hash, |&number| keys.row(number as usize) == key) {
            return number;
        }
        let number = keys.num_rows() as u32;
        keys.push(key);
        numbers.insert_unique(hash, number, |&number| hasher.hash_one(keys.row(number as usize).as_ref()));
        number
    }

    fn count(&self) -> usize {
        self.keys.num_rows()
    }

    fn memory(&self) -> usize {
        self.keys.size() + self.numbers.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListArray, StringArray};
    use arrow::datatypes::Float64Type;

    use super::*;

    fn of(keys: &KeyColumn, ranks: Option<&[u32]>) -> Option<Repeated> {
        Repeated::of(keys, ranks, &Cancel::default(), &|_| Ok(())).unwrap()
    }

    fn texts(texts: &[Option<&str>], groups: Option<Vec<u32>>) -> KeyColumn {
        KeyColumn { values: Arc::new(StringArray::from(texts.to_vec())), groups }
    }

    #[test]
    fn rows_of_a_key_stand_by_their_ranks() {
        let keys = texts(&[Some("x"), Some("y"), Some("x"), None, Some("x"), Some("y")], None);
        let ranks = [4, 0, 1, 5, 2, 3];
        let repeated = of(&keys, Some(&ranks)).unwrap();
        assert_eq!((repeated.rows(0), repeated.rows(1)), (&[2, 4, 0][..], &[1, 5][..]));
        assert_eq!((repeated.count(), repeated.all().len(), repeated.ranks(&ranks)), (2, 5, vec![1, 0]));
        assert_eq!(repeated.keys(&keys).unwrap().values.as_ref(), &StringArray::from(vec!["x", "y"]));
        assert_eq!(of(&keys, None).unwrap().rows(0), [0, 2, 4]);
    }

    #[test]
    fn keys_of_other_groups_are_others() {
        let x = [Some("x"); 7];
        let repeated = of(&texts(&x, Some(vec![5, 2, 5, 5, NO_GROUP, 2, 2])), None).unwrap();
        assert_eq!((repeated.rows(0), repeated.rows(1), repeated.all().len()), (&[0, 2, 3][..], &[1, 5, 6][..], 6));
        let keys = repeated.keys(&texts(&x, Some(vec![5, 2, 5, 5, NO_GROUP, 2, 2]))).unwrap();
        assert_eq!(keys.groups, Some(vec![5, 2]));
        assert!(of(&texts(&x, Some((0..7).collect())), None).is_none());
    }

    #[test]
    fn few_rows_that_share_a_key_are_not_worth_it() {
        let text = |n: usize| Some(if n < 20 { "x".to_owned() } else { n.to_string() });
        let keys =
            |rows: usize| KeyColumn { values: Arc::new((0..rows).map(text).collect::<StringArray>()), groups: None };
        assert!(of(&keys(300), None).is_some(), "380 shares of 300 rows");
        assert!(of(&keys(400), None).is_none(), "380 shares of 400 rows");
        assert!(of(&keys(0), None).is_none() && of(&keys(1), None).is_none());
    }

    #[test]
    fn a_sample_tells_how_many_rows_have_the_same_key() {
        let rows = 1_000_000;
        let estimated = |different: usize| {
            let text = |n: usize| {
                (!n.is_multiple_of(10)).then(|| (FixedState::default().hash_one(n) as usize % different).to_string())
            };
            let values = Arc::new((0..2048).map(text).collect::<StringArray>());
            estimated_mean_rows(&KeyColumn { values, groups: None }, rows).unwrap()
        };
        for different in [1, 100, 1_000, 10_000, 50_000] {
            let mean = 900_000.0 / different as f64;
            assert!((0.5 * mean..2.0 * mean).contains(&estimated(different)), "{different}: {}", estimated(different));
        }
        assert_eq!(estimated(usize::MAX), 1.0);
        let apart = KeyColumn { values: Arc::new(StringArray::from(vec!["x"; 100])), groups: Some((0..100).collect()) };
        assert_eq!(estimated_mean_rows(&apart, 100).unwrap(), 1.0);
    }

    #[test]
    fn a_sample_of_many_rows_finds_the_few_that_repeat() {
        let rows = 200_000;
        let text = |n: usize| Some(if n.is_multiple_of(400) { "x".to_owned() } else { n.to_string() });
        let keys = KeyColumn { values: Arc::new((0..rows).map(text).collect::<StringArray>()), groups: None };
        assert_eq!(of(&keys, None).unwrap().rows(0).len(), 500);
        let refused = |_| crate::error::keys_err!("no more");
        assert!(Repeated::of(&keys, None, &Cancel::default(), &refused).unwrap().is_none());
    }

    #[test]
    fn vectors_are_the_same_bit_by_bit() {
        let vectors = [[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [-0.0, 1.0]];
        let lists = vectors.map(|vector| Some(vector.map(Some).to_vec()));
        let values: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
        let repeated = of(&KeyColumn { values: values.clone(), groups: None }, None).unwrap();
        assert_eq!((repeated.rows(0), repeated.rows(1)), (&[0, 2, 3][..], &[1, 4][..]));
        let sliced = of(&KeyColumn { values: values.slice(2, 3), groups: None }, None);
        assert!(sliced.is_none(), "two of three rows share a key");
    }
}
