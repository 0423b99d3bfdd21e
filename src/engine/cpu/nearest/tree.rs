//! k-d trees with eight children a node, so that a query meets eight boxes, or eight points, at once.

use super::lanes::LANES;
use crate::engine::Cancel;

/// No more points than that are a leaf.
const LEAF: usize = 2 * LANES;
/// How often the points of a node are halved into its children.
const HALVINGS: u32 = LANES.ilog2();

/// Trees over points with the same number of elements.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub dimensions: usize,
    nodes: Vec<[Child; LANES]>,
    /// For each node and element the least, then the greatest values of the points of each child.
    boxes: Vec<f64>,
    /// The points of the leaves in blocks of [`LANES`], element by element; the last block of a leaf may have room left.
    blocks: Vec<f64>,
    /// Which point is in each lane, [`EMPTY`] where there is none.
    pub points: Vec<u32>,
}

/// A lane without a point.
pub(super) const EMPTY: u32 = u32::MAX;

/// A part of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    /// Nothing.
    None,
    /// A node by its number.
    Node(u32),
    /// The first block of a leaf, and how many points it has.
    Leaf(u32, u32),
}

/// The points that trees are made of.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    pub dimensions: usize,
    /// What is compared with queries, point by point.
    pub elements: &'a [f64],
    /// Where the points lie, point by point: what boxes are drawn around.
    pub places: &'a [f64],
}

/// The least and the greatest elements of some points.
struct Extent {
    least: Vec<f64>,
    greatest: Vec<f64>,
}

impl Points<'_> {
    fn place(&self, point: u32, dimension: usize) -> f64 {
        self.places[point as usize * self.dimensions + dimension]
    }

    fn extent(&self, points: &[u32]) -> Extent {
        let mut least = vec![f64::INFINITY; self.dimensions];
        let mut greatest = vec![f64::NEG_INFINITY; self.dimensions];
        for &point in points {
            let place = &self.places[point as usize * self.dimensions..][..self.dimensions];
            for ((least, greatest), &element) in least.iter_mut().zip(&mut greatest).zip(place) {
                *least = least.min(element);
                *greatest = greatest.max(element);
            }
        }
        Extent { least, greatest }
    }

    /// Orders `points` so that neighbours stand together.
    pub(super) fn arrange(&self, points: &mut [u32]) {
        if points.len() > LEAF {
            let middle = self.split(points);
            let (first, second) = points.split_at_mut(middle);
            self.arrange(first);
            self.arrange(second);
        }
    }

    /// Orders `points` so that those before the returned place lie lower, in the dimension in which they spread most, than
    /// those after it. Blocks are full, except for the last one.
    fn split(&self, points: &mut [u32]) -> usize {
        let middle = (points.len() / 2).next_multiple_of(LANES).min(points.len() - 1);
        let Extent { least, greatest } = self.extent(points);
        let spread = |&dimension: &usize| greatest[dimension] - least[dimension];
        let widest = (0..self.dimensions).max_by(|a, b| spread(a).total_cmp(&spread(b)));
        if let Some(dimension) = widest {
            let by_place = |a: &u32, b: &u32| self.place(*a, dimension).total_cmp(&self.place(*b, dimension));
            points.select_nth_unstable_by(middle, by_place);
        }
        middle
    }
}

impl Trees {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    /// Adds a tree of `points` and returns its root. What is built after a cancellation is of no use.
    pub(super) fn add(&mut self, all: Points<'_>, points: &mut [u32], cancel: &Cancel) -> Child {
        if points.is_empty() {
            return Child::None;
        }
        if points.len() <= LEAF || cancel.is_cancelled() {
            return self.add_leaf(all, points);
        }
        let node = self.nodes.len();
        self.nodes.push([Child::None; LANES]);
        let start = self.boxes.len();
        self.boxes.resize(start + 2 * self.dimensions * LANES, f64::NAN);
        let mut parts = vec![points];
        for _ in 0..HALVINGS {
            parts = parts.into_iter().flat_map(|part| halves(all, part)).collect();
        }
        for (lane, part) in parts.into_iter().enumerate() {
            let Extent { least, greatest } = all.extent(part);
            for (dimension, (least, greatest)) in least.into_iter().zip(greatest).enumerate() {
                let sides = start + 2 * dimension * LANES + lane;
                self.boxes[sides] = least;
                self.boxes[sides + LANES] = greatest;
            }
            self.nodes[node][lane] = self.add(all, part, cancel);
        }
        Child::Node(node as u32)
    }

