//! The rows of a build side for which the most conditions hold, for each row of a probe side.
//!
//! Every condition is tested on every row: a comparison of two whole numbers is so fast in registers that an inverted
//! index is ahead only where a condition holds for few rows. Rows stand group by group in the order of their ranks. So
//! a row that is met later has to be better than the k-th so far, and nearly all are passed over by the register.
//!
//! ```text
//! chunk of rows:  condition 1 | condition 2 | ..    one column of places, or two where build rows have intervals
//! probe row:      from, width | from, width | ..
//! ```

use std::ops::Range;

use super::kind::IndexKind;
use super::registers::{self, Loop};
use crate::access_path::AccessPath;
use crate::atoms::Span;
use crate::error::Result;
use crate::match_count::{MatchCount, Spans, spans};
use crate::nearest::{Best, DynNearestIndex, FEW_AT_ONCE, NearestIndex, Neighbour, float_key, float_of_key};
use crate::sets::rows_by_rank::group_of;
use crate::stored::{Sink, Source, Store, Stored};
use crate::{
    BuildContext, Cancel, Counts, Erased, Index, IndexInfo, KeyColumn, NO_GROUP, PrepareContext, Prepared, Probe,
};

/// Rows that are tested together.
const LANES: usize = 64;

/// Rows that are laid out between two looks at whether the build is cancelled.
const CANCEL_EVERY: usize = 1 << 16;

/// Bytes of chunks that stay in a near cache while all probe rows pass over them.
const BLOCK_BYTES: usize = 1 << 17;

/// Makes the keys of a build side, each row with a rank, ready for being ranked by `count`.
///
/// # Errors
/// Keys of another number of conditions, a refused reservation, a cancelled build.
pub fn build(
    count: &MatchCount,
    keys: &KeyColumn,
    ranks: &[u32],
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    let spans = spans(&keys.values, count.conditions)?;
    let places = spans.all().filter(|span| *span != Span::NONE).map(|span| span.first.max(span.last)).max();
    let is_narrow = places.unwrap_or(0).max(count.conditions as u32) < u32::from(u16::NEVER);
    Ok(match is_narrow {
        true => Box::new(Erased(CountIndex::<u16>::try_new(count, spans, keys, ranks, context)?)),
        false => Box::new(Erased(CountIndex::<u32>::try_new(count, spans, keys, ranks, context)?)),
    })
}

/// Reads the index of [`build`] for the same conditions.
///
/// # Errors
/// Bytes that are no such index.
pub fn load(count: &MatchCount, source: &mut Source<'_>) -> Result<Box<DynNearestIndex>> {
    Ok(match bool::load(source)? {
        true => Box::new(Erased(CountIndex::<u16>::load(count, source)?)),
        false => Box::new(Erased(CountIndex::<u32>::load(count, source)?)),
    })
}

/// A number that places are compared as.
trait Place: Stored + Copy + Ord + Default + Send + Sync + std::fmt::Debug + 'static {
    /// No row stands there.
    const NEVER: Self;

    /// The number of a place; those beyond [`NEVER`](Self::NEVER) become the greatest number.
    fn of(place: u32) -> Self;

    /// How far it is from another number on, in a circle.
    fn minus(self, other: Self) -> Self;
}

macro_rules! place {
    ($type:ty) => {
        impl Place for $type {
            const NEVER: Self = Self::MAX - 1;

            #[inline(always)]
            fn of(place: u32) -> Self {
                Self::try_from(place).unwrap_or(Self::MAX)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    };
}

place!(u16);
place!(u32);

/// A build side, ready for being ranked by the conditions that hold.
#[derive(Debug)]
struct CountIndex<P> {
    count: MatchCount,
    /// Whether build rows have intervals for each condition.
    intervals: Vec<bool>,
    /// Chunks of rows: the columns of the conditions, in order.
    chunks: Vec<P>,
    /// Columns of a chunk.
    columns: usize,
    /// The row at each position, group by group, by rank.
    rows: Vec<u32>,
    /// The rank at each position.
    ranks: Vec<u32>,
    /// Where each group begins, and the end of the last one.
    groups: Vec<usize>,
    info: IndexInfo,
}

impl<P: Place> Store for CountIndex<P> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        IndexKind::Counts.store(sink)?;
        let is_narrow = size_of::<P>() == size_of::<u16>();
        is_narrow.store(sink)?;
        let Self { count: _, intervals, chunks, columns, rows, ranks, groups, info } = self;
        intervals.store(sink)?;
        chunks.store(sink)?;
        columns.store(sink)?;
        rows.store(sink)?;
        ranks.store(sink)?;
        groups.store(sink)?;
        info.store(sink)
    }
}

