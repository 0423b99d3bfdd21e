//! One batch of the probe side, or one stretch of a self-join, on its way through the index.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::common::{JoinSide, Result, resources_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::audit::{Audit, NestedLoop};
use super::build_side::{BuildSide, Chosen};
use super::direction::Direction;
use super::distinct::distinct;
use super::emission::{Emission, Rows};
use super::in_order::{Portion, Portions};
use super::join_metrics::ProbeMetrics;
use super::output::{Output, SideRows};
use super::residual::{RowPairs, satisfying, verify};
use super::settled::{Done, Part};
use super::spec::JoinSpec;
use super::strategy::Run;
use crate::config::Verify;
use similarity_engine::parallel::each_in_parallel;
use similarity_engine::{AnyBatch, Cancel, Cursor, Limit, Pairs, Prepared, Probe};

/// How much work one step may do before the driver looks up: a few milliseconds' worth.
const WORK_PER_STEP: usize = 1 << 23;
/// The first step of what others can help with ends soon, whatever a candidate takes: work between two looks at the
/// clock.
const FIRST_STEP: Duration = Duration::from_millis(1);
const WORK_PER_LOOK: usize = 1 << 13;

/// What every step of one partition needs.
#[derive(Debug)]
pub(super) struct Prober {
    pub spec: Arc<JoinSpec>,
    pub output: Output,
    pub batch_size: usize,
    pub max_candidates: Option<usize>,
    pub verify: Verify,
    pub metrics: ProbeMetrics,
    pub cancel: Cancel,
    /// [`StrategyInfo::directed`](super::strategy::StrategyInfo::directed).
    pub directed: bool,
    /// Where the index finds each pair once: which way round they count, if one column says so.
    pub direction: Option<Direction>,
    /// Where pairs come out in the order of the probe rows.
    pub in_order: Option<Portions>,
    /// Memory of probe rows that are held together.
    pub reservation: MemoryReservation,
}

/// Where a partition stands in what it probes.
pub(super) struct Probing {
    /// What is still to be probed, in any order.
    pub left: Vec<Cursor>,
    pub source: Source,
    steps: usize,
    /// How many rows it probes, and how many of them can never match.
    rows: usize,
    unmatchable: usize,
    /// Where pairs come out in order.
    portion: Option<Box<Portion>>,
    /// Rows of the batch whose pairs are counted, for `similarity.verify = 'complete'`.
    audit: Option<Audit>,
}

/// What is probed.
pub(super) enum Source {
    Batch {
        /// All rows of the batch, and which of them have matched, where the join type asks.
        whole: RecordBatch,
        matched: Vec<bool>,
        /// Rows that are probed, and where they are in the whole batch.
        batch: RecordBatch,
        origin: Option<Vec<u32>>,
        /// The build rows that they are probed against; none where these are all.
        part: Option<Arc<Part>>,
        /// The sample of build rows that comes next.
        next: usize,
        prepared: Prepared<AnyBatch>,
        /// Whether a key cannot be evaluated, so that the fallback has prepared it.
        fallback: bool,
    },
    SelfJoin,
}

/// What is asked of pairs that a matcher has found.
#[derive(Clone, Copy)]
struct Check<'a> {
    /// The build rows that they are of.
    build: &'a RecordBatch,
    chosen: Chosen<'a>,
    conditions: &'a [JoinFilter],
    /// Whether the whole condition is evaluated once more.
    verify: bool,
    /// Where pairs are counted, by their rows of a side.
    audit: Option<(&'a Audit, JoinSide)>,
}

impl Prober {
    pub(super) fn emission(&self) -> Emission {
        Emission::of(self.spec.join_type, self.spec.build)
    }

    /// Makes `batch` ready for [`step`](Self::step).
    pub(super) fn start(&self, build: &BuildSide, batch: RecordBatch) -> Result<Probing> {
        let _timers = self.metrics.timers();
        let _at_work = build.go_to_work();
        self.begin(build, batch)
    }

