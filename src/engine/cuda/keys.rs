//! Equality keys numbered on a device, for joins in which nobody looks up others: self-joins.
//!
//! Where the CPU hashes values into tables, a device sorts them (by a hash, if they are strings) and numbers what then lies side
//! by side. Strings of one hash are compared; where two of them differ, the keys are left to the CPU.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use datafusion::arrow::array::{Array, ArrayRef, Int64Array};
use datafusion::arrow::compute::{max, min};
use datafusion::common::Result;

use super::fault::Fault;
use super::kernels::{COUNTED, IntegersOnDevice, KeyKernels, NULL_STRING, RecordsOnDevice, StringsOnDevice};
use super::memory::{Budget, Buffer};
use super::sort::sort;
use super::strings::{Strings, Validity};
use crate::engine::NO_GROUP;
use crate::engine::keys::{Codes, Values};

/// More have no room for the end of their last tile in 32 bits.
const MOST_ROWS: usize = u32::MAX as usize - (1 << 13);

/// The code of each row by what it has in all of `columns`, [`NO_GROUP`] where that is a NULL which equals nothing; equal values have
/// equal codes, from 0 on. `None` where the device has too little memory, or cannot tell two values apart.
///
/// # Errors
/// Columns that [have no values](Values::supports), a device that fails.
pub fn codes(budget: &Budget, columns: &[ArrayRef], null_equals_null: &[bool]) -> Result<Option<Codes>> {
    if columns.iter().any(|column| column.len() > MOST_ROWS) {
        return Ok(None);
    }
    let values: Vec<Values> = columns.iter().map(Values::of).collect::<Result<_>>()?;
    on_stream(budget, |stream| {
        let mut so_far: Option<NumbersOnDevice> = None;
        for (values, &null_equals_null) in values.iter().zip(null_equals_null) {
            let grouped = match (RowsByNumber::of_values(budget, stream, values, null_equals_null)?, so_far) {
                (Some(own), Some(before)) => {
                    RowsByNumber::of_numbers(budget, stream, (&before, Some(&own.numbers)), Which::Valued)?
                }
                (own, _) => own,
            };
            let Some(grouped) = grouped else { return Ok(None) };
            so_far = Some(grouped.numbers);
        }
        let Some(numbers) = so_far else { return Ok(None) };
        let by_row = budget.fetch(&numbers.by_row, 0..numbers.rows as usize)?;
        Ok(Some(Codes::from_device(by_row, numbers)))
    })
}

/// The same of strings that are on the device, so many rows of them.
pub(super) fn codes_of_strings(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    (strings, rows): (&Strings, usize),
    null_equals_null: bool,
) -> Result<Option<Codes>, Fault> {
    if rows > MOST_ROWS {
        return Ok(None);
    }
    let Some(RowsByNumber { numbers, .. }) =
        RowsByNumber::of_strings(budget, stream, (strings, rows), null_equals_null)?
    else {
        return Ok(None);
    };
    let by_row = budget.fetch(&numbers.by_row, 0..rows)?;
    Ok(Some(Codes::from_device(by_row, numbers)))
}

/// Rows by the group that they are in, where a group has two rows at least.
#[derive(Debug)]
pub struct RowsByGroup {
    budget: Budget,
    groups: NumbersOnDevice,
    /// Where the rows of each group start; one entry more than groups.
    starts: Vec<u32>,
    /// Row numbers by group, ascending within one.
    rows: Buffer<u32>,
    /// How many rows would be in a group if another one had the same codes.
    pub alone: usize,
}

