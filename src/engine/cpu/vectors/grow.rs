//! From points to blocks.

use std::marker::PhantomData;

use datafusion::common::{Result, exec_err};

use super::blocks::{Balls, Blocks, Leaf, Node, Values};
use super::frame::Frame;
use super::kernel::LANES;
use super::metric::{Metric, Real, depth, numbers};
use super::order::{Parts, arrange, halved};
use super::points::Points;
use super::reach::Reach;
use crate::engine::parallel::in_parallel;
use crate::engine::{BuildContext, Cancel};
use crate::measure::VectorMeasure;

/// Groups of fewer points have no lanes: they would be mostly empty.
const FEWEST: usize = LANES / 4;
/// From so many dimensions on a ball excludes enough to be asked.
const FEWEST_FOR_BALLS: usize = 6;
/// Fewer numbers are not worth a thread.
const FEWEST_FOR_THREADS: usize = 1 << 16;
/// Beyond so many dimensions boxes exclude nothing.
pub(super) const MOST_FOR_BOXES: usize = 32;

/// Whether boxes exclude anything in so many dimensions.
pub(super) fn has_boxes(dimension: usize) -> bool {
    dimension <= MOST_FOR_BOXES
}

/// The blocks of the regular points; those of a probe side have boxes where the build side has.
///
/// # Errors
/// A refused reservation, a cancelled build.
pub(super) fn grow<R: Real, M: Metric>(
    points: Points,
    frame: &Frame,
    measure: VectorMeasure,
    build: Option<&Blocks<R>>,
    context: &BuildContext<'_>,
) -> Result<Blocks<R>> {
    let (dimension, n) = (points.dimension, points.regular.len());
    // products obey no triangle inequality
    let may_have_balls = measure != VectorMeasure::InnerProduct;
    let has_boxes = has_boxes(dimension) || !may_have_balls;
    let is_ordered = dimension <= MOST_FOR_BOXES;
    let copied = if is_ordered { dimension * size_of::<f64>() } else { 0 };
    let a_point = copied + (dimension + depth::<M>(dimension)) * size_of::<R>() + 2 * size_of::<(f64, u32)>();
    (context.reserve)(n * a_point + n / LANES * (5 * dimension + 4 * LANES) * size_of::<R>())?;
    let placed = place::<R>(&points, frame, context)?;
    let groups = arrange(&placed, dimension, &points.regular.groups, !has_boxes, context);
    check(context)?;
    // in tiny groups alone nothing is worth being excluded
    let in_lanes: usize = groups.iter().map(|(_, parts)| parts.places.len()).filter(|&len| len >= FEWEST).sum();
    let width = match build {
        Some(build) => build.width,
        None if has_boxes && in_lanes > 0 => dimension.next_multiple_of(LANES),
        None => 0,
    };
    let blocks = Blocks {
        dimension,
        depth: depth::<M>(dimension),
        rows: Vec::with_capacity(n),
        values: match is_ordered {
            true => Values::Ordered(Vec::with_capacity(n * dimension)),
            false => Values::ByRow(points.vectors.clone()),
        },
        leaves: Vec::with_capacity(n.div_ceil(LANES)),
        lanes: Vec::new(),
        nodes: Vec::with_capacity(2 * n.div_ceil(LANES)),
        boxes: Vec::with_capacity(2 * n.div_ceil(LANES) * 2 * width),
        width,
        balls: None,
        roots: Vec::with_capacity(groups.len()),
        corner: 0.0,
    };
    let has_balls = may_have_balls && dimension >= FEWEST_FOR_BALLS && 2 * in_lanes >= n;
    let cancel = context.cancel;
    let placing = Placing { points: &points, placed: &placed, measure, cancel };
    let mut growing = Growing::<R, M> {
        blocks,
        placing,
        has_lanes: false,
        has_balls,
        centres: Vec::new(),
        radii: Vec::new(),
        metric: PhantomData,
    };
    for (group, Parts { places, ends }) in groups {
        let first = growing.blocks.nodes.len() as u32;
        growing.has_lanes = places.len() >= FEWEST;
        growing.add(&places, 0, &ends);
        let nodes = first..growing.blocks.nodes.len() as u32;
        growing.blocks.roots.push((group, nodes));
    }
    check(context)?;
    Ok(growing.finish())
}

