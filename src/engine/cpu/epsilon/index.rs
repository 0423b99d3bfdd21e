//! The index of a build side, and the probe batches that it makes ready.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;

use datafusion::common::{Result, internal_err};

use super::blocks::Blocks;
use super::decision::Decision;
use super::frame::{Frame, sample};
use super::kernel::{LANES, near};
use super::metric::{Chebyshev, Euclidean, Manhattan, Metric, Products, Real};
use super::points::{Points, Rows};
use super::reach::Reach;
use crate::engine::{BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PreparedProbe, Probe};
use crate::measure::VectorMeasure;
use crate::predicate::VectorTest;

/// Indexes the vectors of `keys` for `test`.
///
/// # Errors
/// Keys that are no lists of numbers, vectors of several lengths, a refused reservation, a cancelled build.
pub fn build(test: VectorTest, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
    (context.reserve)(keys.values.get_array_memory_size())?;
    let points = Points::try_new(&test, keys, None)?;
    Ok(match test.measure {
        VectorMeasure::L1 => with_metric::<Manhattan>(test, points, context)?,
        VectorMeasure::Linf => with_metric::<Chebyshev>(test, points, context)?,
        VectorMeasure::InnerProduct => with_metric::<Products>(test, points, context)?,
        _ => with_metric::<Euclidean>(test, points, context)?,
    })
}

fn with_metric<M: Metric>(test: VectorTest, points: Points, context: &BuildContext<'_>) -> Result<Box<dyn Index>> {
    let unit = matches!(test.measure, VectorMeasure::Cosine | VectorMeasure::CosineDistance);
    let frame = Frame::of(&points, unit, test.measure != VectorMeasure::InnerProduct);
    let reach = Reach::of(&test, points.dimension);
    let coarse = reach.is_none_or(|reach| reach.is_coarse(typical_norm(&points, &frame, test.measure)));
    Ok(match coarse {
        true => Box::new(EpsilonIndex::<f32, M>::try_new(test, reach, frame, points, context)?),
        false => Box::new(EpsilonIndex::<f64, M>::try_new(test, reach, frame, points, context)?),
    })
}

/// The median of some points' norms.
fn typical_norm(points: &Points, frame: &Frame, measure: VectorMeasure) -> f64 {
    let mut placed = vec![0.0; points.dimension];
    let norms = sample(points.regular.len()).map(|at| {
        frame.place(points.regular.vector(at, points.dimension), &mut placed);
        Reach::norm(measure, &placed)
    });
    let mut norms: Vec<f64> = norms.collect();
    norms.sort_unstable_by(f64::total_cmp);
    norms.get(norms.len() / 2).copied().unwrap_or(0.0)
}

/// One side of a join.
#[derive(Debug)]
struct Side<R> {
    blocks: Blocks<R>,
    loose: Rows,
    unmatchable: usize,
    undecided: bool,
}

/// A build side's vectors, ready for probing.
#[derive(Debug)]
struct EpsilonIndex<R, M> {
    test: VectorTest,
    decision: Decision,
    /// None where nothing is near enough.
    reach: Option<Reach>,
    frame: Frame,
    side: Side<R>,
    /// Whether it probes itself.
    own: bool,
    metric: PhantomData<fn() -> M>,
}

impl<R: Real> Side<R> {
    fn try_new(
        test: &VectorTest,
        reach: Option<Reach>,
        frame: &Frame,
        mut points: Points,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let (loose, unmatchable) = (std::mem::take(&mut points.loose), points.unmatchable);
        if reach.is_none() {
            points.regular = Rows::default();
        }
        let undecided = (0..loose.len()).any(|at| !test.decides(loose.vector(at, points.dimension)));
        let blocks = Blocks::build(points, frame, test.measure, context)?;
        Ok(Self { blocks, loose, unmatchable, undecided })
    }

    fn loose(&self, at: usize) -> &[f64] {
        self.loose.vector(at, self.blocks.dimension)
    }
}

impl<R: Real, M: Metric> EpsilonIndex<R, M> {
    fn try_new(
        test: VectorTest,
        reach: Option<Reach>,
        frame: Frame,
        points: Points,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let side = Side::try_new(&test, reach, &frame, points, context)?;
        let decision = Decision::new(test);
        Ok(Self { test, decision, reach, frame, side, own: context.own, metric: PhantomData })
    }

