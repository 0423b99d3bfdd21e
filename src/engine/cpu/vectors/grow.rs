//! From points to blocks.

use std::marker::PhantomData;

use datafusion::common::{Result, exec_err};

use super::blocks::{Balls, Blocks, Leaf, Node};
use super::frame::Frame;
use super::kernel::LANES;
use super::metric::{Metric, Real, depth, numbers};
use super::order::{Parts, arrange, halved};
use super::points::Points;
use super::reach::Reach;
use crate::engine::{BuildContext, Cancel};
use crate::measure::VectorMeasure;

/// Groups of fewer points have no lanes: they would be mostly empty.
const FEWEST: usize = LANES / 4;
/// From so many dimensions on a ball excludes enough to be asked.
const FEWEST_FOR_BALLS: usize = 6;
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
    let Points { dimension, regular, .. } = points;
    let n = regular.len();
    // products obey no triangle inequality
    let may_have_balls = measure != VectorMeasure::InnerProduct;
    let has_boxes = has_boxes(dimension) || !may_have_balls;
    let a_point =
        dimension * 2 * size_of::<f64>() + depth::<M>(dimension) * size_of::<R>() + 2 * size_of::<(f64, u32)>();
    (context.reserve)(n * a_point + n / LANES * (5 * dimension + 4 * LANES) * size_of::<R>())?;
    let mut placed = vec![0.0; regular.values.len()];
    if dimension > 0 {
        let pairs = regular.values.chunks_exact(dimension).zip(placed.chunks_exact_mut(dimension));
        for (vector, point) in pairs.take_while(|_| !context.cancel.is_cancelled()) {
            frame.place(vector, point);
        }
    }
    let groups = arrange(&placed, dimension, &regular.groups, !has_boxes, context);
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
        values: Vec::with_capacity(n * dimension),
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
    let placing = Placing { rows: &regular.rows, vectors: &regular.values, placed: &placed, measure, cancel };
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

/// Ends a build that nobody waits for.
fn check(context: &BuildContext<'_>) -> Result<()> {
    if context.cancel.is_cancelled() { exec_err!("the build of an epsilon index was cancelled") } else { Ok(()) }
}

/// The points by place.
struct Placing<'a> {
    rows: &'a [u32],
    vectors: &'a [f64],
    /// In the frame of the filter.
    placed: &'a [f64],
    measure: VectorMeasure,
    cancel: &'a Cancel,
}

struct Growing<'a, R, M> {
    blocks: Blocks<R>,
    placing: Placing<'a>,
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
            blocks.rows.push(placing.rows[place as usize]);
            blocks.values.extend_from_slice(&placing.vectors[span(place)]);
            norm = Reach::norm(placing.measure, &placing.placed[span(place)]).max(norm);
        }
        let lanes = self.has_lanes.then_some((blocks.lanes.len() / LANES) as u32);
        let last = places.len() - 1;
        let mut centre = Vec::with_capacity(d);
        for k in 0..d {
            let at = |lane: usize| placing.placed[places[lane.min(last)] as usize * d + k];
            if blocks.width > 0 {
                let low = (0..=last).map(at).fold(f64::INFINITY, f64::min);
                let high = (0..=last).map(at).fold(f64::NEG_INFINITY, f64::max);
                let first = node * 2 * blocks.width + k;
                (blocks.boxes[first], blocks.boxes[first + blocks.width]) = (R::below(low), R::above(high));
            }
            if self.has_balls {
                centre.push(R::of((0..=last).map(at).sum::<f64>() / places.len() as f64));
            }
        }
        if self.has_lanes {
            let first = blocks.lanes.len();
            blocks.lanes.resize(first + blocks.depth * LANES, R::ZERO);
            let (mut point, mut own) = (Vec::with_capacity(d), Vec::with_capacity(blocks.depth));
            for lane in 0..LANES {
                point.clear();
                point.extend(placing.placed[span(places[lane.min(last)])].iter().map(|&x| R::of(x)));
                numbers::<R, M>(&point, &mut own);
                put_lane(&mut blocks.lanes[first..], lane, &own);
            }
        }
        if self.has_balls {
            let distance = |&place: &u32| {
                let differences: Vec<f64> =
                    placing.placed[span(place)].iter().zip(&centre).map(|(x, c)| x - c.get()).collect();
                Reach::norm(placing.measure, &differences)
            };
            self.radii.push(places.iter().map(distance).fold(0.0, f64::max));
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