    fn begin(&self, build: &BuildSide, batch: RecordBatch) -> Result<Probing> {
        // chunks leave no order of pairs, but whoever keeps the best of them may
        let (batch, portion) = match self.in_order.as_ref().filter(|_| !build.is_chunk) {
            Some(in_order) => {
                let (candidates, pairs) = (self.metrics.candidates(), self.metrics.matched.value());
                let portion = in_order.begin(batch, candidates, pairs);
                (portion.at_hand(), Some(Box::new(portion)))
            }
            None => (batch, None),
        };
        let rows = batch.num_rows();
        let batch = if self.emission().hides_probe() { distinct(batch)? } else { batch };
        let marks = self.emission().probe != Rows::None && !portion.as_ref().is_some_and(|portion| portion.holds());
        let matched = if marks { vec![false; batch.num_rows()] } else { Vec::new() };
        let audit = self.audits().then(|| Audit::of_batch(batch.num_rows()));
        let (left, source, unmatchable) = self.ask(build, batch, matched, 0)?;
        Ok(Probing { left, source, steps: 0, rows, unmatchable, portion, audit })
    }

    /// Makes the next positions of a self-join ready for [`step`](Self::step), `None` when all are taken.
    pub(super) fn start_stretch(&self, build: &BuildSide) -> Result<Option<Probing>> {
        if build.claim_nothing() {
            self.metrics.probe_rows.add(build.batch.num_rows());
        }
        if self.is_taken_over(build) {
            let Some(batch) = self.claim_slice(build) else { return Ok(None) };
            let (left, source, unmatchable) = self.ask(build, batch, Vec::new(), 0)?;
            return Ok(Some(Probing { left, source, steps: 0, rows: 0, unmatchable, portion: None, audit: None }));
        }
        let self_join = |(start, end)| Probing {
            left: vec![Cursor { next: start, end }],
            source: Source::SelfJoin,
            steps: 0,
            rows: if start == 0 { build.batch.num_rows() } else { 0 },
            unmatchable: 0,
            portion: None,
            audit: None,
        };
        Ok(build.claim_stretch().map(self_join))
    }

    /// Goes on with `probing` for a bounded while and returns what came out of it.
    pub(super) fn step(&self, build: &BuildSide, probing: &mut Probing) -> Result<Vec<RecordBatch>> {
        let _timers = self.metrics.timers();
        let _at_work = build.go_to_work();
        let mut out = Vec::new();
        if !probing.portion.as_ref().is_some_and(|portion| portion.is_sorted()) {
            self.search(build, probing, &mut out)?;
        }
        self.emit_in_order(build, probing, &mut out)?;
        Ok(out)
    }

    /// Goes on with `probing` for a bounded while and returns the pairs that the index has found, for a caller that
    /// says what comes of them.
    pub(super) fn find(&self, build: &BuildSide, probing: &mut Probing) -> Result<Vec<Pairs>> {
        let _timers = self.metrics.timers();
        let _at_work = build.go_to_work();
        probing.steps += 1;
        self.find_pairs(build, probing)
    }

    /// Finds some of the pairs.
    fn search(&self, build: &BuildSide, probing: &mut Probing, out: &mut Vec<RecordBatch>) -> Result<()> {
        probing.steps += 1;
        let (positions, candidates) = (probing.positions(), self.metrics.candidates());
        let mut done = Done::default();
        for pairs in self.find_pairs(build, probing)? {
            self.emit_pairs(build, probing, &pairs, (out, &mut done))?;
        }
        let examined = positions.saturating_sub(probing.positions());
        done.failed = (self.metrics.candidates() - candidates).saturating_sub(done.pairs);
        self.settle(build, probing, (done, examined))?;
        if let (Some(portion), Some(in_order)) = (&probing.portion, &self.in_order)
            && portion.is_overfull()
        {
            in_order.shrink(portion);
            build.forget_candidates(self.metrics.candidates() - portion.candidates);
            *probing = self.begin(build, portion.all())?;
        } else if probing.is_searched() {
            self.check_audit(build, probing)?;
            self.metrics.probe_unmatchable.add(probing.unmatchable);
            if !build.is_chunk {
                self.metrics.probe_rows.add(probing.rows);
                out.extend(self.emit_probe_rows(build, probing)?);
            }
            if let (Some(portion), Some(in_order)) = (&mut probing.portion, &self.in_order) {
                self.metrics.matched.add(portion.sort(self.emission().probe == Rows::Unmatched));
                in_order.grow(self.metrics.matched.value() - portion.pairs);
            }
        }
        Ok(())
    }