    /// The pairs of one leaf's points at `positions` with all near ones.
    fn probe_leaf(&self, probe: &Side<R>, leaf: usize, cursor: &mut Cursor, work: &mut Work<'_>) {
        let Some(reach) = self.reach else {
            cursor.next = cursor.end;
            return;
        };
        let build = &self.side.blocks;
        let nodes = match self.own {
            true => build.nodes_from(leaf),
            false => build.nodes_of(probe.blocks.group_of(leaf)),
        };
        let limit = reach.of_boxes::<R>((build.corner, probe.blocks.corner));
        let mut found = std::mem::take(&mut work.found);
        let looked_at = build.leaves_near::<M>(nodes, (&probe.blocks, leaf), limit, &mut found);
        work.done += looked_at;
        let first = probe.blocks.leaves[leaf].first as usize;
        let end = first + probe.blocks.leaves[leaf].len as usize;
        // what one step may yield is bounded
        let most = if found.len() * LANES * LANES <= WHOLE_LEAF { LANES } else { FEW_POINTS };
        let positions = cursor.next..end.min(cursor.end).min(cursor.next + most);
        for chunk in found.chunks(LEAVES_BETWEEN_LOOKS) {
            if work.cancel.is_cancelled() {
                break;
            }
            for &other in chunk {
                self.pair_leaves(reach, (&probe.blocks, leaf, positions.clone()), other as usize, work);
            }
        }
        cursor.next = positions.end;
        work.found = found;
    }

    /// The pairs of some points of a leaf with those of a leaf of the build side.
    fn pair_leaves(
        &self,
        reach: Reach,
        (probe, leaf, positions): (&Blocks<R>, usize, Range<usize>),
        other: usize,
        work: &mut Work<'_>,
    ) {
        let build = &self.side.blocks;
        let (a, b) = (&probe.leaves[leaf], &build.leaves[other]);
        work.counts.candidates += positions.len() * b.len as usize;
        work.done += positions.len() * b.len as usize;
        let first = a.first as usize;
        let masks = match (probe.lanes(a), build.lanes(b)) {
            (Some(one), Some(other)) => {
                let limit = reach.of_points::<R>((a.norm, b.norm));
                near::<R, M>(one, other, positions.start - first..positions.end - first, limit)
            }
            _ => [u16::MAX; LANES],
        };
        let present = u16::MAX >> (LANES - b.len as usize);
        for position in positions {
            let mut mask = masks[position - first] & present;
            if self.own && leaf == other {
                // those behind it
                mask &= (u32::from(u16::MAX) << (position - first + 1)) as u16;
            }
            let vector = probe.vector(position);
            work.counts.verified += mask.count_ones() as usize;
            while mask != 0 {
                let candidate = b.first as usize + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if self.decision.holds(build.vector(candidate), vector) {
                    work.out.push(build.rows[candidate], probe.rows[position]);
                }
            }
        }
    }

    /// The pairs of a loose row of the build side with the regular rows of a probe side.
    fn pair_loose_build(&self, at: usize, probe: &Side<R>, work: &mut Work<'_>) {
        let (row, vector) = (self.side.loose.rows[at], self.side.loose(at));
        self.with_regular(&probe.blocks, self.side.loose.groups[at], vector, work, |other| (row, other));
    }

    /// The pairs of a loose row of a probe side with all rows of the build side; in a self-join with those loose ones that
    /// come after it.
    fn pair_loose_probe(&self, at: usize, probe: &Side<R>, work: &mut Work<'_>) {
        let (row, group, vector) = (probe.loose.rows[at], probe.loose.groups[at], probe.loose(at));
        self.with_regular(&self.side.blocks, group, vector, work, |other| (other, row));
        let first = if self.own { at + 1 } else { 0 };
        for other in first..self.side.loose.len() {
            if self.side.loose.groups[other] == group && self.decision.may_hold(self.side.loose(other), vector) {
                work.out.push(self.side.loose.rows[other], row);
            }
        }
        work.count(self.side.loose.len() - first.min(self.side.loose.len()));
    }

    fn with_regular(
        &self,
        blocks: &Blocks<R>,
        group: u32,
        vector: &[f64],
        work: &mut Work<'_>,
        pair: impl Fn(u32) -> (u32, u32),
    ) {
        let positions = blocks.positions_of(group);
        work.count(positions.len());
        for position in positions {
            if self.decision.may_hold(blocks.vector(position), vector) {
                let (build, probe) = pair(blocks.rows[position]);
                work.out.push(build, probe);
            }
        }
    }
}

/// What one call does.
struct Work<'a> {
    cancel: &'a Cancel,
    out: &'a mut Pairs,
    counts: Counts,
    /// Pairs compared and boxes looked at.
    done: usize,
    found: Vec<u32>,
}

