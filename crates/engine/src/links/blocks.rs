//! Blocks of numbers, and integers that share a block as they stand.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use super::link::NO_MEMBER;
use super::unsigned::UnsignedIds;
use crate::error::{Result, keys_err};
use crate::parallel::each_in_parallel;

/// Bits of a number within its block.
pub(super) const BLOCK_BITS: u32 = 10;

/// Numbers of a block.
pub(super) const BLOCK: u32 = 1 << BLOCK_BITS;

/// What a block holds.
#[derive(Debug)]
pub(super) enum Block {
    /// Consecutive integers.
    Page(Arc<Page>),
    /// Ids of a part's table, from this one on.
    Part {
        /// The part.
        part: u8,
        /// The place of the first id in the part.
        first: u32,
    },
}

/// All blocks, by their number.
#[derive(Debug, Default)]
pub(super) struct BlockList(Mutex<Vec<Block>>);

impl BlockList {
    /// Adds a block, and returns its number.
    ///
    /// # Errors
    /// More numbers than 32 bits hold.
    pub fn add(&self, block: Block) -> Result<u32> {
        self.add_with(|_| block)
    }

    fn add_with(&self, block: impl FnOnce(u32) -> Block) -> Result<u32> {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = blocks.len() as u32;
        if number >= NO_MEMBER >> BLOCK_BITS {
            return keys_err!("there are more than some four billion ids, which is the most");
        }
        blocks.push(block(number));
        Ok(number)
    }

