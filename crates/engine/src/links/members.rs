//! Numbers for ids of one type, given by many threads at once.
//!
//! Numbers come in blocks of 1,024. Integers that lie close together share a block as they stand: their number is that
//! of the block and their last bits, so that only blocks have to be looked up. All other ids are parted by bits of
//! their hash. Each part has a table of its own behind a lock, and a thread brings many ids of a part at a time, so
//! that the table stays in its cache (radix partitioning: Manegold, Boncz and Kersten, 2002).

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use arrow::row::{RowConverter, RowParser, Rows, SortField};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::blocks::{BLOCK, BLOCK_BITS, Block, BlockList, Pages};
use super::link::NO_MEMBER;
use super::sink::LinkChunk;
use super::unsigned::{SIGN, UnsignedIds};
use crate::error::{Result, internal_err, keys_err};
use crate::parallel::each_in_parallel;

/// Parts of the ids.
const PARTS: usize = 1 << PART_BITS;

const PART_BITS: u32 = 8;

/// Ids of one type, numbered from 0 with gaps.
#[derive(Debug)]
pub struct Members {
    data_type: DataType,
    blocks: BlockList,
    ids: Ids,
}

#[derive(Debug)]
enum Ids {
    /// Integers, as unsigned ones in the same order.
    Integers(Pages, Table<Integers>),
    /// Strings and binary values.
    Strings(Table<Strings>),
    /// Values of any other type, in Arrow's row format.
    Rows(Box<RowConverter>, Table<Strings>),
}

/// Ids of a batch that are kept as bytes.
enum Encoded {
    Strings(ArrayRef),
    Rows(Rows, ArrayRef),
}

impl Members {
    /// No ids yet, of this type.
    ///
    /// # Errors
    /// A type whose values have no order.
    pub fn new(data_type: &DataType) -> Result<Self> {
        Self::with(data_type, true)
    }

    /// No ids yet, of this type. Those that have a number may be there or not: [`mark`](Self::mark) says which are.
    ///
    /// # Errors
    /// A type whose values have no order.
    pub fn unmarked(data_type: &DataType) -> Result<Self> {
        Self::with(data_type, false)
    }

    fn with(data_type: &DataType, marks: bool) -> Result<Self> {
        let ids = match data_type {
            integer if integer.is_integer() => Ids::Integers(Pages::new(marks), Table::default()),
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Ids::Strings(Table::default()),
            DataType::Null => return keys_err!("an id has the type NULL; ids are of a type whose values differ"),
            other => {
                let fields = vec![SortField::new(other.clone())];
                if !RowConverter::supports_fields(&fields) {
                    return keys_err!("an id has the type {other}, whose values have no order");
                }
                Ids::Rows(Box::new(RowConverter::new(fields)?), Table::default())
            }
        };
        Ok(Self { data_type: data_type.clone(), blocks: BlockList::default(), ids })
    }

    /// Type of the ids.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Numbers of the ids in `arrays`, row after row, [`NO_MEMBER`] for NULL. New ids get a number.
    ///
    /// # Errors
    /// Ids of another type, or more than some 2^32 of them.
    pub fn numbers(&self, arrays: &[ArrayRef]) -> Result<Vec<u32>> {
        if let Some(other) = arrays.iter().find(|array| array.data_type() != &self.data_type) {
            return internal_err!("ids of type {} come with ids of type {}", other.data_type(), self.data_type);
        }
        match &self.ids {
            Ids::Integers(pages, table) => {
                let ids = arrays.iter().map(UnsignedIds::of).collect::<Result<Vec<_>>>()?;
                let (mut numbers, others) = pages.numbers(&ids, &self.blocks)?;
                let of_others = table.numbers(others.iter().map(|of_row| Some(&of_row.id)), &self.blocks)?;
                others.iter().zip(of_others).for_each(|(of_row, number)| numbers[of_row.row as usize] = number);
                Ok(numbers)
            }
            Ids::Strings(table) => self.numbers_of_bytes(arrays.iter().cloned().map(Encoded::Strings).collect(), table),
            Ids::Rows(converter, table) => {
                let rows = |ids: &ArrayRef| -> Result<Encoded> {
                    Ok(Encoded::Rows(converter.convert_columns(&[ArrayRef::clone(ids)])?, ArrayRef::clone(ids)))
                };
                self.numbers_of_bytes(arrays.iter().map(rows).collect::<Result<_>>()?, table)
            }
        }
    }