impl Work<'_> {
    fn count(&mut self, pairs: usize) {
        self.counts.candidates += pairs;
        self.counts.verified += pairs;
        self.done += pairs;
    }
}

/// A leaf whose points have more candidates than this is probed some points at a time.
const WHOLE_LEAF: usize = 1 << 18;
/// How many then.
const FEW_POINTS: usize = 4;
/// After so many leaves it is asked whether anybody still waits.
const LEAVES_BETWEEN_LOOKS: usize = 256;

impl<R: Real, M: Metric> Index for EpsilonIndex<R, M> {
    fn describe(&self) -> String {
        let Side { blocks, loose, .. } = &self.side;
        let precision = if size_of::<R>() == size_of::<f32>() { "single" } else { "double" };
        let what = match blocks.dimension {
            0 | 1 => "sorted runs",
            _ => "k-d blocks",
        };
        let loose = match loose.len() {
            0 => String::new(),
            loose => format!(", {loose} rows compared with all"),
        };
        format!(
            "{what} of {} leaves over {} dimensions, {precision} precision filter{loose}",
            blocks.leaves.len(),
            blocks.dimension
        )
    }

    fn memory(&self) -> usize {
        self.side.blocks.memory() + self.side.loose.memory()
    }

    fn unmatchable(&self) -> usize {
        self.side.unmatchable
    }

    fn is_undecided(&self) -> bool {
        self.side.undecided
    }

    fn own_len(&self) -> usize {
        self.side.blocks.len() + self.side.loose.len()
    }

    fn prepare(&self, keys: &KeyColumn) -> Result<Box<dyn PreparedProbe>> {
        if self.own {
            return internal_err!("an epsilon index was built for a self-join and given another input");
        }
        let empty = self.side.blocks.len() + self.side.loose.len() == 0;
        let points = Points::try_new(&self.test, keys, (!empty).then_some(self.side.blocks.dimension))?;
        if empty {
            return Ok(Box::new(PreparedPoints::<R> { side: None, rows: keys.values.len(), loose_build: 0 }));
        }
        let cancel = Cancel::default();
        let context = BuildContext { threads: 1, own: false, probe_rows: None, cancel: &cancel, reserve: &|_| Ok(()) };
        let side = Side::<R>::try_new(&self.test, self.reach, &self.frame, points, &context)?;
        Ok(Box::new(PreparedPoints { side: Some(side), rows: keys.values.len(), loose_build: self.side.loose.len() }))
    }

    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let (side, loose_build) = match probe {
            Probe::Own if self.own => (&self.side, 0),
            Probe::Batch(batch) if !self.own => match batch.as_any().downcast_ref::<PreparedPoints<R>>() {
                Some(PreparedPoints { side: Some(side), loose_build, .. }) => (side, *loose_build),
                Some(_) => {
                    cursor.next = cursor.end;
                    return Ok(Counts::default());
                }
                None => return internal_err!("an epsilon index was given a probe batch that it did not prepare"),
            },
            _ => return internal_err!("an epsilon index was built for the other kind of probe"),
        };
        let before = out.len();
        let mut work = Work { cancel, out, counts: Counts::default(), done: 0, found: Vec::new() };
        let regular = side.blocks.len();
        while !cursor.is_done()
            && work.out.len() - before < limit.pairs
            && work.done < limit.work
            && !cancel.is_cancelled()
        {
            if cursor.next < regular {
                self.probe_leaf(side, side.blocks.leaf_of(cursor.next), cursor, &mut work);
                continue;
            }
            match cursor.next - regular {
                at if at < loose_build => self.pair_loose_build(at, side, &mut work),
                at => self.pair_loose_probe(at - loose_build, side, &mut work),
            }
            cursor.next += 1;
        }
        work.counts.matched = work.out.len() - before;
        Ok(work.counts)
    }
}

/// A batch: its regular rows, then the loose rows of the build side for these, then its own loose rows.
struct PreparedPoints<R> {
    /// None where the build side has no rows.
    side: Option<Side<R>>,
    rows: usize,
    loose_build: usize,
}

impl<R: Real> PreparedProbe for PreparedPoints<R> {
    fn len(&self) -> usize {
        self.side.as_ref().map_or(0, |side| side.blocks.len() + self.loose_build + side.loose.len())
    }

    fn unmatchable(&self) -> usize {
        self.side.as_ref().map_or(self.rows, |side| side.unmatchable)
    }

    fn is_undecided(&self) -> bool {
        self.side.as_ref().is_some_and(|side| side.undecided)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
