//! Blocks grown from points.

use crate::error::Result;

use super::blocks::{Balls, Blocks, Leaf, MOST_FOR_BOXES, Node, Values, has_boxes};
use super::clusters::{Clustering, Clusters};
use super::fill_leaves::{Placing, fill};
use super::frame::Frame;
use super::lanes::LANES;
use super::lanes::Real;
use super::metric::{Metric, depth, side_by_side};
use super::partition::{Parting, Parts, arrange, halved};
use super::points::Points;
use super::search::width_of_boxes;
use crate::parallel::in_parallel;
use crate::{BuildContext, Cancel};
use similarity_measures::VectorMeasure;

/// Groups of fewer points have no lanes: they would be mostly empty.
const FEWEST: usize = LANES / 4;
/// Dimensions from which on a ball excludes enough to be asked.
const FEWEST_FOR_BALLS: usize = 6;
/// Fewer numbers are not worth a thread.
const FEWEST_FOR_THREADS: usize = 1 << 16;

/// What points are arranged for.
pub(super) enum Role<'a, B> {
    /// A side that is searched, in clusters where there are any.
    Build(Option<Clustering>),
    /// A side that is searched for in another one.
    Probe(&'a B),
}

impl<'a, B> Role<'a, B> {
    /// Role with what `blocks` makes of the other side.
    pub(super) fn map<T>(self, blocks: impl FnOnce(&'a B) -> &'a T) -> Role<'a, T> {
        match self {
            Self::Build(clustering) => Role::Build(clustering),
            Self::Probe(build) => Role::Probe(blocks(build)),
        }
    }
}