    fn numbers_of_bytes(&self, encoded: Vec<Encoded>, table: &Table<Strings>) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        encoded.iter().try_for_each(|ids| ids.push_bytes(&mut all))?;
        table.numbers(all.into_iter(), &self.blocks)
    }

    /// Numbers of both ends of links.
    ///
    /// # Errors
    /// Ids of another type, or more than some 2^32 of them.
    pub fn number_links(&self, chunk: &LinkChunk) -> Result<(Vec<u32>, Vec<u32>)> {
        let both: Vec<ArrayRef> = chunk.left.iter().chain(&chunk.right).cloned().collect();
        let mut left = self.numbers(&both)?;
        let right = left.split_off(left.len() / 2);
        Ok((left, right))
    }

    /// Says which numbers are those of an id, with up to so many threads.
    pub fn mark(&self, is_present: impl Fn(u32) -> bool + Sync, threads: usize) {
        self.blocks.mark(is_present, threads);
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        match &self.ids {
            Ids::Integers(pages, table) => pages.memory() + table.memory(),
            Ids::Strings(table) | Ids::Rows(_, table) => table.memory(),
        }
    }

    /// A number above that of every id so far.
    pub fn end(&self) -> usize {
        self.blocks.len() << BLOCK_BITS
    }

    /// The ids, to which none is added any more.
    pub fn freeze(self) -> FrozenMembers {
        let Self { data_type, blocks, ids } = self;
        let blocks = blocks.into_blocks();
        let ids = match ids {
            Ids::Integers(_, table) => FrozenIds::Integers(table.freeze()),
            Ids::Strings(table) => FrozenIds::Strings(table.freeze()),
            Ids::Rows(converter, table) => FrozenIds::Rows(converter, table.freeze()),
        };
        FrozenMembers { data_type, blocks, ids }
    }
}

impl Encoded {
    fn push_bytes<'a>(&'a self, all: &mut Vec<Option<&'a [u8]>>) -> Result<()> {
        match self {
            Self::Rows(rows, ids) => {
                let valid = |row: usize| ids.is_valid(row);
                all.extend((0..rows.num_rows()).map(|row| valid(row).then(|| rows.row(row).data())));
            }
            Self::Strings(ids) => match ids.data_type() {
                DataType::Utf8 => all.extend(ids.as_string::<i32>().iter().map(|id| id.map(str::as_bytes))),
                DataType::LargeUtf8 => all.extend(ids.as_string::<i64>().iter().map(|id| id.map(str::as_bytes))),
                DataType::Utf8View => all.extend(ids.as_string_view().iter().map(|id| id.map(str::as_bytes))),
                DataType::Binary => all.extend(ids.as_binary::<i32>().iter()),
                DataType::LargeBinary => all.extend(ids.as_binary::<i64>().iter()),
                DataType::BinaryView => all.extend(ids.as_binary_view().iter()),
                other => return internal_err!("ids of type {other} are no strings"),
            },
        }
        Ok(())
    }
}

/// Ids of a part, in the order in which they came.
trait Store: Default + Send {
    type Id: ?Sized + Hash + Ord;
    fn push(&mut self, id: &Self::Id);
    fn get(&self, at: usize) -> &Self::Id;
    fn len(&self) -> usize;
    fn memory(&self) -> usize;
}

#[derive(Debug, Default)]
struct Integers(Vec<u64>);

impl Store for Integers {
    type Id = u64;

    fn push(&mut self, id: &u64) {
        self.0.push(*id);
    }

