//! Damerau-Levenshtein: a device only filters, and the host decides what passes.
//!
//! A transposition around insertions and deletions has no bit-parallel form. What it changes, plain edits change as
//! well, at most two for each that it costs: pairs within twice as many plain edits are all that can match.

use super::long_strings::StringsOnHost;
use similarity_engine::parallel::{each_in_parallel, ranges};
use similarity_engine::strings::EditPredicate;
use similarity_engine::strings::features::length_of;
use similarity_engine::{Cancel, Pairs};

/// Below this many pairs a thread costs more than it saves.
const PAIRS_WORTH_A_THREAD: usize = 1 << 12;
/// Pairs decided without a look at `cancel`.
const PAIRS_UNCHECKED: usize = 256;

/// Keeps those of the pairs from `first` on that match, by up to `threads` threads.
pub(super) fn keep_matches(
    predicate: &EditPredicate,
    (build, probe): (&StringsOnHost, &StringsOnHost),
    first: usize,
    (threads, cancel): (usize, &Cancel),
    out: &mut Pairs,
) {
    let stop = || cancel.is_cancelled();
    let matches = |at: usize| {
        let (one, other) = (build.values.value(out.build[at] as usize), probe.values.value(out.probe[at] as usize));
        predicate.matches(one, other, length_of(one).max(length_of(other)), &stop)
    };
    let parts = each_in_parallel(ranges(out.len() - first, threads, PAIRS_WORTH_A_THREAD), |pairs| {
        let is_over = |at: &usize| at.is_multiple_of(PAIRS_UNCHECKED) && cancel.is_cancelled();
        let pairs = pairs.take_while(|at| !is_over(at)).map(|at| first + at);
        pairs.filter(|&at| matches(at)).collect::<Vec<_>>()
    });
    let mut kept = first;
    for at in parts.into_iter().flatten() {
        (out.build[kept], out.probe[kept]) = (out.build[at], out.probe[at]);
        kept += 1;
    }
    out.truncate(kept);
}
