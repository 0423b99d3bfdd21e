//! Points in leaves of sixteen, near ones together, under a tree of boxes.
//!
//! Source: Bentley, k-d trees (CACM 1975), halved at the median of the widest dimension; beyond a few dimensions by the
//! position between two far points instead, as in ball trees. Leaves are stored dimension by dimension, so that a loop over
//! a leaf is one over lanes.

use std::marker::PhantomData;
use std::ops::Range;

use datafusion::common::{Result, exec_err};

use super::frame::Frame;
use super::kernel::LANES;
use super::lanes::{self, Lanes, Task};
use super::metric::{Metric, Real};
use super::order::arrange;
use super::points::Points;
use super::reach::Reach;
use crate::engine::BuildContext;
use crate::measure::VectorMeasure;

/// Sixteen points or fewer.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The positions of its points.
    pub(super) first: u32,
    pub(super) len: u32,
    /// Its node.
    node: u32,
    /// The largest norm of a point.
    pub(super) norm: f64,
    /// Where its lanes are; leaves of tiny groups have none.
    lanes: Option<u32>,
}

/// A node of the tree, in the order of a walk.
#[derive(Debug)]
struct Node {
    /// The next node that is not below this one.
    skip: u32,
    /// Its leaf, where it is one.
    leaf: Option<u32>,
}

/// The regular points of one side.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    pub(super) dimension: usize,
    /// By position.
    pub(super) rows: Vec<u32>,
    /// The vectors by position, as the query has them.
    values: Vec<f64>,
    pub(super) leaves: Vec<Leaf>,
    /// Sixteen numbers a dimension of the filter for each leaf, those of its last point where it has fewer.
    lanes: Vec<R>,
    nodes: Vec<Node>,
    /// For each node the lower ends of its box and then the upper ones.
    boxes: Vec<R>,
    /// Numbers of one end of a box.
    width: usize,
    /// For each group its nodes and the group of each, ascending.
    roots: Vec<(u32, Range<u32>)>,
    /// The largest norm of a box's corner.
    pub(super) corner: f64,
}

/// Groups of fewer points on average have no lanes: they would be mostly empty.
const FEWEST: usize = LANES / 2;