    #[inline]
    fn get(&self, at: usize) -> &u64 {
        &self.0[at]
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

#[derive(Debug, Default)]
struct Strings {
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Store for Strings {
    type Id = [u8];

    fn push(&mut self, id: &[u8]) {
        self.bytes.extend_from_slice(id);
        self.ends.push(self.bytes.len());
    }

    #[inline]
    fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn memory(&self) -> usize {
        self.ends.capacity() * size_of::<usize>() + self.bytes.capacity()
    }
}

#[derive(Debug, Default)]
struct Part<S> {
    places: HashTable<u32>,
    ids: S,
    /// Blocks of numbers of the ids, in their order.
    blocks: Vec<u32>,
}

#[derive(Debug)]
struct Table<S> {
    parts: Vec<Mutex<Part<S>>>,
    hasher: FixedState,
}

impl<S: Store> Default for Table<S> {
    fn default() -> Self {
        let part = || Mutex::new(Part { places: HashTable::new(), ids: S::default(), blocks: Vec::new() });
        Self { parts: (0..PARTS).map(|_| part()).collect(), hasher: FixedState::default() }
    }
}

/// A part, also after a thread has failed while it held the lock.
fn locked<S>(part: &Mutex<Part<S>>) -> MutexGuard<'_, Part<S>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Store> Table<S> {
    fn numbers<'a>(&self, ids: impl Iterator<Item = Option<&'a S::Id>>, all: &BlockList) -> Result<Vec<u32>>
    where
        S::Id: 'a,
    {
        let ids: Vec<(Option<&S::Id>, u64)> = ids.map(|id| (id, id.map_or(0, |id| self.hasher.hash_one(id)))).collect();
        let mut starts = [0; PARTS + 1];
        ids.iter().for_each(|(_, hash)| starts[part_of(*hash) + 1] += 1);
        for part in 0..PARTS {
            starts[part + 1] += starts[part];
        }
        let mut next = starts;
        let mut order = vec![0; ids.len()];
        for (row, (_, hash)) in ids.iter().enumerate() {
            let place = &mut next[part_of(*hash)];
            order[*place] = row;
            *place += 1;
        }
        let mut numbers = vec![NO_MEMBER; ids.len()];
        // threads that begin with different parts seldom wait for each other
        let first = ids.last().map_or(0, |(_, hash)| part_of(*hash));
        for part in (first..PARTS).chain(0..first) {
            let rows = &order[starts[part]..starts[part + 1]];
            if rows.is_empty() {
                continue;
            }
            let mut table = locked(&self.parts[part]);
            let Part { places, ids: known, blocks } = &mut *table;
            for &row in rows {
                let (Some(id), hash) = ids[row] else { continue };
                let at = match places.find(hash, |&at| known.get(at as usize) == id) {
                    Some(&at) => at,
                    None => {
                        let at = known.len() as u32;
                        if at.is_multiple_of(BLOCK) {
                            blocks.push(all.add(Block::Part { part: part as u8, first: at })?);
                        }
                        known.push(id);
                        let rehash = |&at: &u32| self.hasher.hash_one(known.get(at as usize));
                        places.insert_unique(hash, at, rehash);
                        at
                    }
                };
                numbers[row] = blocks[(at >> BLOCK_BITS) as usize] << BLOCK_BITS | at & (BLOCK - 1);
            }
        }
        Ok(numbers)
    }

    fn memory(&self) -> usize {
        let of_part = |part: &Mutex<Part<S>>| {
            let part = locked(part);
            part.places.allocation_size() + part.ids.memory()
        };
        self.parts.iter().map(of_part).sum()
    }

    fn freeze(self) -> Vec<S> {
        let part = |part: Mutex<Part<S>>| part.into_inner().unwrap_or_else(PoisonError::into_inner).ids;
        self.parts.into_iter().map(part).collect()
    }
}

/// The part of a hash, by bits of which a hash table makes no use.
#[inline]
fn part_of(hash: u64) -> usize {
    (hash >> (u32::BITS - PART_BITS)) as usize & (PARTS - 1)
}

/// Ids with their numbers, to which none is added.
#[derive(Debug)]
pub struct FrozenMembers {
    data_type: DataType,
    blocks: Vec<Block>,
    ids: FrozenIds,
}

#[derive(Debug)]
enum FrozenIds {
    Integers(Vec<Integers>),
    Strings(Vec<Strings>),
    Rows(Box<RowConverter>, Vec<Strings>),
}

impl FrozenMembers {
    /// A number above that of every id.
    pub fn end(&self) -> usize {
        self.blocks.len() << BLOCK_BITS
    }

    /// How many blocks of numbers there are.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The numbers of the ids in a block.
    pub fn of_block(&self, block: usize) -> impl Iterator<Item = u32> + '_ {
        let first = (block as u32) << BLOCK_BITS;
        let in_table = match &self.blocks[block] {
            Block::Page(_) => 0,
            Block::Part { part, first } => {
                let of_part = match &self.ids {
                    FrozenIds::Integers(parts) => parts[usize::from(*part)].len(),
                    FrozenIds::Strings(parts) | FrozenIds::Rows(_, parts) => parts[usize::from(*part)].len(),
                };
                (of_part as u32 - first).min(BLOCK)
            }
        };
        let page = match &self.blocks[block] {
            Block::Page(page) => Some(page),
            Block::Part { .. } => None,
        };
        (0..in_table).chain(page.into_iter().flat_map(|page| page.present())).map(move |at| first + at)
    }

