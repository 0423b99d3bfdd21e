//! Work on many items or parts, by several threads.

use std::cmp;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Result;
use rayon::slice::ParallelSliceMut;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The results of `work` for `0..count`, in order, by up to `threads` threads that take one item after the other.
pub fn each_in_turn<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let share = |_| {
        let mut done = Vec::new();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                n if n < count => done.push((n, work(n))),
                _ => return done,
            }
        }
    };
    let mut all: Vec<(usize, T)> =
        each_in_parallel(0..threads.max(1).min(count), share).into_iter().flatten().collect();
    all.sort_unstable_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

/// [`each_in_turn`] for work that may fail.
///
/// # Errors
/// The error of the first item that failed.
pub fn in_turn<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    each_in_turn(count, threads, work).into_iter().collect()
}

/// The threads that parts run on. Some wait for a device, so that there are more of them than cores; none where the
/// system has no threads left.
static THREADS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ThreadPoolBuilder::new().num_threads(2 * cores).thread_name(|n| format!("similarity-{n}")).build().ok()
});

/// Whether this thread is one of the pool, which runs parts, and while it waits for its own those of others.
pub fn is_in_a_part() -> bool {
    rayon::current_thread_index().is_some()
}

/// Runs `work` on each part, side by side, the first one on the caller's thread, and returns the results in order.
///
/// A thread that waits for its parts may take up others' meanwhile. So nobody may run parts while it holds what a part
/// waits for: a lock, or a cell that it is about to fill.
pub fn each_in_parallel<P: Send, T: Send>(mut parts: impl Iterator<Item = P>, work: impl Fn(P) -> T + Sync) -> Vec<T> {
    let Some(first) = parts.next() else { return Vec::new() };
    let others: Vec<P> = parts.collect();
    let mut results: Vec<Option<T>> = others.iter().map(|_| None).collect();
    let first = match THREADS.as_ref().filter(|_| !others.is_empty()) {
        Some(threads) => threads.in_place_scope(|scope| {
            for (part, result) in others.into_iter().zip(&mut results) {
                let work = &work;
                scope.spawn(move |_| *result = Some(work(part)));
            }
            work(first)
        }),
        None => {
            let first = work(first);
            others.into_iter().zip(&mut results).for_each(|(part, result)| *result = Some(work(part)));
            first
        }
    };
    std::iter::once(first).chain(results.into_iter().flatten()).collect()
}

/// Sorts on all threads. Equal values may change places.
pub fn sort<T: Send>(values: &mut [T], compare: impl Fn(&T, &T) -> cmp::Ordering + Sync) {
    match THREADS.as_ref() {
        Some(threads) => threads.install(|| values.par_sort_unstable_by(&compare)),
        None => values.sort_unstable_by(&compare),
    }
}

/// Runs two things side by side, the second one on the caller's thread; as [`each_in_parallel`] does.
pub fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    let Some(threads) = THREADS.as_ref() else { return (one(), other()) };
    let mut result = None;
    let other = threads.in_place_scope(|scope| {
        scope.spawn(|_| result = Some(one()));
        other()
    });
    (result.unwrap_or_else(|| unreachable!("a scope ends with its parts")), other)
}

/// [`each_in_parallel`] for work that may fail.
///
/// # Errors
/// The error of the first part that failed.
pub fn in_parallel<P: Send, T: Send>(
    parts: impl Iterator<Item = P>,
    work: impl Fn(P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    each_in_parallel(parts, work).into_iter().collect()
}

/// The values of `value` for `0..count`, by up to `threads` threads, each of which computes `worth` of them at least.
///
/// The memory is written first by these threads: large memory that one thread fills takes longer than the values.
pub fn collect_in_parallel<T: Send>(
    count: usize,
    threads: usize,
    worth: usize,
    value: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let mut values = Vec::with_capacity(count);
    let share = count.div_ceil(threads.max(1)).max(worth).max(1);
    each_in_parallel(values.spare_capacity_mut()[..count].chunks_mut(share).enumerate(), |(part, places)| {
        places.iter_mut().zip(part * share..).for_each(|(place, at)| _ = place.write(value(at)));
    });
    // SAFETY: the chunks are all places, and each was written.
    unsafe { values.set_len(count) };
    values
}

/// The values of all `parts`, in their order, each part copied by a thread.
pub fn joined_in_parallel<T: Copy + Send + Sync>(mut parts: Vec<Vec<T>>) -> Vec<T> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let count = parts.iter().map(Vec::len).sum();
    let mut values = Vec::with_capacity(count);
    let mut rest = &mut values.spare_capacity_mut()[..count];
    let places = parts.iter().map(|part| {
        let (place, behind) = std::mem::take(&mut rest).split_at_mut(part.len());
        rest = behind;
        place
    });
    let places: Vec<_> = places.collect();
    each_in_parallel(places.into_iter().zip(&parts), |(place, part)| _ = place.write_copy_of_slice(part));
    // SAFETY: the parts are as long as all places, and each was copied to its own.
    unsafe { values.set_len(count) };
    values
}

/// How many of `threads` threads each of `count` items takes that are done side by side: twice an even share, so that
/// few of them wait for each other and none is idle.
pub fn threads_within(count: usize, threads: usize) -> usize {
    (2 * threads).div_ceil(count.clamp(1, threads.max(1))).min(threads).max(1)
}

/// Rows in up to `threads` ranges of at least about `worth` rows, one range at least.
pub fn ranges(rows: usize, threads: usize, worth: usize) -> impl Iterator<Item = Range<usize>> {
    let threads = threads.clamp(1, 1 + rows / worth);
    (0..threads).map(move |t| rows * t / threads..rows * (t + 1) / threads)
}

/// Fewer rows than these, each little work, are not divided among threads.
pub const WORTH_A_THREAD: usize = 1 << 14;

/// Below this many a thread that sorts costs more than it saves.
const WORTH_SORTING: usize = 1 << 15;

/// Sorts `values`, of which equal ones keep their order, by up to `threads` threads.
pub fn sort_in_parallel<T: Send>(values: &mut [T], threads: usize, compare: impl Fn(&T, &T) -> cmp::Ordering + Sync) {
    let part = values.len().div_ceil(threads.max(1)).max(WORTH_SORTING);
    if part < values.len() {
        each_in_parallel(values.chunks_mut(part), |part| part.sort_by(&compare));
    }
    // runs that are in order are merged
    values.sort_by(compare);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shared() {
        let cases = [(0, 4, 4), (1, 4, 4), (2, 4, 4), (3, 4, 3), (9, 4, 2), (8, 16, 4), (12, 16, 3), (100, 16, 2)];
        for (count, threads, within) in cases.into_iter().chain([(5, 1, 1), (5, 0, 1)]) {
            assert_eq!(threads_within(count, threads), within, "{count} items, {threads} threads");
        }
    }

    #[test]
    fn values_are_collected_in_order() {
        for (count, threads) in [(0, 3), (10, 1), (1000, 3), (7, 100)] {
            assert!(collect_in_parallel(count, threads, 4, |at| 2 * at).into_iter().eq((0..count).map(|at| 2 * at)));
        }
    }

    #[test]
    fn parts_are_joined_in_order() {
        let parts = |lengths: &[u32]| lengths.iter().map(|&length| (0..length).collect()).collect::<Vec<Vec<u32>>>();
        for lengths in [&[][..], &[0], &[7], &[3, 0, 5, 1], &[0, 0]] {
            assert_eq!(joined_in_parallel(parts(lengths)), parts(lengths).concat());
        }
    }

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
