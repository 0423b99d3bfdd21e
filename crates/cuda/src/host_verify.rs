//! Pairs that a device has only filtered, decided by the host.

use similarity_engine::parallel::{each_in_parallel, ranges};
use similarity_engine::{Cancel, Pairs};

/// Below this many pairs a thread costs more than it saves.
const PAIRS_WORTH_A_THREAD: usize = 1 << 12;
/// Pairs decided without a look at `cancel`.
const PAIRS_UNCHECKED: usize = 256;

/// Keeps those of the pairs from `first` on whose build and probe row match, by up to `threads` threads.
pub(super) fn keep_matches(
    first: usize,
    (threads, cancel): (usize, &Cancel),
    out: &mut Pairs,
    matches: impl Fn(usize, usize) -> bool + Sync,
) {
    let parts = each_in_parallel(ranges(out.len() - first, threads, PAIRS_WORTH_A_THREAD), |pairs| {
        let is_over = |at: &usize| at.is_multiple_of(PAIRS_UNCHECKED) && cancel.is_cancelled();
        let pairs = pairs.take_while(|at| !is_over(at)).map(|at| first + at);
        pairs.filter(|&at| matches(out.build[at] as usize, out.probe[at] as usize)).collect::<Vec<_>>()
    });
    let mut kept = first;
    for at in parts.into_iter().flatten() {
        (out.build[kept], out.probe[kept]) = (out.build[at], out.probe[at]);
        kept += 1;
    }
    out.truncate(kept);
}