    /// The numbers of all ids.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.blocks.len()).flat_map(|block| self.of_block(block))
    }

    /// The integer with a number.
    #[inline]
    fn integer(&self, parts: &[Integers], number: u32) -> u64 {
        let at = number & (BLOCK - 1);
        match &self.blocks[(number >> BLOCK_BITS) as usize] {
            Block::Page(page) => page.first + u64::from(at),
            Block::Part { part, first } => *parts[usize::from(*part)].get((first + at) as usize),
        }
    }

    /// The text with a number.
    #[inline]
    fn string<'a>(&self, parts: &'a [Strings], number: u32) -> &'a [u8] {
        match &self.blocks[(number >> BLOCK_BITS) as usize] {
            Block::Part { part, first } => parts[usize::from(*part)].get((first + (number & (BLOCK - 1))) as usize),
            Block::Page(_) => &[],
        }
    }

    /// The order of two ids.
    #[inline]
    pub fn compare(&self, left: u32, right: u32) -> Ordering {
        match &self.ids {
            FrozenIds::Integers(parts) => self.integer(parts, left).cmp(&self.integer(parts, right)),
            FrozenIds::Strings(parts) | FrozenIds::Rows(_, parts) => {
                self.string(parts, left).cmp(self.string(parts, right))
            }
        }
    }

    /// The numbers of all ids in the order of the ids, sorted by up to `threads` threads.
    pub fn in_order(&self, threads: usize) -> Vec<u32> {
        let all: Vec<u32> = self.numbers().collect();
        match &self.ids {
            FrozenIds::Integers(parts) => sorted(all, threads, |number| self.integer(parts, number)),
            FrozenIds::Strings(parts) | FrozenIds::Rows(_, parts) => {
                sorted(all, threads, |number| self.string(parts, number))
            }
        }
    }

    /// The ids with these numbers, NULL for [`NO_MEMBER`].
    ///
    /// # Errors
    /// What a kernel of Arrow returns.
    pub fn array(&self, numbers: impl ExactSizeIterator<Item = u32>) -> Result<ArrayRef> {
        let there = |number: u32| (number != NO_MEMBER).then_some(number);
        Ok(match &self.ids {
            FrozenIds::Integers(parts) if self.data_type.is_signed_integer() => {
                let ids = numbers.map(|number| there(number).map(|number| (self.integer(parts, number) ^ SIGN) as i64));
                integers::<Int64Type>(ids, &self.data_type)?
            }
            FrozenIds::Integers(parts) => {
                let ids = numbers.map(|number| there(number).map(|number| self.integer(parts, number)));
                integers::<UInt64Type>(ids, &self.data_type)?
            }
            FrozenIds::Strings(parts) => {
                let ids = numbers.map(|number| there(number).map(|number| self.string(parts, number)));
                strings(ids, &self.data_type)?
            }
            FrozenIds::Rows(converter, parts) => {
                let parser: RowParser = converter.parser();
                let numbers: Vec<u32> = numbers.collect();
                let null = arrow::array::new_null_array(&self.data_type, 1);
                let null = converter.convert_columns(&[null])?;
                let rows = numbers.iter().map(|&number| match there(number) {
                    Some(number) => parser.parse(self.string(parts, number)),
                    None => null.row(0),
                });
                match converter.convert_rows(rows)?.pop() {
                    Some(ids) => ids,
                    None => return internal_err!("rows of ids have no column"),
                }
            }
        })
    }
}

/// `numbers` in the order of their ids: runs are sorted side by side, then merged two by two.
fn sorted<I: Ord>(mut numbers: Vec<u32>, threads: usize, id: impl Fn(u32) -> I + Sync) -> Vec<u32> {
    let share = numbers.len().div_ceil(threads.max(1)).max(1 << 14);
    each_in_parallel(numbers.chunks_mut(share), |run| run.sort_unstable_by_key(|&number| id(number)));
    let mut width = share;
    while width < numbers.len() {
        let mut merged = vec![0; numbers.len()];
        each_in_parallel(numbers.chunks(2 * width).zip(merged.chunks_mut(2 * width)), |(runs, merged)| {
            let (mut left, mut right) = runs.split_at(width.min(runs.len()));
            for slot in merged {
                let from_left = match (left.first(), right.first()) {
                    (Some(&l), Some(&r)) => id(l) <= id(r),
                    (first, _) => first.is_some(),
                };
                let run = if from_left { &mut left } else { &mut right };
                *slot = run[0];
                *run = &run[1..];
            }
        });
        numbers = merged;
        width *= 2;
    }
    numbers
}

fn integers<T: ArrowPrimitiveType>(
    ids: impl Iterator<Item = Option<T::Native>>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let ids: PrimitiveArray<T> = ids.collect();
    Ok(cast(&ids, data_type)?)
}

fn strings<'a>(ids: impl Iterator<Item = Option<&'a [u8]>>, data_type: &DataType) -> Result<ArrayRef> {
    use arrow::array::{BinaryViewBuilder, LargeBinaryBuilder};
    let ids: Vec<Option<&[u8]>> = ids.collect();
    let ids: ArrayRef = match data_type {
        DataType::Utf8View | DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(ids.len());
            ids.into_iter().for_each(|id| builder.append_option(id));
            std::sync::Arc::new(builder.finish())
        }
        _ => {
            let mut builder =
                LargeBinaryBuilder::with_capacity(ids.len(), ids.iter().flatten().map(|id| id.len()).sum());
            ids.into_iter().for_each(|id| builder.append_option(id));
            std::sync::Arc::new(builder.finish())
        }
    };
    Ok(cast(&ids, data_type)?)
}
