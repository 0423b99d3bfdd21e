//! The rows of a batch that still need a partner, and the build rows that are asked for one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;

use super::nested::Nested;
use super::{Done, FEWEST_AT_ONCE, Part, Settles, Settling, sample, taken};
use crate::exec::build_side::BuildSide;
use crate::exec::emission::Rows;
use crate::exec::probe::{Prober, Probing, Source};
use similarity_engine::{Cursor, PrepareContext};

/// Rows of a self-join that are probed as a batch.
const SLICE: usize = 8192;

impl Prober {
    /// Asks about the rows of `whole` that have not `matched`: samples from the one with this number on, or all rows of
    /// the build side that are not settled.
    pub(in crate::exec) fn ask(
        &self,
        build: &BuildSide,
        whole: RecordBatch,
        matched: Vec<bool>,
        from: usize,
    ) -> Result<(Vec<Cursor>, Source, usize)> {
        let (mut part, mut next) = match &build.settling {
            Some(settling) => self.part(build, settling, &whole, from),
            None => (None, usize::MAX),
        };
        let origin = matched.contains(&true).then(|| {
            let open = (0u32..).zip(&matched).filter(|(_, matched)| !**matched);
            open.map(|(row, _)| row).collect::<Vec<_>>()
        });
        let batch = match &origin {
            Some(rows) => taken(&whole, rows)?,
            None => whole.clone(),
        };
        let helpers = build.take_idle(usize::MAX);
        let context = PrepareContext { threads: 1 + helpers.count, cancel: &self.cancel };
        let of_part = part.as_ref().map(|part| part.matcher.prepare(&batch, &context));
        let (prepared, fallback) = match of_part {
            Some(Ok(prepared)) => (prepared, false),
            Some(Err(error)) if self.cancel.is_cancelled() => return Err(error),
            of_part => {
                if of_part.is_some() {
                    (part, next) = (None, usize::MAX);
                }
                match build.matcher(false).matcher.prepare(&batch, &context) {
                    Ok(prepared) => (prepared, false),
                    Err(error) if self.cancel.is_cancelled() => return Err(error),
                    Err(error) => (build.fall_back(error)?.matcher.prepare(&batch, &context)?, true),
                }
            }
        };
        let unmatchable = prepared.unmatchable;
        let left = vec![Cursor { next: 0, end: prepared.len }];
        Ok((left, Source::Batch { whole, batch, origin, part, next, prepared, fallback, matched }, unmatchable))
    }

    /// The part that is asked next, and the number of the sample after it.
    fn part(
        &self,
        build: &BuildSide,
        settling: &Settling,
        whole: &RecordBatch,
        from: usize,
    ) -> (Option<Arc<Part>>, usize) {
        let (dense, rows) = (settling.is_dense(), build.batch.num_rows());
        match settling.settles {
            Settles::Probe => {
                let useful = |(_, part): &(usize, Arc<Part>)| part.is_useful();
                match settling.parts().into_iter().enumerate().skip(from).find(useful) {
                    Some((at, part)) => (Some(part), at + 1),
                    None if dense && rows >= FEWEST_AT_ONCE => {
                        (Some(Arc::new(self.nested((build, settling)))), usize::MAX)
                    }
                    None => (None, usize::MAX),
                }
            }
            Settles::Build if dense && whole.num_rows() >= FEWEST_AT_ONCE => {
                settling.counters.nested.add(1);
                (self.open_rows(build).map(Arc::new).ok(), 0)
            }
            Settles::Build => {
                let part = settling.last();
                settling.counters.nested.add(usize::from(part.as_ref().is_some_and(|part| part.decides)));
                (part, 0)
            }
        }
    }

    fn nested(&self, (build, settling): (&BuildSide, &Settling)) -> Part {
        settling.counters.nested.add(1);
        Part::nested(self.condition_over(build.batch.clone(), settling.settles), None)
    }

    fn condition_over(&self, batch: RecordBatch, settles: Settles) -> Nested {
        Nested::new(self.spec.condition.clone(), batch, self.spec.build, settles)
    }

    /// The build rows that are not settled, for a nested loop.
    fn open_rows(&self, build: &BuildSide) -> Result<Part> {
        let rows = build.matched.select(build.batch.num_rows(), Rows::Unmatched);
        let batch = taken(&build.batch, &rows)?;
        Ok(Part::nested(self.condition_over(batch, Settles::Build), Some(rows)))
    }

    /// Keeps settled rows away from an index that has found many of their pairs, after a step over so many positions.
    pub(in crate::exec) fn settle(
        &self,
        build: &BuildSide,
        probing: &mut Probing,
        (done, positions): (Done, usize),
    ) -> Result<()> {
        let Some(settling) = build.settling.as_ref().filter(|_| !probing.is_fallback()) else { return Ok(()) };
        let rows = match &probing.source {
            Source::Batch { part: Some(part), .. } if settling.settles == Settles::Build && !part.decides => {
                Some(part.batch.num_rows())
            }
            Source::Batch { part: Some(_), .. } => None,
            Source::Batch { part: None, .. } => Some(build.batch.num_rows()),
            Source::SelfJoin => Some(build.batch.num_rows().div_ceil(2)),
        };
        rows.into_iter().for_each(|rows| settling.examine(done.failed, positions.saturating_mul(rows)));
        match settling.settles {
            Settles::Probe => self.settle_probe_rows((build, settling), probing, done),
            Settles::Build => self.settle_build_rows((build, settling), probing, done),
        }
    }

