//! What some probe positions are offered as neighbours, and the best of it so far.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUevent_flags;

use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::{BLOCK, FoundNeighbour, Searched, neighbours, neighbours_mut};
use crate::memory::Budget;
use crate::wait::wait;
use similarity_engine::nearest::Neighbour;

/// Neighbours of a row at most.
pub(crate) const MOST_WANTED: usize = 960;
/// Probe positions that are searched at once at most, neighbours of them, and how many of these searches there may be.
const MOST_POSITIONS: usize = 1 << 18;
const MOST_NEIGHBOURS: usize = 1 << 22;
pub(crate) const SEARCHES: usize = 2;
/// Numbers that a launch counts.
pub(crate) const TALLIED: usize = 2;

/// How scores order rows, and what they say of those that are compared next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScoreOrder {
    /// Whether larger scores are better.
    pub(crate) descending: bool,
    /// A `ReachBy` of the kernels.
    pub(crate) reach_by: u32,
    /// Numbers of a vector.
    pub(crate) dimension: u32,
    /// What rounding adds to a reach: a factor, and for each unit of the points' norms.
    pub(crate) rounding: (f32, f32),
}

/// Places for what a row is offered: those that it keeps, and room for a round of others.
fn capacity_of(wanted: usize) -> usize {
    (2 * wanted + BLOCK as usize).next_power_of_two()
}

/// Bytes of the buffers of a row.
fn bytes_of_row(wanted: usize) -> usize {
    (capacity_of(wanted) + wanted) * size_of::<FoundNeighbour>() + 32
}

/// Probe positions that are searched at once.
pub(crate) fn positions_at_once(budget: &Budget, wanted: usize) -> usize {
    let share = budget.available() / (4 * SEARCHES);
    let positions = (share / bytes_of_row(wanted)).min(MOST_POSITIONS).min(MOST_NEIGHBOURS / wanted.max(1));
    positions.max(BLOCK as usize) / BLOCK as usize * BLOCK as usize
}

/// The neighbours of positions one after the other.
#[derive(Debug)]
pub(super) struct Found {
    wanted: usize,
    neighbours: Vec<FoundNeighbour>,
    counts: Vec<u32>,
}

impl Found {
    /// Neighbours of the position at this place of the range, best first.
    pub(super) fn of(&self, place: usize) -> &[Neighbour<i64>] {
        neighbours(&self.neighbours[place * self.wanted..][..self.counts[place] as usize])
    }

    /// Neighbours of that position, to be changed.
    pub(super) fn of_mut(&mut self, place: usize) -> &mut [Neighbour<i64>] {
        neighbours_mut(&mut self.neighbours[place * self.wanted..][..self.counts[place] as usize])
    }
}

/// What has come of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered {
    /// What it has counted since [`Offers::offer`] was last asked for new offers.
    pub(crate) tally: [usize; TALLIED],
    /// Rows that were offered more than they have places for: they have to be offered the same again.
    pub(crate) crowded: usize,
    pub(crate) milliseconds: f32,
}

/// Places for what positions are offered, on one stream.
pub(crate) struct Offers<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) stream: &'a Arc<CudaStream>,
    searched: Searched,
    tally: Buffer<u64>,
    crowded: Buffer<u64>,
    kept: Buffer<u32>,
    /// What only the device reads.
    seeds: Option<Buffer<u32>>,
    _offered: Buffer<FoundNeighbour>,
    _counts: Buffer<u32>,
    _reaches: [Buffer<f32>; 2],
}