    /// Makes those ids of pages present whose numbers `is_present` accepts, by up to so many threads.
    pub fn mark(&self, is_present: impl Fn(u32) -> bool + Sync, threads: usize) {
        let blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = blocks.len().div_ceil(threads.max(1)).max(1);
        each_in_parallel(blocks.chunks(share), |blocks| {
            for block in blocks {
                if let Block::Page(page) = block {
                    page.mark_all(&is_present);
                }
            }
        });
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The blocks.
    pub fn into_blocks(self) -> Vec<Block> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Consecutive integers, some of which are ids.
#[derive(Debug)]
pub(super) struct Page {
    /// The first one.
    pub first: u64,
    block: u32,
    present: [AtomicU64; (BLOCK / u64::BITS) as usize],
}

impl Page {
    /// The number of an id of the page.
    #[inline]
    fn number(&self, id: u64) -> u32 {
        number(self.block, id)
    }

    /// Makes an id of the page present.
    #[inline]
    fn mark(&self, id: u64) {
        let at = place(id);
        let (word, bit) = (&self.present[(at / u64::BITS) as usize], 1 << (at % u64::BITS));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Makes those ids of the page present whose numbers `is_present` accepts.
    fn mark_all(&self, is_present: impl Fn(u32) -> bool) {
        for (number, word) in (self.block << BLOCK_BITS..).step_by(u64::BITS as usize).zip(&self.present) {
            let bits = (0..u64::BITS).filter(|at| is_present(number + at)).fold(0, |bits, at| bits | 1 << at);
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// Places of the ids that are present.
    pub fn present(&self) -> impl Iterator<Item = u32> + '_ {
        let present =
            |at: &u32| self.present[(at / u64::BITS) as usize].load(Ordering::Relaxed) >> (at % u64::BITS) & 1;
        (0..BLOCK).filter(move |at| present(at) == 1)
    }
}

/// The place of an id within its page.
#[inline]
fn place(id: u64) -> u32 {
    id as u32 & (BLOCK - 1)
}

/// The number of an id whose page has this block.
#[inline]
fn number(block: u32, id: u64) -> u32 {
    block << BLOCK_BITS | place(id)
}

/// Ids of a page that have to come at once for it to be made.
const CLOSE: u32 = 4;

/// Pages that are made however few ids they have.
const FREE_PAGES: usize = 256;

/// Bits of the number of a page within its region.
const REGION_BITS: u32 = 8;

/// What a region says of a page that nobody has asked for.
const UNASKED: u32 = u32::MAX;

/// What a region says of a page whose ids are in the tables, because they are too few.
const REFUSED: u32 = u32::MAX - 1;

/// Consecutive pages, of which one at least was made.
#[derive(Debug)]
struct Region {
    /// The block of each page, [`UNASKED`] or [`REFUSED`].
    blocks: [AtomicU32; PAGES],
    pages: [OnceLock<Arc<Page>>; PAGES],
}

/// Pages of a region.
const PAGES: usize = 1 << REGION_BITS;

#[inline]
fn place_in_region(page: u64) -> usize {
    page as usize & (PAGES - 1)
}

impl Default for Region {
    fn default() -> Self {
        let blocks = std::array::from_fn(|_| AtomicU32::new(UNASKED));
        Self { blocks, pages: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl Region {
    /// The block of a page, [`UNASKED`] or [`REFUSED`].
    #[inline]
    fn block(&self, page: u64) -> u32 {
        self.blocks[place_in_region(page)].load(Ordering::Acquire)
    }

    /// The page, where it was made.
    #[inline]
    fn page(&self, page: u64) -> Option<&Arc<Page>> {
        self.pages[place_in_region(page)].get()
    }

    fn set(&self, number: u64, page: Option<&Arc<Page>>) {
        let at = place_in_region(number);
        let block = page.map_or(REFUSED, |page| self.pages[at].get_or_init(|| Arc::clone(page)).block);
        self.blocks[at].store(block, Ordering::Release);
    }
}

/// Regions that one thread has met, so that it seldom asks others for them.
struct Regions<'a> {
    directory: &'a Mutex<Directory>,
    met: Vec<Option<Arc<Region>>>,
    places: HashMap<u64, u32, FixedState>,
    /// The last regions by the last bits of their numbers: the number, and its place among those that were met.
    last: Vec<(u64, u32)>,
}

/// How many of the last regions are kept.
const LAST: usize = 512;

impl<'a> Regions<'a> {
    fn new(directory: &'a Mutex<Directory>) -> Self {
        Self { directory, met: Vec::new(), places: HashMap::default(), last: vec![(u64::MAX, 0); LAST] }
    }

    /// The region of a page, as it was when it was first asked for.
    #[inline]
    fn of(&mut self, page: u64) -> Option<&Region> {
        let number = page >> REGION_BITS;
        let last = self.last[number as usize & (LAST - 1)];
        let place = if last.0 == number { last.1 } else { self.meet(number) };
        self.met[place as usize].as_deref()
    }

    #[cold]
    fn meet(&mut self, number: u64) -> u32 {
        let place = *self.places.entry(number).or_insert_with(|| {
            let directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
            self.met.push(directory.regions.get(&number).cloned());
            self.met.len() as u32 - 1
        });
        self.last[number as usize & (LAST - 1)] = (number, place);
        place
    }
}

/// Pages by their numbers.
#[derive(Debug, Default)]
struct Directory {
    regions: HashMap<u64, Arc<Region>, FixedState>,
    /// Pages without a region whose ids are in the tables.
    refused: HashSet<u64, FixedState>,
    made: usize,
}

impl Directory {
    /// A page that so many ids ask for at once: it is made by now, or it never is.
    fn page(&mut self, number: u64, ids: u32, blocks: &BlockList) -> Result<Option<Arc<Page>>> {
        let region = self.regions.get(&(number >> REGION_BITS));
        if let Some(region) = region.filter(|region| region.block(number) != UNASKED) {
            return Ok(region.page(number).cloned());
        }
        let is_made = !self.refused.contains(&number) && (ids >= CLOSE || self.made < FREE_PAGES);
        if !is_made && region.is_none() {
            self.refused.insert(number);
            return Ok(None);
        }
        let made = if is_made { Some(page(number << BLOCK_BITS, blocks)?) } else { None };
        self.made += usize::from(is_made);
        self.regions.entry(number >> REGION_BITS).or_default().set(number, made.as_ref());
        Ok(made)
    }
}

/// Pages of integers, where the first ids that come lie close together.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Whether an id that has a number is present, or its owner will say which ones are.
    marks: bool,
    /// Whether there are pages at all.
    close: OnceLock<bool>,
    directory: Mutex<Directory>,
}

/// An id in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdOfRow {
    pub row: u32,
    pub id: u64,
}

impl Pages {
    /// No pages yet, whose ids are present once they have a number, or once somebody says so.
    pub fn new(marks: bool) -> Self {
        Self { marks, ..Self::default() }
    }

    /// The numbers of ids by their pages, [`NO_MEMBER`] for NULL, and the ids that have no page.
    ///
    /// # Errors
    /// More numbers than 32 bits hold.
    pub fn numbers(&self, columns: &[UnsignedIds], blocks: &BlockList) -> Result<(Vec<u32>, Vec<IdOfRow>)> {
        let rows = columns.iter().map(UnsignedIds::len).sum();
        let (mut numbers, mut others, mut open) = (Vec::with_capacity(rows), Vec::new(), Vec::new());
        let are_close = self.close.get() != Some(&false);
        let mut regions = Regions::new(&self.directory);
        for ids in columns {
            ids.each(|id| {
                let Some(id) = id else { return numbers.push(NO_MEMBER) };
                let page = id >> BLOCK_BITS;
                let region = if are_close { regions.of(page) } else { None };
                let block = region.map_or(UNASKED, |region| region.block(page));
                if block < REFUSED {
                    if let Some(page) = region.and_then(|region| region.page(page)).filter(|_| self.marks) {
                        page.mark(id);
                    }
                    return numbers.push(number(block, id));
                }
                let of_row = IdOfRow { row: numbers.len() as u32, id };
                if block == REFUSED {
                    others.push(of_row)
                } else {
                    open.push(of_row)
                }
                numbers.push(NO_MEMBER);
            });
        }
        self.decide(open, &mut numbers, &mut others, blocks)?;
        Ok((numbers, others))
    }

    /// Gives numbers to ids of pages that nobody has asked for, unless they are too few.
    fn decide(
        &self,
        open: Vec<IdOfRow>,
        numbers: &mut [u32],
        others: &mut Vec<IdOfRow>,
        blocks: &BlockList,
    ) -> Result<()> {
        let mut asked: HashMap<u64, (u32, Option<Arc<Page>>), FixedState> = HashMap::default();
        if !open.is_empty() && self.close.get() != Some(&false) {
            open.iter().for_each(|of_row| asked.entry(of_row.id >> BLOCK_BITS).or_default().0 += 1);
            let are_close = || asked.len() <= FREE_PAGES || open.len() >= asked.len() * CLOSE as usize;
            if *self.close.get_or_init(are_close) {
                let mut directory = self.locked();
                for (&number, (ids, page)) in &mut asked {
                    *page = directory.page(number, *ids, blocks)?;
                }
            }
        }
        for of_row in open {
            match asked.get(&(of_row.id >> BLOCK_BITS)).and_then(|(_, page)| page.as_ref()) {
                Some(page) => {
                    page.mark(of_row.id);
                    numbers[of_row.row as usize] = page.number(of_row.id);
                }
                None => others.push(of_row),
            }
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let Directory { regions, refused, made } = &*self.locked();
        let of_regions = regions.allocation_size() + regions.len() * size_of::<Region>() + refused.allocation_size();
        of_regions + made * (size_of::<Page>() + size_of::<Block>())
    }
}

/// A page of its own block.
fn page(first: u64, blocks: &BlockList) -> Result<Arc<Page>> {
    let present = || std::array::from_fn(|_| AtomicU64::new(0));
    let mut made = None;
    blocks.add_with(|block| {
        let page = Arc::new(Page { first, block, present: present() });
        made = Some(Arc::clone(&page));
        Block::Page(page)
    })?;
    match made {
        Some(page) => Ok(page),
        None => crate::internal_err!("a block was not made"),
    }
}