impl RowsByGroup {
    /// Groups rows by the codes that they have in one or more columns; a row in which one is [`NO_GROUP`], or whose codes no other
    /// has, is in no group. `None` where the device has too little memory.
    ///
    /// # Errors
    /// A device that fails.
    pub fn of(budget: &Budget, columns: &[&Codes]) -> Result<Option<Self>> {
        if columns.iter().any(|codes| codes.len() > MOST_ROWS) {
            return Ok(None);
        }
        on_stream(budget, |stream| {
            let mut columns = columns.iter().map(|codes| NumbersOnDevice::of(budget, stream, codes));
            let Some(mut first) = columns.next().transpose()? else { return Ok(None) };
            let mut second = columns.next().transpose()?;
            for next in columns {
                let pair = RowsByNumber::of_numbers(budget, stream, (&first, second.as_deref()), Which::Valued)?;
                let Some(pair) = pair else { return Ok(None) };
                (first, second) = (Arc::new(pair.numbers), Some(next?));
            }
            let grouped = RowsByNumber::of_numbers(budget, stream, (&first, second.as_deref()), Which::Paired)?;
            let Some(RowsByNumber { numbers, starts, rows, alone }) = grouped else { return Ok(None) };
            let starts = budget.fetch(&starts, 0..numbers.count as usize + 1)?;
            Ok(Some(Self { budget: budget.clone(), groups: numbers, starts, rows, alone }))
        })
    }

    /// Where the rows of each group start, and where those of the last one end.
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// How many rows are in groups.
    pub fn len(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The group of each row, [`NO_GROUP`] where it is in none.
    ///
    /// # Errors
    /// A device that fails.
    pub fn groups(&self) -> Result<Vec<u32>> {
        self.download(&self.groups.by_row, self.groups.rows as usize)
    }

    /// The groups of some rows.
    ///
    /// # Errors
    /// A device that fails.
    pub fn groups_of(&self, rows: &[u32]) -> Result<Vec<u32>> {
        self.gather((&self.groups.by_row, self.groups.rows as usize), rows)
    }

    /// Row numbers by group, ascending within one.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows(&self) -> Result<Vec<u32>> {
        self.download(&self.rows, self.len())
    }

    /// The rows at some places.
    ///
    /// # Errors
    /// A device that fails.
    pub fn rows_at(&self, places: &[u32]) -> Result<Vec<u32>> {
        self.gather((&self.rows, self.len()), places)
    }

    /// The same as [`rows`](Self::rows), on the device.
    pub(super) fn rows_on_device(&self) -> &Buffer<u32> {
        &self.rows
    }

    fn download(&self, buffer: &Buffer<u32>, count: usize) -> Result<Vec<u32>> {
        Ok(self.budget.fetch(buffer, 0..count)?)
    }

    /// What stands at some places of `count` values.
    fn gather(&self, (values, count): (&Buffer<u32>, usize), places: &[u32]) -> Result<Vec<u32>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let gathered = on_stream(&self.budget, |stream| {
            let asked = self.budget.upload(stream, places)?;
            let mut found = self.budget.buffer(stream, places.len())?;
            self.budget.device.keys()?.gather(stream, (values, &asked), places.len() as u32, &mut found)?;
            Ok(Some(self.budget.fetch(&found, 0..places.len())?))
        })?;
        match gathered {
            Some(gathered) => Ok(gathered),
            // without memory for these the host has to pick them
            None => {
                let all = self.download(values, count)?;
                Ok(places.iter().map(|&place| all[place as usize]).collect())
            }
        }
    }
}

/// What `work` does on a queue of its own; `None` also where memory lacks.
fn on_stream<T>(budget: &Budget, work: impl FnOnce(&Arc<CudaStream>) -> Result<Option<T>, Fault>) -> Result<Option<T>> {
    let _timer = budget.metrics.arrange_time.timer();
    // what a failed work leaves behind is given back once nobody reads it any more
    let waited = |stream: Arc<CudaStream>| {
        work(&stream).inspect_err(|_| {
            let _ = stream.synchronize();
        })
    };
    match budget.device.stream().and_then(waited) {
        Err(Fault::Memory) => Ok(None),
        done => Ok(done?),
    }
}

/// A number for each row, on a device.
#[derive(Debug)]
pub struct NumbersOnDevice {
    by_row: Buffer<u32>,
    rows: u32,
    /// All numbers are below.
    count: u64,
}