impl<P: Place> CountIndex<P> {
    /// Reads what follows the kind of numbers.
    fn load(count: &MatchCount, source: &mut Source<'_>) -> Result<Self> {
        Ok(Self {
            count: count.clone(),
            intervals: Stored::load(source)?,
            chunks: Stored::load(source)?,
            columns: Stored::load(source)?,
            rows: Stored::load(source)?,
            ranks: Stored::load(source)?,
            groups: Stored::load(source)?,
            info: Stored::load(source)?,
        })
    }

    fn try_new(
        count: &MatchCount,
        spans: Spans<'_>,
        keys: &KeyColumn,
        ranks: &[u32],
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let conditions = count.conditions;
        let mut rows: Vec<u32> = (0..keys.values.len() as u32).filter(|&row| group_of(keys, row) != NO_GROUP).collect();
        rows.sort_unstable_by_key(|&row| (group_of(keys, row), ranks[row as usize], row));
        let span_of = |row: u32, condition: usize| spans.at(row as usize * conditions + condition);
        let is_point = |condition: usize| {
            let mut all = rows.iter().map(|&row| span_of(row, condition));
            all.all(|span| span.first == span.last || span == Span::NONE)
        };
        let intervals: Vec<bool> = (0..conditions).map(|condition| !is_point(condition)).collect();
        let columns = intervals.iter().map(|&interval| 1 + usize::from(interval)).sum();
        context.cancel.check()?;
        let chunk_count = rows.len().div_ceil(LANES);
        (context.reserve)(chunk_count * columns * LANES * size_of::<P>() + 3 * rows.len() * size_of::<u32>())?;
        let mut chunks = vec![P::of(Span::NONE.first); chunk_count * columns * LANES];
        for (at, &row) in rows.iter().enumerate() {
            if at % CANCEL_EVERY == 0 {
                context.cancel.check()?;
            }
            let mut place = at / LANES * columns * LANES + at % LANES;
            for (condition, &interval) in intervals.iter().enumerate() {
                let span = span_of(row, condition);
                chunks[place] = P::of(span.first);
                place += LANES;
                if interval {
                    chunks[place] = P::of(span.last);
                    place += LANES;
                }
            }
        }
        let last = rows.last().map_or(0, |&row| group_of(keys, row) as usize + 1);
        let mut groups = vec![0; last + 1];
        rows.iter().for_each(|&row| groups[group_of(keys, row) as usize + 1] += 1);
        (1..groups.len()).for_each(|group| groups[group] += groups[group - 1]);
        let ranks: Vec<u32> = rows.iter().map(|&row| ranks[row as usize]).collect();
        let bytes = chunks.capacity() * size_of::<P>()
            + (rows.capacity() + ranks.capacity()) * size_of::<u32>()
            + groups.capacity() * size_of::<usize>();
        let info = IndexInfo {
            path: format!("{} ({conditions}) over {} rows", AccessPath::ConditionColumns, rows.len()),
            bytes,
            unmatchable: keys.values.len() - rows.len(),
            ..IndexInfo::default()
        };
        Ok(Self { count: count.clone(), intervals, chunks, columns, rows, ranks, groups, info })
    }

    /// The positions of a group.
    fn positions(&self, group: u32) -> Range<usize> {
        match self.groups.get(group as usize..) {
            Some([start, end, ..]) => *start..*end,
            _ => 0..0,
        }
    }

    /// Offers the rows of their group to some rows of a batch, and returns how many were good enough on the way.
    fn search<S: Sum<P>>(
        &self,
        (batch, weights): (&PreparedCounts<P>, &[S::Weight]),
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> usize {
        let group = positions.first().map_or(0..0, |&first| self.positions(batch.groups[first as usize]));
        let mut offered = 0;
        registers::run(Search::<P, S> {
            index: self,
            batch,
            weights,
            positions,
            best,
            group,
            offered: &mut offered,
            cancel,
        });
        offered
    }
}

/// Some probe rows on their way over the chunks of their group.
struct Search<'a, P, S: Sum<P>> {
    index: &'a CountIndex<P>,
    batch: &'a PreparedCounts<P>,
    weights: &'a [S::Weight],
    /// Positions of the batch, all in one group, and what is best for each.
    positions: &'a [u32],
    best: &'a mut [Best<i64>],
    /// Positions of the group.
    group: Range<usize>,
    offered: &'a mut usize,
    cancel: &'a Cancel,
}

