//! Points in leaves of sixteen, near ones together, so that a loop over a leaf is one over lanes.
//!
//! In few dimensions the leaves stand under a tree of boxes, which exclude what is far. From some dimensions on there
//! is a ball around each leaf as well, which excludes leaves for single points; in many dimensions there are only
//! these.

use std::ops::Range;

use super::clusters::Clusters;
use super::lanes::LANES;
use super::lanes::Real;
use super::points::Vectors;
use super::reach::Reach;
use crate::error::Result;
use crate::stored::{Sink, Source, Store, Stored, fixed, stored};

/// Dimensions beyond which boxes exclude nothing.
pub(super) const MOST_FOR_BOXES: usize = 32;

/// Whether boxes exclude anything in so many dimensions.
pub(super) fn has_boxes(dimension: usize) -> bool {
    dimension <= MOST_FOR_BOXES
}

/// Sixteen points or fewer.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The positions of its points.
    pub(super) first: u32,
    pub(super) len: u32,
    /// Node of the leaf.
    pub(super) node: u32,
    /// Where its lanes are; leaves of tiny groups have none.
    pub(super) lanes: Option<u32>,
    /// The largest norm of a point.
    pub(super) norm: f64,
}

fixed!(Leaf { first: u32, len: u32, node: u32, lanes: Option<u32>, norm: f64 });

/// A leaf among the blocks that it belongs to.
pub(super) struct LeafOf<'a, R> {
    pub(super) blocks: &'a Blocks<R>,
    /// The number of the leaf.
    pub(super) leaf: usize,
}

impl<R> Clone for LeafOf<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for LeafOf<'_, R> {}

impl<'a, R> LeafOf<'a, R> {
    /// Where the points of the leaf are.
    #[inline(always)]
    pub(super) fn points(self) -> &'a Leaf {
        &self.blocks.leaves[self.leaf]
    }
}

/// A node of the tree, in the order of a walk.
#[derive(Debug)]
pub(super) struct Node {
    /// The next node that is not below this one.
    pub(super) skip: u32,
    /// Leaf of the node, where it is one.
    pub(super) leaf: Option<u32>,
}

fixed!(Node { skip: u32, leaf: Option<u32> });

/// A ball around each leaf.
#[derive(Debug)]
pub(super) struct Balls<R> {
    /// The centres, sixteen leaves after the other, as the points of a leaf.
    pub(super) centres: Vec<R>,
    pub(super) radii: Vec<f64>,
    /// The least radius.
    pub(super) least: f64,
}

stored!(Balls<R> [R: Real] { centres, radii, least });

/// The vectors of points.
#[derive(Debug)]
pub(super) enum Values {
    /// Short vectors by position: they are read in the order of the walk.
    Ordered(Vec<f64>),
    /// Long vectors by row: they stay where they are.
    ByRow(Vectors),
}

impl Store for Values {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        match self {
            Self::Ordered(values) => {
                true.store(sink)?;
                values.store(sink)
            }
            Self::ByRow(vectors) => {
                false.store(sink)?;
                vectors.store(sink)
            }
        }
    }
}

impl Stored for Values {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        Ok(match bool::load(source)? {
            true => Self::Ordered(Stored::load(source)?),
            false => Self::ByRow(Stored::load(source)?),
        })
    }
}

/// The filterable points of one side.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    pub(super) dimension: usize,
    /// Numbers of the filter for each point.
    pub(super) depth: usize,
    /// Rows by position.
    pub(super) rows: Vec<u32>,
    /// Vectors as the query has them.
    pub(super) values: Values,
    pub(super) leaves: Vec<Leaf>,
    /// Numbers of each leaf: the first ones of sixteen points, then their second ones, and so on. A leaf with fewer
    /// points repeats its last one.
    pub(super) lanes: Vec<R>,
    pub(super) nodes: Vec<Node>,
    /// Box of each node: the lower ends and then the upper ones.
    pub(super) boxes: Vec<R>,
    /// Numbers of one end of a box, 0 where there are no boxes.
    pub(super) width: usize,
    pub(super) balls: Option<Balls<R>>,
    /// Each group with its nodes, ascending.
    pub(super) roots: Vec<(u32, Range<u32>)>,
    /// The largest norm of a box's corner.
    pub(super) corner: f64,
    /// Clusters of each group that has some, ascending by group.
    pub(super) clusters: Vec<Clusters<R>>,
}

stored!(Blocks<R> [R: Real] {
    dimension, depth, rows, values, leaves, lanes, nodes, boxes, width, balls, roots, corner, clusters
});

impl<R: Real> Blocks<R> {
    /// The leaves between ends of positions that are counted from `first` on, each of which is the end of a leaf.
    pub(super) fn leaves_between(&self, first: u32, ends: &[u32]) -> Vec<Range<u32>> {
        let leaf = |position: u32| self.leaves.partition_point(|leaf| leaf.first < position) as u32;
        let starts = std::iter::once(&0).chain(ends);
        starts.zip(ends).map(|(start, end)| leaf(first + start)..leaf(first + end)).collect()
    }