impl<R: Real> Blocks<R> {
    /// The blocks of the regular points.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    pub(super) fn build(
        points: Points,
        frame: &Frame,
        measure: VectorMeasure,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let Points { dimension, regular, .. } = points;
        let (n, width) = (regular.len(), dimension.next_multiple_of(LANES));
        let values = size_of::<f64>() + size_of::<R>();
        (context.reserve)(n * (2 * dimension * values + 32) + n / LANES * 4 * width * size_of::<R>())?;
        let mut placed = vec![0.0; regular.values.len()];
        if dimension > 0 {
            let vectors = regular.values.chunks_exact(dimension);
            vectors.zip(placed.chunks_exact_mut(dimension)).for_each(|(vector, point)| frame.place(vector, point));
        }
        let groups = arrange(&placed, dimension, &regular.groups, context);
        if context.cancel.is_cancelled() {
            return exec_err!("the build of an epsilon index was cancelled");
        }
        let mut blocks = Self {
            dimension,
            rows: Vec::with_capacity(n),
            values: Vec::with_capacity(n * dimension),
            leaves: Vec::with_capacity(n.div_ceil(LANES)),
            lanes: Vec::new(),
            nodes: Vec::with_capacity(2 * n.div_ceil(LANES)),
            boxes: Vec::new(),
            width,
            roots: Vec::with_capacity(groups.len()),
            corner: 0.0,
        };
        let has_lanes = n >= FEWEST * groups.len();
        for (group, places) in groups {
            let first = blocks.nodes.len() as u32;
            blocks.add(
                &places,
                (&regular.rows, &regular.values, &placed),
                &|point| Reach::norm(measure, point),
                has_lanes,
            );
            blocks.roots.push((group, first..blocks.nodes.len() as u32));
        }
        let corner = |node: usize| {
            let (low, high) = blocks.bounds(node);
            low.iter().zip(high).map(|(low, high)| low.get().abs().max(high.get().abs()).powi(2)).sum::<f64>().sqrt()
        };
        blocks.corner = blocks.roots.iter().map(|(_, nodes)| corner(nodes.start as usize)).fold(0.0, f64::max);
        Ok(blocks)
    }

    /// Appends the node of `places` and all below; points with their rows, vectors and places in the frame.
    fn add(&mut self, places: &[u32], points: (&[u32], &[f64], &[f64]), norm: &dyn Fn(&[f64]) -> f64, has_lanes: bool) {
        let node = self.nodes.len();
        let d = self.dimension;
        self.nodes.push(Node { skip: 0, leaf: None });
        self.boxes.resize((node + 1) * 2 * self.width, R::ZERO);
        if places.len() > LANES {
            let (left, right) = places.split_at(halved(places.len()));
            self.add(left, points, norm, has_lanes);
            let other = self.nodes.len();
            self.add(right, points, norm, has_lanes);
            for k in 0..d {
                let ((low, high), (other_low, other_high)) = (self.bounds(node + 1), self.bounds(other));
                let low = if other_low[k] < low[k] { other_low[k] } else { low[k] };
                let high = if other_high[k] > high[k] { other_high[k] } else { high[k] };
                self.set_bounds(node, k, (low, high));
            }
        } else {
            let (rows, vectors, placed) = points;
            let vector = |place: u32| place as usize * d..(place as usize + 1) * d;
            let mut leaf = Leaf {
                first: self.rows.len() as u32,
                len: places.len() as u32,
                node: node as u32,
                norm: 0.0,
                lanes: has_lanes.then_some(self.lanes.len() as u32 / LANES as u32),
            };
            for &place in places {
                self.rows.push(rows[place as usize]);
                self.values.extend_from_slice(&vectors[vector(place)]);
                leaf.norm = norm(&placed[vector(place)]).max(leaf.norm);
            }
            for k in 0..d {
                let at = |place: u32| placed[place as usize * d + k];
                let numbers = places.iter().map(|&place| at(place));
                let low = numbers.clone().fold(f64::INFINITY, f64::min);
                let high = numbers.fold(f64::NEG_INFINITY, f64::max);
                self.set_bounds(node, k, (R::below(low), R::above(high)));
                if has_lanes {
                    let last = places[places.len() - 1];
                    let lanes = (0..LANES).map(|lane| R::of(at(*places.get(lane).unwrap_or(&last))));
                    self.lanes.extend(lanes);
                }
            }
            self.nodes[node].leaf = Some(self.leaves.len() as u32);
            self.leaves.push(leaf);
        }
        self.nodes[node].skip = self.nodes.len() as u32;
    }

    fn bounds(&self, node: usize) -> (&[R], &[R]) {
        self.boxes[node * 2 * self.width..(node + 1) * 2 * self.width].split_at(self.width)
    }

    fn set_bounds(&mut self, node: usize, k: usize, (low, high): (R, R)) {
        let first = node * 2 * self.width;
        (self.boxes[first + k], self.boxes[first + self.width + k]) = (low, high);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The vector at a position.
    #[inline(always)]
    pub(super) fn vector(&self, position: usize) -> &[f64] {
        &self.values[position * self.dimension..(position + 1) * self.dimension]
    }

    /// The leaf that has a position.
    pub(super) fn leaf_of(&self, position: usize) -> usize {
        self.leaves.partition_point(|leaf| leaf.first as usize <= position) - 1
    }

    /// The numbers of a leaf, sixteen a dimension; of tiny groups nothing.
    pub(super) fn lanes(&self, leaf: &Leaf) -> Option<&[R]> {
        let first = leaf.lanes? as usize * LANES;
        Some(&self.lanes[first..first + self.dimension * LANES])
    }

    /// The group of a leaf.
    pub(super) fn group_of(&self, leaf: usize) -> u32 {
        let node = self.leaves[leaf].node;
        self.roots[self.roots.partition_point(|(_, nodes)| nodes.end <= node)].0
    }

    /// The nodes of a group.
    pub(super) fn nodes_of(&self, group: u32) -> Range<u32> {
        self.roots.binary_search_by_key(&group, |(known, _)| *known).map_or(0..0, |at| self.roots[at].1.clone())
    }

    /// The positions of a group.
    pub(super) fn positions_of(&self, group: u32) -> Range<usize> {
        let nodes = self.nodes_of(group);
        let first_leaf = |node: u32| self.leaves.partition_point(|leaf| leaf.node < node);
        let place = |leaf: usize| self.leaves.get(leaf).map_or(self.rows.len(), |leaf| leaf.first as usize);
        place(first_leaf(nodes.start))..place(first_leaf(nodes.end))
    }

    /// From the node of a leaf to the end of its group.
    pub(super) fn nodes_from(&self, leaf: usize) -> Range<u32> {
        let node = self.leaves[leaf].node;
        let end = self.roots[self.roots.partition_point(|(_, nodes)| nodes.end <= node)].1.end;
        node..end
    }

    /// Writes to `found` the leaves under `nodes` that are within `limit` of a leaf of `other`; returns how many boxes were
    /// looked at.
    pub(super) fn leaves_near<M: Metric>(
        &self,
        nodes: Range<u32>,
        (other, leaf): (&Self, usize),
        limit: R,
        found: &mut Vec<u32>,
    ) -> usize {
        let probe = other.bounds(other.leaves[leaf].node as usize);
        lanes::run(LeavesNear::<R, M> { blocks: self, nodes, probe, limit, found, metric: PhantomData })
    }

    pub(super) fn memory(&self) -> usize {
        let numbers = (self.lanes.capacity() + self.boxes.capacity()) * size_of::<R>();
        let leaves = self.leaves.capacity() * size_of::<Leaf>() + self.nodes.capacity() * size_of::<Node>();
        numbers
            + leaves
            + self.rows.capacity() * size_of::<u32>()
            + self.values.capacity() * size_of::<f64>()
            + self.roots.capacity() * size_of::<(u32, Range<u32>)>()
    }
}