impl NumbersOnDevice {
    /// Those of codes, brought to the device unless it has given them.
    pub(super) fn of(budget: &Budget, stream: &Arc<CudaStream>, codes: &Codes) -> Result<Arc<Self>, Fault> {
        if let Some(on_device) = codes.on_device() {
            return Ok(Arc::clone(on_device));
        }
        let behind = |&code: &u32| if code == NO_GROUP { 0 } else { u64::from(code) + 1 };
        let count = codes.iter().map(behind).max().unwrap_or(0);
        Ok(Arc::new(Self { by_row: budget.upload(stream, codes)?, rows: codes.len() as u32, count }))
    }

    /// As kernels read them, by row.
    pub(super) fn address(&self, stream: &CudaStream) -> u64 {
        self.by_row.address(stream)
    }

    /// Bits that hold all numbers.
    fn bits(&self) -> u32 {
        u64::BITS - self.count.leading_zeros()
    }
}

/// Records of rows, to be sorted.
struct Records {
    keys: Buffer<u64>,
    rows: Buffer<u32>,
    count: u32,
    /// The key of rows without a value, greater than all others.
    none: u64,
}

impl Records {
    /// Room for records whose keys are at most `none`.
    fn room(budget: &Budget, stream: &Arc<CudaStream>, count: u32, none: u64) -> Result<Self, Fault> {
        let (keys, rows) = (budget.buffer(stream, count as usize)?, budget.buffer(stream, count as usize)?);
        Ok(Self { keys, rows, count, none })
    }

    fn of_strings(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        count: usize,
        strings: &StringsOnDevice,
    ) -> Result<Self, Fault> {
        let mut records = Self::room(budget, stream, count as u32, NULL_STRING)?;
        budget.device.keys()?.strings(stream, strings, (&mut records.keys, &mut records.rows))?;
        Ok(records)
    }

    /// `None` where the numbers are too far from each other.
    fn of_integers(budget: &Budget, stream: &Arc<CudaStream>, numbers: &Int64Array) -> Result<Option<Self>, Fault> {
        let (least, most) = (min(numbers).unwrap_or(0), max(numbers).unwrap_or(0));
        let Some(none) = most.abs_diff(least).checked_add(1) else { return Ok(None) };
        let mut records = Self::room(budget, stream, numbers.len() as u32, none)?;
        let valid = Validity::upload(budget, stream, numbers.nulls())?;
        let values = IntegersOnDevice {
            values: &budget.upload(stream, numbers.values())?,
            valid: valid.bits.as_ref(),
            first_bit: valid.first_bit,
            least,
        };
        let to = (&mut records.keys, &mut records.rows);
        budget.device.keys()?.numbers(stream, values, (records.count, none), to)?;
        // what was uploaded for this is given back
        stream.synchronize()?;
        Ok(Some(records))
    }

    /// Of the numbers that rows have in one or two keys; `None` where these have too many bits together.
    fn of_numbers(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        left: &NumbersOnDevice,
        right: Option<&NumbersOnDevice>,
    ) -> Result<Option<Self>, Fault> {
        let bits = right.map_or(0, NumbersOnDevice::bits);
        let Some(none) = 1u64.checked_shl(left.bits() + bits) else { return Ok(None) };
        let mut records = Self::room(budget, stream, left.rows, none)?;
        let (right, to) = (right.map(|right| &right.by_row), (&mut records.keys, &mut records.rows));
        budget.device.keys()?.pairs(stream, (&left.by_row, right), (records.count, bits, none), to)?;
        Ok(Some(records))
    }
}

/// Which rows have a number.
#[derive(Clone, Copy)]
enum Which {
    /// Those that have a value.
    Valued,
    /// All: having no value is one.
    All,
    /// Those that have a value that another one has, too.
    Paired,
}

impl Which {
    fn with_values(null_equals_null: bool) -> Self {
        if null_equals_null { Self::All } else { Self::Valued }
    }
}

/// Rows by their number.
struct RowsByNumber {
    numbers: NumbersOnDevice,
    /// Where the rows of each number start.
    starts: Buffer<u32>,
    /// The rows that have a number.
    rows: Buffer<u32>,
    /// Rows that have a value and no number.
    alone: usize,
}