    /// Emits the next of the pairs that were held, and turns to the next rows of the batch after the last one.
    fn emit_in_order(&self, build: &BuildSide, probing: &mut Probing, out: &mut Vec<RecordBatch>) -> Result<()> {
        let (Some(portion), Source::Batch { batch, .. }) = (&mut probing.portion, &probing.source) else {
            return Ok(());
        };
        if let Some((of_build, of_probe)) = portion.next(self.batch_size) {
            let of_build = SideRows { batch: &build.batch, rows: Some(&of_build) };
            let rows = of_probe.len();
            let of_probe = SideRows { batch, rows: Some(&of_probe) };
            let build_is_right = self.spec.build == JoinSide::Right;
            let (left, right) = if build_is_right { (of_probe, of_build) } else { (of_build, of_probe) };
            out.push(self.output.assemble(left, right, rows)?);
        }
        if portion.is_done()
            && let Some(rest) = portion.after()
        {
            *probing = self.begin(build, rest)?;
        }
        Ok(())
    }

    /// The pairs of one step. What took more than one step is worth the threads of partitions that have nothing to do:
    /// it is cut into stretches which they take one by one.
    fn find_pairs(&self, build: &BuildSide, probing: &mut Probing) -> Result<Vec<Pairs>> {
        let Probing { left, source, steps, .. } = probing;
        let (_, chosen) = source.asked(build);
        let (probe, is_shared) = match &*source {
            Source::Batch { prepared, .. } => (Probe::Batch(&prepared.batch), prepared.shared),
            Source::SelfJoin => (Probe::SelfJoin, chosen.matcher.info().shared),
        };
        let tries = is_shared && *steps == 1;
        let helpers = build.take_idle(if tries || !is_shared { 0 } else { usize::MAX });
        let work = WORK_PER_STEP;
        if helpers.count == 0 {
            let mut pairs = Pairs::default();
            if let Some(mut cursor) = left.pop() {
                let (started, mut done) = (Instant::now(), 0);
                while !cursor.is_done() && done < work && pairs.len() < self.batch_size {
                    let at_once = if tries { WORK_PER_LOOK } else { work };
                    done += self.probe(build, chosen, probe, &mut cursor, at_once, &mut pairs)?.max(1);
                    if tries && started.elapsed() >= FIRST_STEP {
                        break;
                    }
                }
                left.extend((!cursor.is_done()).then_some(cursor));
            }
            return Ok(vec![pairs]);
        }
        cut(left, 8 * (helpers.count + 1));
        let shared = Mutex::new(std::mem::take(left));
        let take = || shared.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let share = || {
            let (mut pairs, mut done) = (Pairs::default(), 0);
            while pairs.len() < self.batch_size
                && done < work
                && let Some(mut cursor) = take()
            {
                done += self.probe(build, chosen, probe, &mut cursor, work - done, &mut pairs)?.max(1);
                if !cursor.is_done() {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).push(cursor);
                }
            }
            Ok(pairs)
        };
        let found = each_in_parallel(0..=helpers.count, |_| share()).into_iter().collect();
        *left = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        found
    }

    /// Goes on from `cursor`, and returns how many candidates that was.
    fn probe(
        &self,
        build: &BuildSide,
        chosen: Chosen<'_>,
        probe: Probe<'_, AnyBatch>,
        cursor: &mut Cursor,
        work: usize,
        pairs: &mut Pairs,
    ) -> Result<usize> {
        let limit = Limit { pairs: self.batch_size, work };
        let Chosen { matcher, unchecked, .. } = chosen;
        let counters = if unchecked { &[] } else { self.metrics.counters.as_slice() };
        let run = Run { limit, cancel: &self.cancel, counters };
        let counts = matcher.probe(probe, cursor, &run, pairs)?;
        self.metrics.count(counts);
        self.check_budget(build.add_candidates(counts.candidates))?;
        if self.cancel.is_cancelled() {
            // nobody waits for the rest
            cursor.next = cursor.end;
        }
        Ok(counts.candidates)
    }

    fn check_budget(&self, candidates: usize) -> Result<()> {
        match self.max_candidates {
            Some(limit) if candidates > limit => resources_err!(
                "a similarity join exceeds similarity.max_candidates = {limit}; raise the threshold, add an equality condition or raise the option"
            ),
            _ => Ok(()),
        }
    }

    fn emit_pairs(
        &self,
        build: &BuildSide,
        probing: &mut Probing,
        pairs: &Pairs,
        (out, done): (&mut Vec<RecordBatch>, &mut Done),
    ) -> Result<()> {
        let asked_part = probing.source.part();
        let asked_part = asked_part.as_deref();
        let (of_build, chosen) = asked(asked_part, build, probing.is_fallback());
        let is_whole = chosen.unchecked || probing.is_undecided();
        let check = Check {
            build: of_build,
            chosen,
            conditions: match is_whole {
                _ if asked_part.is_some_and(|part| part.decides) => &[],
                true => std::slice::from_ref(&self.spec.condition),
                false => self.spec.residual.as_slice(),
            },
            verify: self.verify.asks(probing.steps),
            audit: match &probing.source {
                Source::SelfJoin if self.audits() => Some((build.audit(), JoinSide::Left)),
                Source::SelfJoin => None,
                Source::Batch { .. } => probing.audit.as_ref().map(|audit| (audit, self.spec.build.negate())),
            },
        };
        // as even as can be: what is more than half a batch is not copied into another one
        let parts = pairs.len().div_ceil(self.batch_size);
        let part = pairs.len().div_ceil(parts.max(1)).max(1);
        for start in (0..pairs.len()).step_by(part) {
            if self.cancel.is_cancelled() {
                break;
            }
            let range = start..pairs.len().min(start + part);
            let (one, other) = (&pairs.build[range.clone()], &pairs.probe[range]);
            if let (Source::SelfJoin, Some(direction), false) = (&probing.source, &self.direction, is_whole) {
                let pairs = direction.turn(&build.batch, one, other)?;
                let check = Check { conditions: &direction.rest, ..check };
                self.emit((build, None), &build.batch, pairs, check, |_| false, (out, done))?;
                continue;
            }
            let (one, other) = (UInt32Array::from(one.to_vec()), UInt32Array::from(other.to_vec()));
            match &mut probing.source {
                Source::SelfJoin => {
                    // where the index has found the pair once, the residual says which way round it counts
                    let turned = (!self.directed).then(|| (one.clone(), other.clone()));
                    for (left, right) in std::iter::once((other, one)).chain(turned) {
                        let pairs = RowPairs { left, right };
                        self.emit((build, None), &build.batch, pairs, check, |_| false, (out, done))?;
                    }
                }
                Source::Batch { batch, matched, origin, .. } => {
                    let build_is_right = self.spec.build == JoinSide::Right;
                    let (left, right) = if build_is_right { (other, one) } else { (one, other) };
                    if let Some(portion) = probing.portion.as_mut().filter(|portion| portion.holds()) {
                        let pairs = self.checked(batch, RowPairs { left, right }, check)?;
                        let (of_build, of_probe) = pairs.by_build(build_is_right);
                        portion.hold(of_build, of_probe);
                        continue;
                    }
                    let mark = |row: u32| {
                        let row = origin.as_ref().map_or(row, |rows| rows[row as usize]);
                        matched.get_mut(row as usize).is_some_and(|matched| !std::mem::replace(matched, true))
                    };
                    let (of_build, pairs) = ((build, asked_part), RowPairs { left, right });
                    self.emit(of_build, batch, pairs, check, mark, (out, done))?;
                }
            }
        }
        Ok(())
    }

    /// Whether pairs that were lost are looked for. A nearest join leaves out pairs that satisfy its condition, and a
    /// join with a recall may.
    fn audits(&self) -> bool {
        self.verify == Verify::Complete && !self.directed && self.spec.recall.is_none()
    }

    /// Looks for lost pairs of the sampled rows of a batch, all of whose pairs have been found.
    fn check_audit(&self, build: &BuildSide, probing: &Probing) -> Result<()> {
        let (Some(audit), Source::Batch { whole, matched, .. }) = (&probing.audit, &probing.source) else {
            return Ok(());
        };
        let (condition, side) = (&self.spec.condition, self.spec.build.negate());
        let nested = NestedLoop { condition, side, sampled: whole, others: &build.batch };
        let emission = self.emission();
        if self.cancel.is_cancelled() {
            Ok(())
        } else if emission.pairs {
            audit.check_pairs(nested)
        } else if emission.probe != Rows::None {
            audit.check_matched(nested, |row| matched.get(row as usize).copied().unwrap_or_default())
        } else {
            audit.check_partners(nested, |row| build.matched.is_marked(row))
        }
    }

    /// Looks for lost pairs of some rows of a self-join, which has ended.
    pub(super) fn check_self_join(&self, build: &BuildSide) -> Result<()> {
        if !self.audits() || self.cancel.is_cancelled() {
            return Ok(());
        }
        let (condition, batch, emission) = (&self.spec.condition, &build.batch, self.emission());
        let nested = |side| NestedLoop { condition, side, sampled: batch, others: batch };
        if emission.pairs {
            build.audit().check_pairs(nested(JoinSide::Left))
        } else if emission.build != Rows::None {
            build.audit().check_matched(nested(self.spec.build), |row| build.matched.is_marked(row))
        } else {
            Ok(())
        }
    }

    /// The pairs of one chunk that satisfy everything.
    fn checked(&self, probe: &RecordBatch, pairs: RowPairs, check: Check<'_>) -> Result<RowPairs> {
        let build_is_right = self.spec.build == JoinSide::Right;
        let (left, right) = if build_is_right { (probe, check.build) } else { (check.build, probe) };
        let pairs = satisfying(check.conditions, pairs, left, right).map_err(|error| check.chosen.explain(error))?;
        if check.verify {
            verify(&self.spec.condition, &pairs, left, right)?;
        }
        if let Some((audit, side)) = check.audit {
            audit.count(if side == JoinSide::Right { &pairs.right } else { &pairs.left });
        }
        Ok(pairs)
    }

    /// Residual, check, bookkeeping and output of one chunk of pairs.
    fn emit(
        &self,
        (build, part): (&BuildSide, Option<&Part>),
        probe: &RecordBatch,
        pairs: RowPairs,
        check: Check<'_>,
        mut mark_probe: impl FnMut(u32) -> bool,
        (out, done): (&mut Vec<RecordBatch>, &mut Done),
    ) -> Result<()> {
        let pairs = self.checked(probe, pairs, check)?;
        if pairs.is_empty() {
            return Ok(());
        }
        self.metrics.matched.add(pairs.len());
        done.pairs += pairs.len();
        let build_is_right = self.spec.build == JoinSide::Right;
        let (left, right) = if build_is_right { (probe, check.build) } else { (check.build, probe) };
        let (of_build, of_probe) = pairs.by_build(build_is_right);
        let emission = self.emission();
        if emission.build != Rows::None {
            let row = |&row: &u32| part.map_or(row, |part| part.row(row));
            done.settled += of_build.values().iter().filter(|of_build| build.matched.mark(row(of_build))).count();
        }
        if emission.probe != Rows::None {
            done.settled += of_probe.values().iter().filter(|row| mark_probe(**row)).count();
        }
        if emission.pairs {
            let left = SideRows { batch: left, rows: Some(&pairs.left) };
            let right = SideRows { batch: right, rows: Some(&pairs.right) };
            out.push(self.output.assemble(left, right, pairs.len())?);
        }
        Ok(())
    }

    /// Rows of the probe batch that come out by themselves, once all of the batch is probed.
    fn emit_probe_rows(&self, build: &BuildSide, probing: &Probing) -> Result<Option<RecordBatch>> {
        let Source::Batch { whole, matched, .. } = &probing.source else { return Ok(None) };
        let wanted = match self.emission().probe {
            Rows::None => return Ok(None),
            which => which == Rows::Matched,
        };
        let rows: UInt32Array = (0u32..).zip(matched).filter(|&(_, &m)| m == wanted).map(|(row, _)| row).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        self.one_sided(self.spec.build.negate(), whole, &build.batch, &rows).map(Some)
    }

    /// Rows of the build side that come out by themselves, once everything is probed.
    ///
    /// `probe` is any batch with the columns of the probe side.
    pub(super) fn emit_build_rows(&self, build: &BuildSide, probe: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let rows = build.matched.select(build.batch.num_rows(), self.emission().build);
        let chunk =
            |rows: &[u32]| self.one_sided(self.spec.build, &build.batch, probe, &UInt32Array::from(rows.to_vec()));
        rows.chunks(self.batch_size).map(chunk).collect()
    }

    /// `rows` of the batch of `side`, beside NULLs for the other side.
    pub(super) fn one_sided(
        &self,
        side: JoinSide,
        batch: &RecordBatch,
        other: &RecordBatch,
        rows: &UInt32Array,
    ) -> Result<RecordBatch> {
        let given = SideRows { batch, rows: Some(rows) };
        let nulls = SideRows { batch: other, rows: None };
        let (left, right) = if side == JoinSide::Right { (nulls, given) } else { (given, nulls) };
        self.output.assemble(left, right, rows.len())
    }
}

