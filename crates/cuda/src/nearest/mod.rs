//! Rankings on a device: what is the same for all families of keys.
//!
//! ```text
//! offers  --> what searched rows are offered, and the best so far, which bound what is offered next
//! search  --> rounds over blocks of the build side by a filter
//! ranking --> searches of stretches of a probe side, and what may tie with the last neighbour
//! index   --> a build side that ranks: what the host does around searches
//! ```
//!
//! A [`NeighbourSearch`] offers all neighbours. Most families say which blocks come first, which pairs may be
//! neighbours, and what their scores are: [`Rounds`]. How the sides come to the device is said by [`Ranked`].

mod index;
mod offers;
mod ranking;
mod search;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::fault::Fault;
use crate::kernels::{Appended, Pair, Round, Searched, TaskList};
pub(crate) use index::{NearestOnDevice, OnHost, Ranked, Searching};
#[cfg(test)]
pub(crate) use offers::MOST_WANTED;
pub(crate) use offers::{Offers, SEARCHES, ScoreOrder, positions_at_once};
pub(crate) use ranking::{has_room, search, upload_ranks};
pub(crate) use search::strides;
use similarity_engine::Cancel;

/// What finds the neighbours of searched positions.
pub(crate) trait NeighbourSearch {
    /// How scores order rows.
    fn score_order(&self) -> ScoreOrder;

    /// Offers the positions all of their neighbours, and returns how many candidates there were. Once `cancel` says so,
    /// some may be missing.
    fn run(&self, offers: &mut Offers<'_>, cancel: &Cancel) -> Result<usize, Fault>;

    /// Whether it finds [`ties`](Self::ties), so that no more neighbours are asked for than are wanted.
    fn finds_ties(&self) -> bool {
        false
    }

    /// Build rows that tie with the worst neighbour of a position that keeps as many as it wants, beside those that it
    /// keeps: by position, then by row.
    fn ties(&self, _offers: &mut Offers<'_>, _cancel: &Cancel) -> Result<Vec<Pair>, Fault> {
        Ok(Vec::new())
    }
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
