//! Rankings on a device: what is the same for all families of keys.
//!
//! ```text
//! search  --> rounds over blocks of the build side; each leaves every row the best so far, which bound the next one
//! ranking --> searches of stretches of a probe side, and what may tie with the last neighbour
//! index   --> a build side that ranks: what the host does around searches
//! ```
//!
//! A family says which blocks come first, which pairs may be neighbours, and what their scores are: [`Rounds`]. How its
//! sides come to the device is said by [`Ranked`].

mod index;
mod ranking;
mod search;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::fault::Fault;
use crate::kernels::{Appended, Round, Searched, TaskList};
pub(crate) use index::{NearestOnDevice, OnHost, Ranked, Searching};
pub(crate) use ranking::{has_room, search, upload_ranks};
#[cfg(test)]
pub(crate) use search::MOST_WANTED;
pub(crate) use search::{SEARCHES, positions_at_once};

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

/// Two sides of one family of keys, and what is launched to rank the rows of one for each row of the other.
pub(crate) trait Rounds {
    /// Blocks of the build side.
    fn build_blocks(&self) -> u32;

    /// How scores order its rows.
    fn score_order(&self) -> ScoreOrder;

    /// Build blocks that each probe block is compared with first, and how many of them are for points of it.
    fn seed_counts(&self, wanted: usize) -> (u32, u32);

    /// How far the first rounds look, each in all blocks: ascending shares of the worst score. A row that has found
    /// enough within one takes no part in later rounds.
    fn shares(&self) -> &[f32];

    /// Whether samples of all blocks come between these and all the others.
    fn samples(&self) -> bool;

    /// Pairs that a launch compares, so that it takes some hundredths of a second.
    fn pairs_of_launch(&self) -> u64;

    /// Writes the blocks that each probe block is compared with first.
    fn seeds(&self, stream: &Arc<CudaStream>, searched: Searched) -> Result<(), Fault>;

    /// Appends the positions of pairs of a round that may be neighbours.
    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        searched: Searched,
        tasks: TaskList<'_>,
        round: Round,
        out: &mut Appended<'_>,
    ) -> Result<(), Fault>;

    /// Scores candidates and offers them to those of their rows that are sought.
    fn offer(&self, stream: &Arc<CudaStream>, searched: Searched, candidates: &Appended<'_>) -> Result<(), Fault>;
}