    /// The clusters of a group, where it has some.
    pub(super) fn clusters_of(&self, group: u32) -> Option<&Clusters<R>> {
        let at = self.clusters.binary_search_by_key(&group, |clusters| clusters.group).ok()?;
        Some(&self.clusters[at])
    }

    /// Whether it has copies of the vectors.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.values, Values::Ordered(_))
    }

    /// How many points there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The vector at a position.
    #[inline(always)]
    pub(super) fn vector(&self, position: usize) -> &[f64] {
        match &self.values {
            Values::Ordered(values) => &values[position * self.dimension..(position + 1) * self.dimension],
            Values::ByRow(vectors) => vectors.given(self.rows[position] as usize),
        }
    }

    /// The leaf that has a position.
    pub(super) fn leaf_of(&self, position: usize) -> usize {
        self.leaves.partition_point(|leaf| leaf.first as usize <= position) - 1
    }

    /// The numbers of a leaf; of tiny groups nothing.
    #[inline(always)]
    pub(super) fn lanes(&self, leaf: &Leaf) -> Option<&[R]> {
        let first = leaf.lanes? as usize * LANES;
        Some(&self.lanes[first..first + self.depth * LANES])
    }

    /// The numbers of a leaf and of the next one, where both have some.
    #[inline(always)]
    pub(super) fn lanes_of_two(&self, leaf: usize) -> Option<&[R]> {
        let (first, _) = (self.leaves.get(leaf)?.lanes?, self.leaves.get(leaf + 1)?.lanes?);
        Some(&self.lanes[first as usize * LANES..][..2 * self.depth * LANES])
    }

    /// The ends of a node's box, where there are boxes.
    #[inline(always)]
    pub(super) fn bounds(&self, node: usize) -> (&[R], &[R]) {
        self.boxes[node * 2 * self.width..(node + 1) * 2 * self.width].split_at(self.width)
    }

    fn root_of(&self, leaf: usize) -> &(u32, Range<u32>) {
        let node = self.leaves[leaf].node;
        &self.roots[self.roots.partition_point(|(_, nodes)| nodes.end <= node)]
    }

    /// The group of a leaf.
    pub(super) fn group_of(&self, leaf: usize) -> u32 {
        self.root_of(leaf).0
    }

    /// The nodes of a group.
    pub(super) fn nodes_of(&self, group: u32) -> Range<u32> {
        self.roots.binary_search_by_key(&group, |(known, _)| *known).map_or(0..0, |at| self.roots[at].1.clone())
    }

    /// Nodes from that of a leaf to the end of its group.
    pub(super) fn nodes_from(&self, leaf: usize) -> Range<u32> {
        self.leaves[leaf].node..self.root_of(leaf).1.end
    }

    /// The leaves under some nodes.
    pub(super) fn leaves_of(&self, nodes: Range<u32>) -> Range<usize> {
        let first = |node: u32| self.leaves.partition_point(|leaf| leaf.node < node);
        first(nodes.start)..first(nodes.end)
    }

    /// The positions of a group.
    pub(super) fn positions_of(&self, group: u32) -> Range<usize> {
        let leaves = self.leaves_of(self.nodes_of(group));
        let place = |leaf: usize| self.leaves.get(leaf).map_or(self.rows.len(), |leaf| leaf.first as usize);
        place(leaves.start)..place(leaves.end)
    }

    /// The centres of the balls of sixteen leaves, and for points with norms up to `norm` the largest sum of one that
    /// may have a match in the ball; none without balls.
    pub(super) fn balls(&self, sixteen: usize, reach: &Reach, norm: f64) -> Option<(&[R], [R; LANES])> {
        let Balls { centres, radii, .. } = self.balls.as_ref()?;
        let size = self.depth * LANES;
        let limit = |lane: usize| match radii.get(sixteen * LANES + lane) {
            Some(&radius) => reach.around(radius).of_points((norm, self.leaves[sixteen * LANES + lane].norm)),
            None => R::ZERO,
        };
        Some((&centres[sixteen * size..(sixteen + 1) * size], std::array::from_fn(limit)))
    }

    /// The radius of a leaf's ball.
    pub(super) fn radius(&self, leaf: usize) -> Option<f64> {
        Some(self.balls.as_ref()?.radii[leaf])
    }

    /// The radius of the least ball, 0 where there is none.
    pub(super) fn least_radius(&self) -> f64 {
        self.balls.as_ref().map_or(0.0, |balls| balls.least)
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let balls = self.balls.as_ref().map_or(0, |Balls { centres, radii, .. }| {
            centres.capacity() * size_of::<R>() + radii.capacity() * size_of::<f64>()
        });
        balls
            + (self.lanes.capacity() + self.boxes.capacity()) * size_of::<R>()
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.rows.capacity() * size_of::<u32>()
            + match &self.values {
                Values::Ordered(values) => values.capacity() * size_of::<f64>(),
                Values::ByRow(vectors) => vectors.memory(),
            }
            + self.roots.capacity() * size_of::<(u32, Range<u32>)>()
            + self.clusters.iter().map(Clusters::memory).sum::<usize>()
    }
}