impl Source {
    fn part(&self) -> Option<Arc<Part>> {
        match self {
            Self::Batch { part, .. } => part.clone(),
            Self::SelfJoin => None,
        }
    }

    /// The build rows that are probed against, and what finds the pairs.
    fn asked<'a>(&'a self, build: &'a BuildSide) -> (&'a RecordBatch, Chosen<'a>) {
        match self {
            Self::Batch { part, fallback, .. } => asked(part.as_deref(), build, *fallback),
            Self::SelfJoin => asked(None, build, false),
        }
    }
}

fn asked<'a>(part: Option<&'a Part>, build: &'a BuildSide, fallback: bool) -> (&'a RecordBatch, Chosen<'a>) {
    match part {
        Some(part) => (&part.batch, Chosen::of(part.matcher.as_ref())),
        None => (&build.batch, build.matcher(fallback)),
    }
}

impl Probing {
    pub(super) fn is_fallback(&self) -> bool {
        matches!(self.source, Source::Batch { fallback: true, .. })
    }

    /// Positions that are still to be probed.
    fn positions(&self) -> usize {
        self.left.iter().map(|cursor| cursor.end.saturating_sub(cursor.next)).sum()
    }

    /// Leaves what is left to others.
    pub(super) fn abandon(&mut self) {
        self.left.clear();
    }

