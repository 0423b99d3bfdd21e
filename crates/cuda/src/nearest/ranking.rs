//! Rows of a probe side ranked by searches of as many as fit a device at once.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::NeighbourSearch;
use super::offers::{MOST_WANTED, Offers, positions_at_once};
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::BLOCK;
use crate::memory::Budget;
use crate::wait::wait;
use similarity_engine::Cancel;
use similarity_engine::nearest::{Best, Neighbour, Wanted};

/// Rows that may tie with the last one, and how many times as many are asked for where they all do.
const TIES_ASKED: usize = 32;
const MORE_TIES: usize = 4;

/// Neighbours that are asked for at first: where ties are wanted, some more, so that it shows where they end.
fn asked_for(wanted: Wanted) -> usize {
    wanted.rows.saturating_add(if wanted.ties { TIES_ASKED } else { 0 })
}

/// A copy of the ranks of build rows; none where all are 0.
pub(crate) fn upload_ranks(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    ranks: &[u32],
) -> Result<Option<Buffer<u32>>, Fault> {
    let ranks_on_device = ranks.iter().any(|&rank| rank != 0).then(|| budget.upload(stream, ranks)).transpose()?;
    wait(stream)?;
    Ok(ranks_on_device)
}

/// Whether a device has room for so many neighbours of a row.
pub(crate) fn has_room(wanted: Wanted) -> bool {
    asked_for(wanted) <= MOST_WANTED
}

/// Offers each of `best` the neighbours of its position of a probe side, which are ascending, and returns how many
/// candidates there were. Row 0 of the build side is `first_row`.
///
/// # Errors
/// More ties than there is room for, too little memory, a device that fails.
pub(crate) fn search(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    search: &impl NeighbourSearch,
    positions: &[u32],
    (best, first_row): (&mut [Best<i64>], u32),
    cancel: &Cancel,
) -> Result<usize, Fault> {
    let Some(wanted) = best.first().map(Best::wanted) else { return Ok(0) };
    let finds_ties = wanted.ties && search.finds_ties();
    let mut asked = if finds_ties { wanted.rows } else { asked_for(wanted) };
    let (mut done, mut candidates) = (0, 0);
    while done < positions.len() && !cancel.is_cancelled() {
        let at_once = positions_at_once(budget, asked) as u32;
        let first = positions[done] / BLOCK * BLOCK;
        let some = done + positions[done..].partition_point(|&position| position < first + at_once);
        let (searched, best) = (&positions[done..some], &mut best[done..some]);
        let range = first..positions[some - 1] + 1;
        let found = || {
            let mut offers = Offers::try_new(budget, stream, search.score_order(), (range, searched), asked)?;
            let compared = search.run(&mut offers, cancel)?;
            let ties = if finds_ties { search.ties(&mut offers, cancel)? } else { Vec::new() };
            Ok((offers.fetch()?, ties, compared))
        };
        let (mut found, ties, compared) = found().inspect_err(|_: &Fault| {
            // what was launched reads columns of others
            let _ = wait(stream);
        })?;
        if cancel.is_cancelled() {
            break;
        }
        candidates += compared;
        // there may be more that tie
        let is_open = |&position: &u32| wanted.of(found.of((position - first) as usize)) == asked;
        if wanted.ties && !finds_ties && searched.iter().any(is_open) {
            if asked == MOST_WANTED {
                return Err(Fault::Memory);
            }
            asked = MOST_WANTED.min(asked * MORE_TIES);
            continue;
        }
        let mut ties = ties.iter().peekable();
        for (&position, best) in searched.iter().zip(best) {
            let found = found.of_mut((position - first) as usize);
            found.iter_mut().for_each(|neighbour| neighbour.row += first_row);
            best.offer_ranked(found);
            let Some(&worst) = found.last() else { continue };
            while let Some(tie) = ties.next_if(|tie| tie.probe == position) {
                best.offer(Neighbour { row: tie.build + first_row, ..worst });
            }
        }
        done = some;
    }
    Ok(candidates)
}