impl<'a> Offers<'a> {
    /// Places for the `wanted` nearest rows of the positions in `positions`. These are ascending and in `range`, which
    /// begins with a block.
    pub(super) fn try_new(
        budget: &'a Budget,
        stream: &'a Arc<CudaStream>,
        order: ScoreOrder,
        (range, positions): (Range<u32>, &[u32]),
        wanted: usize,
    ) -> Result<Self, Fault> {
        let padded = (range.end - range.start).next_multiple_of(BLOCK) as usize;
        let capacity = capacity_of(wanted);
        let mut reach = vec![-1.0f32; padded];
        positions.iter().for_each(|&position| reach[(position - range.start) as usize] = f32::INFINITY);
        let mut offered = budget.buffer(stream, padded * capacity)?;
        let mut counts = budget.zeros(stream, padded)?;
        let mut reaches = [budget.upload(stream, &reach)?, budget.upload(stream, &reach)?];
        let mut kept = budget.zeros(stream, padded)?;
        let mut crowded = budget.zeros(stream, 1)?;
        let searched = Searched {
            offered: offered.address_mut(stream),
            counts: counts.address_mut(stream),
            kept: kept.address_mut(stream),
            reach: reaches[0].address_mut(stream),
            again: reaches[1].address_mut(stream),
            crowded: crowded.address_mut(stream),
            seeds: None,
            first: range.start,
            count: padded as u32,
            capacity: capacity as u32,
            wanted: wanted as u32,
            seed_count: 0,
            corner_count: 0,
            descending: order.descending.into(),
            reach_by: order.reach_by,
            dimension: order.dimension,
            wider: order.rounding.0,
            by_norm: order.rounding.1,
        };
        // the copies of what is on the stack are over
        wait(stream)?;
        Ok(Self {
            budget,
            stream,
            searched,
            tally: budget.zeros(stream, TALLIED)?,
            crowded,
            kept,
            seeds: None,
            _offered: offered,
            _counts: counts,
            _reaches: reaches,
        })
    }

    /// The positions, each block of which has room for so many blocks of the build side that come first, some of them
    /// for points.
    pub(super) fn with_seeds(&mut self, (seed_count, corner_count): (u32, u32)) -> Result<Searched, Fault> {
        let seeds = self.budget.buffer(self.stream, (self.searched.count / BLOCK * seed_count) as usize)?;
        let address = self.seeds.insert(seeds).address_mut(self.stream);
        self.searched = Searched { seeds: Some(address), seed_count, corner_count, ..self.searched };
        Ok(self.searched)
    }

    /// The positions, as kernels read them.
    pub(crate) fn searched(&self) -> Searched {
        self.searched
    }

    /// Launches what offers rows to the positions and counts, from zero on, and keeps the best: with `again` for those
    /// alone that were offered too many last time.
    pub(crate) fn offer(
        &mut self,
        again: bool,
        launch: impl FnOnce(Searched, &mut Buffer<u64>) -> Result<(), Fault>,
    ) -> Result<Offered, Fault> {
        let (stream, kernels) = (self.stream, self.budget.device.kernels().nearest()?);
        stream.memset_zeros(&mut self.crowded.slice)?;
        let timing = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let started = stream.record_event(timing)?;
        let offered = match again {
            true => Searched { reach: self.searched.again, ..self.searched },
            false => {
                stream.memset_zeros(&mut self.tally.slice)?;
                self.searched
            }
        };
        launch(offered, &mut self.tally)?;
        kernels.select(stream, self.searched)?;
        let ended = stream.record_event(timing)?;
        let (mut tally, mut crowded) = ([0u64; TALLIED], [0u64]);
        self.budget.download(stream, &self.tally, &mut tally)?;
        self.budget.download(stream, &self.crowded, &mut crowded)?;
        wait(stream)?;
        let milliseconds = started.elapsed_ms(&ended)?;
        Ok(Offered { tally: tally.map(|count| count as usize), crowded: crowded[0] as usize, milliseconds })
    }

    /// The best of what every position was offered.
    pub(super) fn fetch(&self) -> Result<Found, Fault> {
        let (count, wanted) = (self.searched.count as usize, self.searched.wanted as usize);
        let mut out = self.budget.buffer(self.stream, count * wanted)?;
        self.budget.device.kernels().nearest()?.fetch(self.stream, self.searched, &mut out)?;
        let mut found =
            Found { wanted, neighbours: vec![FoundNeighbour::default(); count * wanted], counts: vec![0; count] };
        self.budget.download(self.stream, &out, &mut found.neighbours)?;
        self.budget.download(self.stream, &self.kept, &mut found.counts)?;
        wait(self.stream)?;
        Ok(found)
    }
}