impl RowsByNumber {
    /// Sorts records and numbers their keys; `None` where two of `strings`, of which there are none where keys are not hashes, have
    /// the same one.
    fn of(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        records: Records,
        which: Which,
        strings: &StringsOnDevice,
    ) -> Result<Option<Self>, Fault> {
        let Records { keys, rows, count, none } = records;
        let (keys, rows) = sort(budget, stream, keys, rows, count, u64::BITS - none.leading_zeros())?;
        let records = RecordsOnDevice {
            keys: keys.address(stream),
            rows: rows.address(stream),
            none,
            count,
            none_is_one: u32::from(matches!(which, Which::All)),
            only_pairs: u32::from(matches!(which, Which::Paired)),
            unused: 0,
        };
        let (kernels, length) = (budget.device.keys()?, count as usize);
        let mut counters = budget.buffer(stream, KeyKernels::counters(count))?;
        let mut on_device = budget.zeros(stream, COUNTED)?;
        kernels.heads(stream, (&records, strings), &mut counters, &mut on_device)?;
        let (mut numbers, mut starts) = (budget.buffer(stream, length)?, budget.buffer(stream, length + 1)?);
        let mut grouped = budget.buffer(stream, length)?;
        let to = (&mut numbers, &mut starts, &mut grouped);
        kernels.groups(stream, &records, (&counters, &on_device), to)?;
        let mut counted = [0; COUNTED];
        budget.download(stream, &on_device, &mut counted)?;
        // also so that nothing is given back that is still in use
        stream.synchronize()?;
        let [numbers_given, having_one, valued, different] = counted;
        let numbers = NumbersOnDevice { by_row: numbers, rows: count, count: numbers_given };
        let alone = (valued - having_one) as usize;
        Ok((different == 0).then_some(Self { numbers, starts, rows: grouped, alone }))
    }

    fn of_strings(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (strings, rows): (&Strings, usize),
        null_equals_null: bool,
    ) -> Result<Option<Self>, Fault> {
        let on_device = strings.on_device(stream);
        let records = Records::of_strings(budget, stream, rows, &on_device)?;
        Self::of(budget, stream, records, Which::with_values(null_equals_null), &on_device)
    }

    fn of_values(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        values: &Values,
        null_equals_null: bool,
    ) -> Result<Option<Self>, Fault> {
        match values {
            Values::Strings(strings) => {
                let uploaded = Strings::upload(budget, stream, strings)?;
                Self::of_strings(budget, stream, (&uploaded, strings.len()), null_equals_null)
            }
            Values::Numbers(numbers) => match Records::of_integers(budget, stream, numbers)? {
                Some(records) => {
                    let which = Which::with_values(null_equals_null);
                    Self::of(budget, stream, records, which, &StringsOnDevice::default())
                }
                None => Ok(None),
            },
        }
    }

