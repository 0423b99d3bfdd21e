//! The same work on many items or parts, by several threads.

use std::cmp;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;

/// The results of `work` for `0..count`, in order, by up to `threads` threads that take one item after the other.
///
/// # Errors
/// The error of the first item that failed.
pub fn in_turn<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                n if n < count => done.push((n, work(n))),
                _ => return done,
            }
        }
    };
    let mut all = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(share)).collect();
        let mut all = share();
        for helper in helpers {
            all.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Runs `work` on each part, each on a thread of its own, and returns the results in order.
///
/// # Errors
/// The error of the first part that failed.
pub fn in_parallel<P: Send, T: Send>(
    parts: impl Iterator<Item = P>,
    work: impl Fn(P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        handles.into_iter().map(|h| h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Rows in up to `threads` ranges of at least about `worth` rows, one range at least.
pub fn ranges(rows: usize, threads: usize, worth: usize) -> impl Iterator<Item = Range<usize>> {
    let threads = threads.clamp(1, 1 + rows / worth);
    (0..threads).map(move |t| rows * t / threads..rows * (t + 1) / threads)
}

/// Below this many a thread that sorts costs more than it saves.
const WORTH_SORTING: usize = 1 << 15;

/// Sorts `values`, of which equal ones keep their order, by up to `threads` threads.
pub fn sort_in_parallel<T: Send>(values: &mut [T], threads: usize, compare: impl Fn(&T, &T) -> cmp::Ordering + Sync) {
    let part = values.len().div_ceil(threads.max(1)).max(WORTH_SORTING);
    if part < values.len() {
        let compare = &compare;
        std::thread::scope(|scope| {
            values.chunks_mut(part).for_each(|part| drop(scope.spawn(move || part.sort_by(compare))));
        });
    }
    // runs that are in order are merged
    values.sort_by(compare);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_sorted_and_merged() {
        for count in [0, 1, 1000, 200_000] {
            // few values, so that many are equal
            let mut values: Vec<(u32, u32)> =
                (0..count).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24, at)).collect();
            let mut expected = values.clone();
            expected.sort_unstable();
            sort_in_parallel(&mut values, 3, |one, other| one.0.cmp(&other.0));
            assert!(values == expected, "{count}");
        }
    }
}
