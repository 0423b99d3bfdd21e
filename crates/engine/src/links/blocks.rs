//! Blocks of numbers, and integers that share a block as they stand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::link::NO_MEMBER;
use crate::error::{Result, keys_err};

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
    /// The number of an id of the page, which is present from now on.
    #[inline]
    fn number(&self, id: u64) -> u32 {
        let at = id as u32 & (BLOCK - 1);
        let (word, bit) = (&self.present[(at / u64::BITS) as usize], 1 << (at % u64::BITS));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        self.block << BLOCK_BITS | at
    }

    /// Places of the ids that are present.
    pub fn present(&self) -> impl Iterator<Item = u32> + '_ {
        let present =
            |at: &u32| self.present[(at / u64::BITS) as usize].load(Ordering::Relaxed) >> (at % u64::BITS) & 1;
        (0..BLOCK).filter(move |at| present(at) == 1)
    }
}

/// Ids of a page that have to come at once for it to be made.
const CLOSE: u32 = 4;

/// Pages that are made however few ids they have.
const FREE_PAGES: usize = 256;

/// A page by its number; none where its ids are in the tables, because they are too few.
type ByPage = HashMap<u64, Option<Arc<Page>>, FixedState>;

/// Pages of integers, where the first ids that come lie close together.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Whether there are pages at all.
    close: OnceLock<bool>,
    pages: Mutex<ByPage>,
}

/// A page that some ids ask for.
struct Asked {
    ids: u32,
    page: Option<Arc<Page>>,
}

impl Pages {
    /// The numbers of ids by their pages, [`NO_MEMBER`] for NULL, and the rows of those that have no page.
    ///
    /// # Errors
    /// More numbers than 32 bits hold.
    pub fn numbers(&self, ids: &[Option<u64>], blocks: &BlockList) -> Result<(Vec<u32>, Vec<u32>)> {
        if self.close.get() == Some(&false) {
            return Ok((vec![NO_MEMBER; ids.len()], (0..ids.len() as u32).collect()));
        }
        // places of pages, so that a row finds its page without a second look into the table
        let mut places: HashMap<u64, u32, FixedState> = HashMap::default();
        let mut asked: Vec<Asked> = Vec::new();
        let mut place_of_row = Vec::with_capacity(ids.len());
        for id in ids.iter().flatten() {
            let place = *places.entry(id >> BLOCK_BITS).or_insert_with(|| {
                asked.push(Asked { ids: 0, page: None });
                asked.len() as u32 - 1
            });
            asked[place as usize].ids += 1;
            place_of_row.push(place);
        }
        if *self.close.get_or_init(|| asked.len() <= FREE_PAGES || place_of_row.len() >= asked.len() * CLOSE as usize) {
            self.find(&places, &mut asked, blocks)?;
        }
        let (mut numbers, mut others) = (Vec::with_capacity(ids.len()), Vec::new());
        let mut place_of_row = place_of_row.into_iter();
        for (id, row) in ids.iter().zip(0..) {
            let place = id.and_then(|id| Some((id, place_of_row.next()?)));
            numbers.push(match place.map(|(id, place)| (id, &asked[place as usize].page)) {
                Some((id, Some(page))) => page.number(id),
                Some((_, None)) => {
                    others.push(row);
                    NO_MEMBER
                }
                None => NO_MEMBER,
            });
        }
        Ok((numbers, others))
    }

    /// Finds or makes the pages that are asked for. A page that is not made when it is first asked for never is.
    fn find(&self, places: &HashMap<u64, u32, FixedState>, asked: &mut [Asked], blocks: &BlockList) -> Result<()> {
        let mut pages = self.locked();
        for (&number, &place) in places {
            let asked = &mut asked[place as usize];
            asked.page = match pages.get(&number) {
                Some(page) => page.clone(),
                None => {
                    let made = asked.ids >= CLOSE || pages.len() < FREE_PAGES;
                    let page = if made { Some(page(number << BLOCK_BITS, blocks)?) } else { None };
                    pages.insert(number, page.clone());
                    page
                }
            };
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, ByPage> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let pages = self.locked();
        let made = pages.values().flatten().count();
        pages.allocation_size() + made * (size_of::<Page>() + size_of::<Block>())
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