    /// Begins anew with rows of which so many match nothing that is left.
    pub(super) fn asked_again(&mut self, unmatchable: usize) {
        (self.steps, self.unmatchable) = (0, unmatchable.max(self.unmatchable));
    }

    /// Whether it is a stretch of a self-join.
    pub(super) fn is_self_join(&self) -> bool {
        matches!(self.source, Source::SelfJoin)
    }

    /// Whether the whole condition is asked of pairs, because of rows of the batch.
    fn is_undecided(&self) -> bool {
        matches!(&self.source, Source::Batch { prepared, .. } if prepared.undecided)
    }

    /// How many rows it probes.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows of the batch that have matched, where the join type asks.
    pub(super) fn matched(&self) -> impl Iterator<Item = usize> + '_ {
        let matched: &[bool] = match &self.source {
            Source::Batch { matched, .. } => matched,
            Source::SelfJoin => &[],
        };
        (0..).zip(matched).filter(|(_, matched)| **matched).map(|(row, _)| row)
    }

    pub(super) fn is_searched(&self) -> bool {
        self.left.iter().all(Cursor::is_done)
    }

    /// Whether everything has come out, once a step was made.
    pub(super) fn is_done(&self) -> bool {
        self.is_searched() && self.portion.as_ref().is_none_or(|portion| portion.is_done())
    }
}

/// Cuts the longest of `left` until there are about `parts` stretches.
fn cut(left: &mut Vec<Cursor>, parts: usize) {
    let missing = parts.saturating_sub(left.len());
    let longest = (0..left.len()).max_by_key(|&at| left[at].end - left[at].next);
    let (Some(at), true) = (longest, missing > 0) else { return };
    let Cursor { next, end } = left[at];
    let stretch = (end - next).div_ceil(missing + 1).max(1);
    let stretches = (next..end).step_by(stretch).map(|start| Cursor { next: start, end: end.min(start + stretch) });
    left.splice(at..=at, stretches);
}