/// The points in the frame of the filter.
fn place<R: Real>(points: &Points, frame: &Frame, context: &BuildContext<'_>) -> Result<Vec<R>> {
    let (dimension, n) = (points.dimension, points.regular.len());
    let mut placed = vec![R::ZERO; n * dimension];
    if placed.is_empty() {
        return Ok(placed);
    }
    let threads = if placed.len() < FEWEST_FOR_THREADS { 1 } else { context.threads.max(1) };
    let stretch = n.div_ceil(threads);
    in_parallel(placed.chunks_mut(stretch * dimension).enumerate(), |(part, placed)| {
        for (at, point) in placed.chunks_exact_mut(dimension).enumerate().take_while(|_| !context.cancel.is_cancelled())
        {
            frame.place(points.regular(part * stretch + at), point);
        }
        Ok(())
    })?;
    Ok(placed)
}

/// Ends a build that nobody waits for.
fn check(context: &BuildContext<'_>) -> Result<()> {
    if context.cancel.is_cancelled() { exec_err!("the build of an epsilon index was cancelled") } else { Ok(()) }
}

/// The points by place.
struct Placing<'a, R> {
    points: &'a Points,
    /// In the frame of the filter.
    placed: &'a [R],
    measure: VectorMeasure,
    cancel: &'a Cancel,
}