/// The blocks of the filterable points; those of a probe side have boxes where the build side has.
///
/// # Errors
/// A refused reservation, a cancelled build.
pub(super) fn grow<R: Real, M: Metric>(
    points: Points,
    frame: &Frame,
    measure: VectorMeasure,
    role: Role<'_, Blocks<R>>,
    context: &BuildContext<'_>,
) -> Result<Blocks<R>> {
    let (dimension, n) = (points.dimension, points.filterable.len());
    // products obey no triangle inequality
    let may_have_balls = measure != VectorMeasure::InnerProduct;
    let clustering = match role {
        Role::Build(clustering) => clustering,
        Role::Probe(_) => None,
    };
    let has_boxes = clustering.is_none() && has_boxes(dimension) || !may_have_balls;
    let is_ordered = dimension <= MOST_FOR_BOXES;
    let copied = if is_ordered { dimension * size_of::<f64>() } else { 0 };
    let a_point = copied + (dimension + depth::<M>(dimension)) * size_of::<R>() + 2 * size_of::<(f64, u32)>();
    (context.reserve)(n * a_point + n / LANES * (5 * dimension + 4 * LANES) * size_of::<R>())?;
    (context.reserve)(clustering.map_or(0, |clustering| clustering.memory(n, dimension)))?;
    let placed = place::<R>(&points, frame, context)?;
    let parting = match clustering {
        Some(clustering) => Parting::Clusters(clustering),
        None if has_boxes => Parting::None,
        None => Parting::Pivots,
    };
    let groups = arrange(&placed, dimension, &points.filterable.groups, parting, context);
    context.cancel.check()?;
    // in tiny groups alone nothing is worth being excluded
    let in_lanes: usize = groups.iter().map(|(_, parts)| parts.places.len()).filter(|&len| len >= FEWEST).sum();
    let width = match role {
        Role::Probe(build) => build.width,
        Role::Build(_) if has_boxes && in_lanes > 0 => width_of_boxes(dimension),
        Role::Build(_) => 0,
    };
    let blocks = Blocks {
        dimension,
        depth: depth::<M>(dimension),
        rows: Vec::with_capacity(n),
        values: match is_ordered {
            true => Values::Ordered(vec![0.0; n * dimension]),
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
        clusters: Vec::new(),
    };
    let has_balls = may_have_balls && dimension >= FEWEST_FOR_BALLS && 2 * in_lanes >= n;
    let cancel = context.cancel;
    let mut growing =
        Growing { blocks, points: &points, places: Vec::with_capacity(n), has_lanes: false, numbers: 0, cancel };
    for (group, Parts { places, ends, centres }) in groups {
        let (first, position) = (growing.blocks.nodes.len() as u32, growing.blocks.rows.len() as u32);
        growing.has_lanes = places.len() >= FEWEST;
        growing.add(&places, 0, &ends);
        let nodes = first..growing.blocks.nodes.len() as u32;
        growing.blocks.roots.push((group, nodes));
        if !centres.is_empty() {
            let leaves = growing.blocks.leaves_between(position, &ends);
            growing.blocks.clusters.push(Clusters::new::<M>(group, leaves, &centres, dimension));
        }
    }
    context.cancel.check()?;
    let Growing { mut blocks, places, numbers, .. } = growing;
    blocks.lanes = vec![R::ZERO; numbers];
    let placing = Placing { points: &points, placed: &placed, places: &places, measure, has_balls, cancel };
    let (centres, radii) = fill::<R, M>(&mut blocks, &placing, threads_for(placed.len(), context))?;
    context.cancel.check()?;
    draw_boxes(&mut blocks);
    blocks.balls = has_balls.then(|| Balls {
        centres: side_by_side::<R, M>(centres.chunks_exact(dimension), dimension),
        least: radii.iter().copied().fold(f64::INFINITY, f64::min),
        radii,
    });
    Ok(blocks)
}

/// How many threads are worth their while for so many numbers.
fn threads_for(numbers: usize, context: &BuildContext<'_>) -> usize {
    if numbers < FEWEST_FOR_THREADS { 1 } else { context.threads.max(1) }
}

/// The points in the frame of the filter.
fn place<R: Real>(points: &Points, frame: &Frame, context: &BuildContext<'_>) -> Result<Vec<R>> {
    let (dimension, n) = (points.dimension, points.filterable.len());
    let mut placed = vec![R::ZERO; n * dimension];
    if placed.is_empty() {
        return Ok(placed);
    }
    let stretch = n.div_ceil(threads_for(placed.len(), context));
    in_parallel(placed.chunks_mut(stretch * dimension).enumerate(), |(part, placed)| {
        for (at, point) in placed.chunks_exact_mut(dimension).enumerate().take_while(|_| !context.cancel.is_cancelled())
        {
            frame.place(points.filterable(part * stretch + at), point);
        }
        Ok(())
    })?;
    Ok(placed)
}

struct Growing<'a, R> {
    blocks: Blocks<R>,
    points: &'a Points,
    /// Places by position.
    places: Vec<u32>,
    /// Whether the leaves of the group have.
    has_lanes: bool,
    /// Numbers of all lanes so far.
    numbers: usize,
    cancel: &'a Cancel,
}

impl<R: Real> Growing<'_, R> {
    /// Appends the node of `places`, the first of which is number `first`, and all below; a leaf does not reach across
    /// one of `ends`.
    fn add(&mut self, places: &[u32], first: usize, ends: &[u32]) {
        // what is missing then is not used
        if self.cancel.is_cancelled() {
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
        let Self { blocks, numbers, .. } = self;
        let first = blocks.rows.len() as u32;
        blocks.rows.extend(places.iter().map(|&place| self.points.filterable.rows[place as usize]));
        self.places.extend_from_slice(places);
        let lanes = self.has_lanes.then_some((*numbers / LANES) as u32);
        *numbers += lanes.map_or(0, |_| blocks.depth * LANES);
        blocks.nodes[node].leaf = Some(blocks.leaves.len() as u32);
        blocks.leaves.push(Leaf { first, len: places.len() as u32, node: node as u32, lanes, norm: 0.0 });
    }
}

/// Draws the boxes of the nodes above leaves, from below.
fn draw_boxes<R: Real>(blocks: &mut Blocks<R>) {
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
}