    fn add_leaf(&mut self, all: Points<'_>, points: &[u32]) -> Child {
        let first = self.points.len() / LANES;
        for block in points.chunks(LANES) {
            for dimension in 0..all.dimensions {
                let element = |&point: &u32| all.elements[point as usize * all.dimensions + dimension];
                self.blocks.extend(block.iter().map(element));
                self.blocks.resize(self.blocks.len() + LANES - block.len(), 0.0);
            }
            self.points.extend_from_slice(block);
            self.points.resize(self.points.len() + LANES - block.len(), EMPTY);
        }
        Child::Leaf(first as u32, points.len() as u32)
    }

    /// The children of a node, and their boxes.
    #[inline]
    pub(super) fn node(&self, node: u32) -> (&[Child; LANES], &[f64]) {
        let size = 2 * self.dimensions * LANES;
        (&self.nodes[node as usize], &self.boxes[node as usize * size..][..size])
    }

    /// The elements of the points in a block.
    #[inline]
    pub(super) fn block(&self, block: usize) -> &[f64] {
        let size = self.dimensions * LANES;
        &self.blocks[block * size..][..size]
    }

    pub(super) fn memory(&self) -> usize {
        (self.boxes.capacity() + self.blocks.capacity()) * size_of::<f64>()
            + self.points.capacity() * size_of::<u32>()
            + self.nodes.capacity() * size_of::<[Child; LANES]>()
    }

    /// About what trees over so many points in so many groups will take.
    pub(super) fn estimated_memory(points: usize, groups: usize, dimensions: usize) -> usize {
        let lanes = points + groups.min(points) * (LANES - 1);
        let children = lanes / LANES;
        8 * dimensions * (lanes + 2 * children) + 4 * lanes + children * size_of::<Child>()
    }
}

/// Two halves of what is too much for a leaf.
fn halves<'a>(all: Points<'_>, part: &'a mut [u32]) -> impl Iterator<Item = &'a mut [u32]> {
    let middle = if part.len() <= LEAF { part.len() } else { all.split(part) };
    let (first, second) = part.split_at_mut(middle);
    [first, second].into_iter().filter(|half| !half.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_in_one_leaf_and_in_its_boxes() {
        for (count, dimensions) in [(0, 2), (1, 2), (16, 1), (17, 2), (33, 3), (1000, 2), (70, 0), (3000, 5)] {
            let elements: Vec<f64> = (0..count * dimensions).map(|i| ((i * 7919) % 1009) as f64).collect();
            let points = Points { dimensions, elements: &elements, places: &elements };
            let mut trees = Trees::new(dimensions);
            let root = trees.add(points, &mut (0..count as u32).collect::<Vec<_>>(), &Cancel::default());
            let mut found = Vec::new();
            collect(&trees, points, root, &mut found);
            found.sort_unstable();
            assert!(found.into_iter().eq(0..count as u32), "{count} {dimensions}");
        }
    }

    /// The points below `child`, all of which are checked against the boxes above them.
    fn collect(trees: &Trees, points: Points<'_>, child: Child, out: &mut Vec<u32>) {
        match child {
            Child::None => {}
            Child::Leaf(first, count) => {
                for at in 0..count as usize {
                    let (block, lane) = (first as usize + at / LANES, at % LANES);
                    let point = trees.points[block * LANES + lane];
                    let elements = trees.block(block).iter().skip(lane).step_by(LANES);
                    assert!(elements.copied().eq((0..points.dimensions).map(|d| points.place(point, d))));
                    out.push(point);
                }
            }
            Child::Node(node) => {
                let (children, boxes) = trees.node(node);
                for (lane, &child) in children.iter().enumerate() {
                    let mut below = Vec::new();
                    collect(trees, points, child, &mut below);
                    for (point, d) in below.iter().flat_map(|&p| (0..points.dimensions).map(move |d| (p, d))) {
                        let [least, greatest] = [0, LANES].map(|side| boxes[2 * d * LANES + side + lane]);
                        assert!((least..=greatest).contains(&points.place(point, d)));
                    }
                    out.extend(below);
                }
            }
        }
    }
}