impl<P: Place, S: Sum<P>> Loop for Search<'_, P, S> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { index, batch, weights, positions, best, group, offered, cancel } = self;
        let at_once = (BLOCK_BYTES / (index.columns * LANES * size_of::<P>())).max(1) * LANES;
        let mut start = group.start;
        while start < group.end && !cancel.is_cancelled() {
            let end = group.end.min((start / LANES) * LANES + at_once);
            for (&position, best) in positions.iter().zip(best.iter_mut()) {
                let row = batch.order[position as usize] as usize;
                let accepted = &batch.accepted[row * index.intervals.len()..][..index.intervals.len()];
                *offered += index.offer::<S>((accepted, weights), start..end, best);
            }
            start = end;
        }
    }
}

impl<P: Place> CountIndex<P> {
    /// Offers the rows at some positions to a probe row, and returns how many.
    #[inline(always)]
    fn offer<S: Sum<P>>(
        &self,
        (accepted, weights): (&[Accepted<P>], &[S::Weight]),
        positions: Range<usize>,
        best: &mut Best<i64>,
    ) -> usize {
        let mut offered = 0;
        let mut least = S::least(best);
        let chunk_len = self.columns * LANES;
        for at in positions.start / LANES..positions.end.div_ceil(LANES) {
            let (columns, _) = self.chunks[at * chunk_len..][..chunk_len].as_chunks::<LANES>();
            let mut columns = columns.iter();
            let mut sums = [S::default(); LANES];
            for ((accepted, &weight), &interval) in accepted.iter().zip(weights).zip(&self.intervals) {
                let Some(first) = columns.next() else { break };
                if interval {
                    let Some(last) = columns.next() else { break };
                    for lane in 0..LANES {
                        sums[lane].add((first[lane] < accepted.end) & (last[lane] >= accepted.start), weight);
                    }
                } else {
                    for lane in 0..LANES {
                        sums[lane].add(first[lane].minus(accepted.start) <= accepted.reach, weight);
                    }
                }
            }
            // most chunks have no row that is good enough
            if sums.iter().fold(S::default(), |greatest, sum| greatest.max(*sum)) < least {
                continue;
            }
            let start = (at * LANES).max(positions.start);
            for position in start..positions.end.min((at + 1) * LANES) {
                let sum = sums[position % LANES];
                if sum >= least {
                    let (rank, row) = (self.ranks[position], self.rows[position]);
                    best.offer(Neighbour { score: sum.score(), rank, row });
                    offered += 1;
                    least = S::least(best);
                }
            }
        }
        offered
    }
}

impl<P: Place> Index for CountIndex<P> {
    type Batch = PreparedCounts<P>;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn stored(&self) -> Option<&dyn Store> {
        Some(self)
    }

    fn prepare(&self, keys: &KeyColumn, _: &PrepareContext<'_>) -> Result<Prepared<PreparedCounts<P>>> {
        let spans = spans(&keys.values, self.count.conditions)?;
        let intervals = self.intervals.iter().cycle();
        let accepted = spans.all().zip(intervals).map(|(span, &interval)| Accepted::of(span, interval)).collect();
        let rows = keys.values.len();
        let mut order: Vec<u32> = (0..rows as u32).filter(|&row| group_of(keys, row) != NO_GROUP).collect();
        order.sort_by_key(|&row| group_of(keys, row));
        let groups = order.iter().map(|&row| group_of(keys, row)).collect();
        let (len, unmatchable) = (order.len(), rows - order.len());
        Ok(Prepared::new(PreparedCounts { accepted, order, groups }, len, unmatchable))
    }
}