    fn of_numbers(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (left, right): (&NumbersOnDevice, Option<&NumbersOnDevice>),
        which: Which,
    ) -> Result<Option<Self>, Fault> {
        match Records::of_numbers(budget, stream, left, right)? {
            Some(records) => Self::of(budget, stream, records, which, &StringsOnDevice::default()),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use datafusion::arrow::array::StringViewArray;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::engine::cuda::test_device::device;
    use crate::engine::keys::Groups;

    /// Asserts that the rows are told apart in the same way.
    fn assert_same(found: &[u32], expected: &[u32]) {
        assert_eq!(found.len(), expected.len());
        let names: BTreeSet<_> = expected.iter().copied().zip(found.iter().copied()).collect();
        let by_expected: BTreeMap<u32, u32> = names.iter().copied().collect();
        let by_found: BTreeMap<u32, u32> = names.iter().map(|&(expected, found)| (found, expected)).collect();
        assert!(names.len() == by_expected.len() && names.len() == by_found.len());
        assert!(by_expected.get(&NO_GROUP).is_none_or(|&found| found == NO_GROUP));
        let dense = by_found.keys().filter(|&&found| found != NO_GROUP).copied();
        assert!(dense.eq(0..by_found.len() as u32 - u32::from(by_found.contains_key(&NO_GROUP))));
    }

    fn strings(rows: usize, values: u32, rng: &mut StdRng) -> ArrayRef {
        let text = |n: u32| match n % 5 {
            0 => format!("{n}"),
            // they agree in what a view holds of a long string, and in length
            1 => format!("long string {:0>20}", n),
            2 => format!("{:0>20} and more of it", n),
            3 => "\u{e9}\u{4e2d}".repeat(n as usize % 7),
            _ => format!("{n:0>12}"),
        };
        let value = |rng: &mut StdRng| (!rng.random_bool(0.1)).then(|| text(rng.random_range(0..values)));
        Arc::new((0..rows).map(|_| value(rng)).collect::<StringViewArray>())
    }

    fn integers(rows: usize, values: i64, rng: &mut StdRng) -> ArrayRef {
        let value = |rng: &mut StdRng| (!rng.random_bool(0.1)).then(|| rng.random_range(-values..values) / 2);
        Arc::new((0..rows).map(|_| value(rng)).collect::<Int64Array>())
    }

    #[test]
    fn keys_are_told_apart_as_on_the_cpu() {
        let mut rng = StdRng::seed_from_u64(3);
        let budget = Budget::new(&device(), 0.5);
        for rows in [0, 1, 2, 255, 2048, 2049, 9000] {
            let columns = [
                strings(rows + 3, 2000, &mut rng),
                integers(rows + 3, 50, &mut rng),
                strings(rows + 3, 4, &mut rng),
                integers(rows + 3, i64::MAX / 2, &mut rng),
            ];
            // not from the first bit of the NULLs on
            let columns = columns.map(|column| column.slice(3, rows));
            for keys in [&columns[..1], &columns[1..2], &columns[2..3], &columns[3..], &columns[..2], &columns[1..4]] {
                for nulls in [[false; 3], [true; 3], [true, false, true]] {
                    let nulls = &nulls[..keys.len()];
                    let (_, expected) = Groups::build(keys, nulls.to_vec(), 2, None).unwrap();
                    let found = codes(&budget, keys, nulls).unwrap().unwrap();
                    assert_same(&found, &expected);
                }
            }
        }
    }

    #[test]
    fn whole_numbers_of_any_size_are_told_apart() {
        let budget = Budget::new(&device(), 0.5);
        let all: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(i64::MIN)]));
        assert!(codes(&budget, &[Arc::clone(&all)], &[false]).unwrap().is_none());
        let most: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX - 1), Some(i64::MIN)]));
        assert_eq!(*codes(&budget, &[most], &[false]).unwrap().unwrap(), [0, NO_GROUP, 1, 0]);
        let none: ArrayRef = Arc::new(Int64Array::from(vec![None; 3]));
        assert_eq!(*codes(&budget, &[Arc::clone(&none)], &[false]).unwrap().unwrap(), [NO_GROUP; 3]);
        assert_eq!(*codes(&budget, &[none], &[true]).unwrap().unwrap(), [0; 3]);
    }

    #[test]
    fn rows_of_a_group_lie_side_by_side() {
        let mut rng = StdRng::seed_from_u64(4);
        let budget = Budget::new(&device(), 0.5);
        for (rows, most) in [(0, 1), (1, 1), (700, 3), (5000, 1 << 31), (4097, 200)] {
            let mut code = |_| if rng.random_bool(0.1) { NO_GROUP } else { rng.random_range(0..most) / 3 * 3 };
            let columns: [Codes; 3] = std::array::from_fn(|_| (0..rows).map(&mut code).collect::<Vec<u32>>().into());
            for keys in 1..=3 {
                let asked: Vec<&Codes> = columns[..keys].iter().collect();
                let grouped = RowsByGroup::of(&budget, &asked).unwrap().unwrap();
                let (groups, rows_of_groups, starts) =
                    (grouped.groups().unwrap(), grouped.rows().unwrap(), grouped.starts());
                let tuple = |row: usize| asked.iter().map(|codes| codes[row]).collect::<Vec<_>>();
                let expected = |row: usize| (!tuple(row).contains(&NO_GROUP)).then(|| tuple(row));
                let mut by_tuple: BTreeMap<Vec<u32>, Vec<u32>> = BTreeMap::new();
                for row in 0..rows {
                    if let Some(tuple) = expected(row) {
                        by_tuple.entry(tuple).or_default().push(row as u32);
                    }
                }
                let alone = by_tuple.extract_if(.., |_, group| group.len() == 1).count();
                assert_eq!(grouped.alone, alone);
                let in_groups = by_tuple.values().flatten().count();
                assert_eq!(groups.iter().filter(|&&group| group != NO_GROUP).count(), in_groups);
                assert_eq!(starts.len(), by_tuple.len() + 1);
                let (first, last) = (starts[0] as usize, starts[by_tuple.len()] as usize);
                assert_eq!((first, last), (0, rows_of_groups.len()));
                let some: Vec<u32> = (0..rows as u32).step_by(3).collect();
                let of_some: Vec<u32> = some.iter().map(|&row| groups[row as usize]).collect();
                assert_eq!(grouped.groups_of(&some).unwrap(), of_some);
                let places: Vec<u32> = (0..grouped.len() as u32).rev().collect();
                assert!(grouped.rows_at(&places).unwrap().iter().eq(rows_of_groups.iter().rev()));
                for group in by_tuple.values() {
                    let number = groups[group[0] as usize] as usize;
                    let places = starts[number] as usize..starts[number + 1] as usize;
                    assert_eq!(&rows_of_groups[places], group);
                    assert!(group.iter().all(|&row| groups[row as usize] as usize == number));
                }
            }
        }
    }

    /// `mix` of keys.cu.
    fn mix(hash: u64, word: u64) -> u64 {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^ hash >> 29
    }

    #[test]
    fn strings_of_equal_hashes_are_left_to_the_cpu() {
        // twelve bytes are two words of a view, of which the second cancels what the first ones differ in
        let first = |text: &[u8; 4]| mix(0, 12 | u64::from(u32::from_le_bytes(*text)) << 32);
        let ascii = 0x7f7f_7f7f_7f7f_7f7f_u64;
        let others =
            (0..5000u32).map(|n| [b'a' + (n % 26) as u8, b'a' + (n / 26 % 26) as u8, b'a' + (n / 676) as u8, b'x']);
        let (other, cancels) = others
            .map(|other| (other, first(b"same") ^ first(&other)))
            .find(|(_, cancels)| cancels & !ascii == 0)
            .unwrap();
        let text = |start: &[u8], end: u64| String::from_utf8([start, &end.to_le_bytes()].concat()).unwrap();
        let end = u64::from_le_bytes(*b"12345678");
        let texts = [text(b"same", end), text(&other, end ^ cancels)];
        let rows = |numbers: [usize; 4]| {
            Arc::new(numbers.map(|n| texts[n].as_str()).into_iter().map(Some).collect::<StringViewArray>())
        };
        let budget = Budget::new(&device(), 0.5);
        assert_eq!(*codes(&budget, &[rows([0, 0, 0, 0])], &[false]).unwrap().unwrap(), [0; 4]);
        let both: ArrayRef = rows([0, 1, 0, 1]);
        assert!(codes(&budget, &[Arc::clone(&both)], &[false]).unwrap().is_none());
        let (groups, ids) = Groups::build(&[both], vec![false], 1, Some(&budget)).unwrap();
        assert!(matches!(groups, Groups::Keys(_)));
        assert_eq!(*ids, [0, 1, 0, 1]);
    }

    #[test]
    fn without_memory_nothing_is_numbered() {
        let budget = Budget::new(&device(), 0.0);
        let column = strings(3000, 100, &mut StdRng::seed_from_u64(1));
        assert!(codes(&budget, &[column], &[false]).unwrap().is_none());
        assert!(RowsByGroup::of(&budget, &[&vec![1; 3000].into()]).unwrap().is_none());
    }
}