/// Where a node of so many points is divided: all leaves but the last are full.
pub(super) fn halved(points: usize) -> usize {
    points.div_ceil(LANES) / 2 * LANES
}

struct LeavesNear<'a, R, M> {
    blocks: &'a Blocks<R>,
    nodes: Range<u32>,
    /// The box of the probe leaf.
    probe: (&'a [R], &'a [R]),
    limit: R,
    found: &'a mut Vec<u32>,
    metric: PhantomData<M>,
}

impl<R: Real, M: Metric> Task<R> for LeavesNear<'_, R, M> {
    type Result = usize;

    #[inline(always)]
    fn run<L: Lanes<R>>(self) -> usize {
        self.found.clear();
        let (mut node, mut looked_at) = (self.nodes.start, 0);
        while node < self.nodes.end {
            looked_at += 1;
            let Node { skip, leaf } = self.blocks.nodes[node as usize];
            if !self.is_near::<L>(node as usize) {
                node = skip;
                continue;
            }
            self.found.extend(leaf);
            node += 1;
        }
        looked_at
    }
}

impl<R: Real, M: Metric> LeavesNear<'_, R, M> {
    /// Whether the box of a node is not beyond the limit.
    #[inline(always)]
    fn is_near<L: Lanes<R>>(&self, node: usize) -> bool {
        let (low, high) = self.blocks.bounds(node);
        let own = low.chunks_exact(LANES).zip(high.chunks_exact(LANES));
        let probe = self.probe.0.chunks_exact(LANES).zip(self.probe.1.chunks_exact(LANES));
        let mut sums = L::splat(R::ZERO);
        for ((low, high), (probe_low, probe_high)) in own.zip(probe) {
            sums = M::add_least(sums, (L::load(low), L::load(high)), (L::load(probe_low), L::load(probe_high)));
        }
        !M::all(sums).exceeds(self.limit)
    }
}