impl<P: Place> NearestIndex for CountIndex<P>
where
    Number<P>: Sum<P, Weight = ()>,
{
    fn positions_at_once(&self, _: Probe<'_, PreparedCounts<P>>, _: usize) -> Result<usize> {
        Ok(FEW_AT_ONCE)
    }

    fn order<'a>(&'a self, probe: Probe<'a, PreparedCounts<P>>) -> Result<&'a [u32]> {
        Ok(&probe.batch()?.order)
    }

    fn nearest(
        &self,
        probe: Probe<'_, PreparedCounts<P>>,
        positions: &[u32],
        best: &mut [Best<i64>],
        cancel: &Cancel,
    ) -> Result<Counts> {
        let batch = probe.batch()?;
        let equal = vec![(); self.count.conditions];
        let (mut counts, mut best) = (Counts::default(), best);
        for positions in positions.chunk_by(|&one, &other| batch.groups[one as usize] == batch.groups[other as usize]) {
            let (now, later) = best.split_at_mut(positions.len());
            best = later;
            counts.candidates += match &self.count.weights {
                None => self.search::<Number<P>>((batch, &equal), positions, now, cancel),
                Some(weights) => self.search::<Weighted>((batch, weights), positions, now, cancel),
            };
        }
        counts.verified = counts.candidates;
        Ok(counts)
    }
}

/// A batch of the probe side.
#[derive(Debug)]
struct PreparedCounts<P> {
    /// What each row accepts, condition by condition.
    accepted: Vec<Accepted<P>>,
    /// The rows that are searched, group by group.
    order: Vec<u32>,
    /// The group at each position.
    groups: Vec<u32>,
}

/// What a probe row accepts in one condition.
#[derive(Debug, Clone, Copy)]
struct Accepted<P> {
    /// The first place.
    start: P,
    /// One past the last place.
    end: P,
    /// How far the last place is from the first one; where there is none, `start` is a place where no row stands.
    reach: P,
}

impl<P: Place> Accepted<P> {
    fn of(span: Span, interval: bool) -> Self {
        let (start, end) = (P::of(span.first), P::of(span.last));
        match interval || start < end {
            true => Self { start, end, reach: end.minus(start).minus(P::of(1)) },
            false => Self { start: P::NEVER, end, reach: P::default() },
        }
    }
}

/// What the conditions of a pair add up to.
trait Sum<P>: Copy + Default + PartialOrd {
    /// What a condition adds.
    type Weight: Copy;

    fn add(&mut self, holds: bool, weight: Self::Weight);

    fn max(self, other: Self) -> Self;

    /// The score as an integer that is less where the score is better.
    fn score(self) -> i64;

    /// The least sum that a row whose rank is no less than all before may be kept with.
    fn least(best: &Best<i64>) -> Self;
}

/// How many conditions hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
struct Number<P>(P);

/// The sum of the weights of the conditions that hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
struct Weighted(f64);