struct Growing<'a, R, M> {
    blocks: Blocks<R>,
    placing: Placing<'a, R>,
    /// Whether the leaves of the group have.
    has_lanes: bool,
    has_balls: bool,
    /// Of each leaf, `dimension` numbers.
    centres: Vec<R>,
    radii: Vec<f64>,
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Growing<'_, R, M> {
    /// Appends the node of `places`, the first of which is number `first`, and all below; a leaf does not reach across one
    /// of `ends`.
    fn add(&mut self, places: &[u32], first: usize, ends: &[u32]) {
        // what is missing then is not used
        if self.placing.cancel.is_cancelled() {
            return;
        }
        let node = self.blocks.nodes.len();
        self.blocks.nodes.push(Node { skip: 0, leaf: None });
        self.blocks.boxes.resize((node + 1) * 2 * self.blocks.width, R::ZERO);
        if ends.len() < 2 && places.len() <= LANES {
            self.add_leaf(places, node);
        } else {
            let (middle, (ends, later)) = match ends {
                [] | [_] => (halved(places.len()), (ends, ends)),
                _ => (ends[ends.len() / 2 - 1] as usize - first, ends.split_at(ends.len() / 2)),
            };
            let (left, right) = places.split_at(middle);
            self.add(left, first, ends);
            self.add(right, first + middle, later);
        }
        self.blocks.nodes[node].skip = self.blocks.nodes.len() as u32;
    }

    fn add_leaf(&mut self, places: &[u32], node: usize) {
        let Self { blocks, placing, .. } = self;
        let (d, first) = (blocks.dimension, blocks.rows.len());
        let span = |place: u32| place as usize * d..(place as usize + 1) * d;
        let mut norm = 0.0;
        for &place in places {
            blocks.rows.push(placing.points.regular.rows[place as usize]);
            if let Values::Ordered(values) = &mut blocks.values {
                values.extend_from_slice(placing.points.regular(place as usize));
            }
            norm = Reach::norm_of(placing.measure, placing.placed[span(place)].iter().map(|x| x.get())).max(norm);
        }
        // points are rounded
        norm *= 1.0 + 4.0 * R::ROUNDING;
        let lanes = self.has_lanes.then_some((blocks.lanes.len() / LANES) as u32);
        let last = places.len() - 1;
        let mut centre = Vec::with_capacity(d);
        for k in 0..d {
            let at = |lane: usize| placing.placed[places[lane.min(last)] as usize * d + k];
            if blocks.width > 0 {
                let low = (0..=last).map(at).fold(f64::INFINITY, |low, x| low.min(x.get()));
                let high = (0..=last).map(at).fold(f64::NEG_INFINITY, |high, x| high.max(x.get()));
                let first = node * 2 * blocks.width + k;
                (blocks.boxes[first], blocks.boxes[first + blocks.width]) = (R::below(low), R::above(high));
            }
            if self.has_balls {
                centre.push(R::of((0..=last).map(|lane| at(lane).get()).sum::<f64>() / places.len() as f64));
            }
        }
        if self.has_lanes {
            let first = blocks.lanes.len();
            blocks.lanes.resize(first + blocks.depth * LANES, R::ZERO);
            let mut own = Vec::with_capacity(blocks.depth);
            for lane in 0..LANES {
                numbers::<R, M>(&placing.placed[span(places[lane.min(last)])], &mut own);
                put_lane(&mut blocks.lanes[first..], lane, &own);
            }
        }
        if self.has_balls {
            let distance = |&place: &u32| {
                let point = placing.placed[span(place)].iter().zip(&centre);
                Reach::norm_of(placing.measure, point.map(|(x, c)| x.get() - c.get()))
            };
            self.radii.push(places.iter().map(distance).fold(0.0, f64::max) + 2.0 * R::ROUNDING * norm);
            self.centres.extend(centre);
        }
        blocks.nodes[node].leaf = Some(blocks.leaves.len() as u32);
        blocks.leaves.push(Leaf { first: first as u32, len: places.len() as u32, node: node as u32, lanes, norm });
    }

    /// Draws the boxes of the nodes above leaves, from below, and puts the centres of balls side by side.
    fn finish(self) -> Blocks<R> {
        let Self { mut blocks, centres, radii, has_balls, .. } = self;
        for node in (0..blocks.nodes.len()).rev().filter(|&node| blocks.nodes[node].leaf.is_none()) {
            let children = [node + 1, blocks.nodes[node + 1].skip as usize];
            for k in 0..blocks.width {
                let [one, two] = children.map(|child| blocks.boxes[child * 2 * blocks.width + k]);
                blocks.boxes[node * 2 * blocks.width + k] = if two < one { two } else { one };
                let [one, two] = children.map(|child| blocks.boxes[(child * 2 + 1) * blocks.width + k]);
                blocks.boxes[(node * 2 + 1) * blocks.width + k] = if two > one { two } else { one };
            }
        }
        let corner = |node: usize| {
            let (low, high) = blocks.bounds(node);
            low.iter().zip(high).map(|(low, high)| low.get().abs().max(high.get().abs()).powi(2)).sum::<f64>().sqrt()
        };
        blocks.corner = blocks.roots.iter().map(|(_, nodes)| corner(nodes.start as usize)).fold(0.0, f64::max);
        if has_balls {
            let mut lanes = vec![R::ZERO; radii.len().next_multiple_of(LANES) * blocks.depth];
            let mut own = Vec::with_capacity(blocks.depth);
            for (leaf, centre) in centres.chunks_exact(blocks.dimension).enumerate() {
                numbers::<R, M>(centre, &mut own);
                put_lane(&mut lanes[leaf / LANES * LANES * blocks.depth..], leaf % LANES, &own);
            }
            blocks.balls = Some(Balls { centres: lanes, radii });
        }
        blocks
    }
}

/// Writes the numbers of one point beside those of others.
fn put_lane<R: Real>(lanes: &mut [R], lane: usize, numbers: &[R]) {
    numbers.iter().enumerate().for_each(|(k, &x)| lanes[k * LANES + lane] = x);
}