    fn settle_probe_rows(
        &self,
        (build, settling): (&BuildSide, &Settling),
        probing: &mut Probing,
        done: Done,
    ) -> Result<()> {
        let Source::Batch { part, batch, matched, origin, next, .. } = &probing.source else { return Ok(()) };
        match part {
            Some(part) if part.decides => Ok(()),
            Some(part) => {
                if !probing.is_searched() {
                    return Ok(());
                }
                let row = |row: usize| origin.as_ref().map_or(row, |rows| rows[row] as usize);
                let settled = (0..batch.num_rows()).filter(|&at| matched[row(at)]).count();
                part.tried.fetch_add(batch.num_rows(), Ordering::Relaxed);
                part.settled.fetch_add(settled, Ordering::Relaxed);
                let next = *next;
                self.ask_again(build, probing, next)
            }
            None => {
                let rows = build.batch.num_rows();
                let next = settling.next_sample(rows);
                let in_vain = settling.is_in_vain(done.pairs - done.settled, next.unwrap_or(rows));
                let sampled = match next.filter(|_| in_vain) {
                    Some(count) => {
                        let rows = (&build.batch, sample(count, rows));
                        settling.build(rows, 1, &self.cancel, build.reservation())?
                    }
                    None => false,
                };
                if probing.is_searched() || !(sampled || settling.is_dense() && rows >= FEWEST_AT_ONCE) {
                    return Ok(());
                }
                let from = if sampled { settling.parts().len() - 1 } else { usize::MAX };
                self.ask_again(build, probing, from)
            }
        }
    }

    fn settle_build_rows(
        &self,
        (build, settling): (&BuildSide, &Settling),
        probing: &mut Probing,
        done: Done,
    ) -> Result<()> {
        let last = settling.last();
        let asked = match &probing.source {
            Source::SelfJoin => None,
            Source::Batch { part: Some(part), .. } if part.decides => return Ok(()),
            // its keys cannot be read by an index of fewer rows
            Source::Batch { next: usize::MAX, .. } => return Ok(()),
            Source::Batch { part, .. } => part.as_ref(),
        };
        let rows = asked.map_or(build.batch.num_rows(), |part| part.batch.num_rows());
        let is_last = last.as_ref().map(Arc::as_ptr) == asked.map(Arc::as_ptr);
        let in_vain = is_last && settling.is_in_vain(done.pairs - done.settled, rows);
        let is_dense = settling.is_dense();
        let again = match &probing.source {
            Source::SelfJoin => {
                let again = !is_last || (in_vain || is_dense) && self.leave_out_settled(build, settling)?;
                if again {
                    // all rows are probed as batches from now on
                    probing.abandon();
                }
                return Ok(());
            }
            Source::Batch { whole, .. } => {
                let many = whole.num_rows() >= FEWEST_AT_ONCE;
                !is_last || is_dense && many || in_vain && self.leave_out_settled(build, settling)?
            }
        };
        if again && !probing.is_searched() { self.ask_again(build, probing, 0) } else { Ok(()) }
    }

    /// Has the rows indexed that are not settled.
    fn leave_out_settled(&self, build: &BuildSide, settling: &Settling) -> Result<bool> {
        let rows = build.matched.select(build.batch.num_rows(), Rows::Unmatched);
        if rows.is_empty() || settling.is_dense() {
            settling.keep(self.open_rows(build)?);
            return Ok(true);
        }
        let helpers = build.take_idle(usize::MAX);
        settling.build((&build.batch, rows), 1 + helpers.count, &self.cancel, build.reservation())
    }

    fn ask_again(&self, build: &BuildSide, probing: &mut Probing, from: usize) -> Result<()> {
        let Source::Batch { whole, matched, .. } = std::mem::replace(&mut probing.source, Source::SelfJoin) else {
            return Ok(());
        };
        let unmatchable;
        (probing.left, probing.source, unmatchable) = self.ask(build, whole, matched, from)?;
        probing.asked_again(unmatchable);
        Ok(())
    }

    /// The next rows of a self-join whose index is not asked any more, as a batch.
    pub(in crate::exec) fn claim_slice(&self, build: &BuildSide) -> Option<RecordBatch> {
        let settling = build.settling.as_ref()?;
        let rows = build.batch.num_rows();
        let start = settling.claimed.fetch_add(SLICE, Ordering::Relaxed);
        (start < rows).then(|| build.batch.slice(start, SLICE.min(rows - start)))
    }

    /// Whether rows of a self-join are probed as batches.
    pub(in crate::exec) fn is_taken_over(&self, build: &BuildSide) -> bool {
        build.settling.as_ref().is_some_and(|settling| settling.last().is_some())
    }
}