macro_rules! number {
    ($type:ty) => {
        impl Sum<$type> for Number<$type> {
            type Weight = ();

            #[inline(always)]
            fn add(&mut self, holds: bool, (): ()) {
                self.0 += <$type>::from(holds);
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            fn score(self) -> i64 {
                !i64::from(self.0)
            }

            fn least(best: &Best<i64>) -> Self {
                let worst = best.worst().map(|worst| !worst.score as $type);
                // equal counts come by ascending ranks, so that a later one is kept as a tie only
                Self(worst.map_or(0, |count| if best.wanted().ties { count } else { count.saturating_add(1) }))
            }
        }
    };
}

number!(u16);
number!(u32);

impl<P> Sum<P> for Weighted {
    type Weight = f64;

    #[inline(always)]
    fn add(&mut self, holds: bool, weight: f64) {
        self.0 += if holds { weight } else { 0.0 };
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(if self.0 > other.0 { self.0 } else { other.0 })
    }

    fn score(self) -> i64 {
        !float_key(self.0)
    }

    fn least(best: &Best<i64>) -> Self {
        let worst = best.worst().map(|worst| !worst.score);
        // the next greater number, as later rows of an equal sum are kept as ties only
        Self(worst.map_or(0.0, |sum| float_of_key(if best.wanted().ties { sum } else { sum + 1 })))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::choice::Engine;
    use crate::match_count;
    use crate::nearest::Wanted;

    /// Spans of build rows, points or intervals among `places`, and of probe rows.
    fn spans(rows: usize, places: u32, interval: bool, probe: bool, rng: &mut StdRng) -> Vec<Span> {
        let mut span = || {
            if rng.random_range(0..8) == 0 {
                return Span::NONE;
            }
            let first = rng.random_range(0..places);
            let reach = if interval || probe { rng.random_range(0..=places / 2) } else { 0 };
            Span { first, last: first + reach }
        };
        (0..rows).map(|_| span()).collect()
    }

    /// The score of a pair, one condition after the other.
    fn score(count: &MatchCount, build: &[Span], probe: &[Span]) -> i64 {
        let holds = build.iter().zip(probe).map(|(build, probe)| build.meets(*probe));
        match &count.weights {
            None => !(holds.filter(|holds| *holds).count() as i64),
            Some(weights) => {
                let held = holds.zip(weights.iter()).filter(|(holds, _)| *holds);
                !float_key(held.fold(0.0, |sum, (_, weight)| sum + weight))
            }
        }
    }

    #[test]
    fn finds_what_testing_all_pairs_finds() {
        let mut rng = StdRng::seed_from_u64(11);
        for case in 0..400 {
            let conditions = rng.random_range(1..6);
            let rows = [0, 1, 63, 64, 300][case % 5];
            let places = [3, 40, 70_000][case % 3];
            let weights: Option<Arc<[f64]>> =
                (case % 4 == 3).then(|| (0..conditions).map(|_| f64::from(rng.random_range(0..4)) / 3.0).collect());
            let count = MatchCount { conditions, weights };
            let intervals: Vec<bool> = (0..conditions).map(|_| rng.random_range(0..3) == 0).collect();
            let mut columns = |rows: usize, probe: bool| -> Vec<Vec<Span>> {
                intervals.iter().map(|&interval| spans(rows, places, interval, probe, &mut rng)).collect()
            };
            let (build, probe) = (columns(rows, false), columns(20, true));
            let grouped = case % 2 == 1;
            let mut groups = |rows: usize| -> Option<Vec<u32>> {
                grouped.then(|| (0..rows).map(|_| [0, 1, 2, NO_GROUP][rng.random_range(0..4)]).collect())
            };
            let (build_groups, probe_groups) = (groups(rows), groups(20));
            let ranks: Vec<u32> = (0..rows).map(|_| rng.random_range(0..9)).collect();
            let cancel = Cancel::default();
            let context = BuildContext::new(1, &cancel, &|_| Ok(()));
            let key = |columns: &[Vec<Span>], groups: &Option<Vec<u32>>, rows: usize| KeyColumn {
                values: match_count::keys(columns, rows).unwrap(),
                groups: groups.clone(),
            };
            let build_keys = key(&build, &build_groups, rows);
            let wanted = Wanted { rows: [1, 2, 5, 1000][rng.random_range(0..4)], ties: rng.random_bool(0.5) };
            let by = count.clone().into();
            let built = Engine::Cpu.build_nearest(&by, &build_keys, ranks.clone(), wanted, &context);
            let (index, _) = built.unwrap();
            let prepared = index.prepare(&key(&probe, &probe_groups, 20), &PrepareContext::by(1)).unwrap();
            let order = index.order(Probe::Batch(&prepared.batch)).unwrap();
            let mut best: Vec<_> = order.iter().map(|_| Best::new(wanted)).collect();
            let positions: Vec<u32> = (0..order.len() as u32).collect();
            index.nearest(Probe::Batch(&prepared.batch), &positions, &mut best, &cancel).unwrap();
            for (&row, best) in order.iter().zip(&mut best) {
                let mut found = Vec::new();
                best.take_into(&mut found);
                let of =
                    |columns: &[Vec<Span>], row: usize| columns.iter().map(|column| column[row]).collect::<Vec<_>>();
                let together = |other: usize| match (&build_groups, &probe_groups) {
                    (Some(build), Some(probe)) => build[other] == probe[row as usize],
                    _ => true,
                };
                let mut expected: Vec<_> = (0..rows)
                    .filter(|&other| together(other))
                    .map(|other| {
                        let score = score(&count, &of(&build, other), &of(&probe, row as usize));
                        Neighbour { score, rank: ranks[other], row: other as u32 }
                    })
                    .collect();
                expected.sort_unstable();
                expected.truncate(wanted.of(&expected));
                // without ties any of the rows that stand together at the end will do
                let places = |found: &[Neighbour<i64>]| found.iter().map(|n| (n.score, n.rank)).collect::<Vec<_>>();
                assert_eq!(places(&found), places(&expected), "case {case}: {count:?} {wanted:?}");
                assert!(!wanted.ties || found == expected, "case {case}");
            }
            let searched = probe_groups.map_or(20, |groups| groups.iter().filter(|group| **group != NO_GROUP).count());
            assert_eq!((order.len(), prepared.unmatchable), (searched, 20 - searched));
        }
    }
}
