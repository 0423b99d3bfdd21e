//! k-d trees: points in leaves of neighbouring ones, each node with the box that its points lie in.

use std::ops::Range;

use crate::engine::Cancel;

/// How many points are compared with a query at once.
pub(super) const LANES: usize = 8;
/// A node with no more points than that is a leaf.
const LEAF: usize = 32;

/// Trees over points with the same number of elements.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub dimensions: usize,
    pub nodes: Vec<Node>,
    /// For each node the least, then the greatest elements of its points.
    boxes: Vec<f64>,
    /// The points of the leaves in blocks of [`LANES`], element by element; the last block of a leaf may have room left.
    pub blocks: Vec<f64>,
    /// Which point is in each lane, [`EMPTY`] where there is none.
    pub points: Vec<u32>,
}

/// A lane without a point.
pub(super) const EMPTY: u32 = u32::MAX;

/// A node of a tree. Its first child, if it has any, comes right after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The second child, 0 for a leaf.
    pub second: u32,
    /// The first block of a leaf.
    pub first_block: u32,
    /// How many points a leaf has.
    pub count: u32,
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

impl Points<'_> {
    fn place(&self, point: u32, dimension: usize) -> f64 {
        self.places[point as usize * self.dimensions + dimension]
    }

    /// The least and the greatest elements of `points`.
    fn box_of(&self, points: &[u32]) -> Vec<f64> {
        let mut found = vec![f64::INFINITY; self.dimensions];
        found.resize(2 * self.dimensions, f64::NEG_INFINITY);
        let (least, greatest) = found.split_at_mut(self.dimensions);
        for &point in points {
            let place = &self.places[point as usize * self.dimensions..][..self.dimensions];
            for ((least, greatest), &element) in least.iter_mut().zip(&mut *greatest).zip(place) {
                *least = least.min(element);
                *greatest = greatest.max(element);
            }
        }
        found
    }
}

impl Trees {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { dimensions, ..Self::default() }
    }

    /// Adds a tree of `points`, of which there is at least one, and returns its root.
    pub(super) fn add(&mut self, all: Points<'_>, points: &mut [u32], cancel: &Cancel) -> u32 {
        let node = self.nodes.len() as u32;
        let first_block = (self.points.len() / LANES) as u32;
        self.nodes.push(Node { second: 0, first_block, count: points.len() as u32 });
        let around = all.box_of(points);
        self.boxes.extend_from_slice(&around);
        if points.len() <= LEAF || cancel.is_cancelled() {
            self.add_leaf(all, points);
            return node;
        }
        let middle = split(all, points, &around);
        let (first, second) = points.split_at_mut(middle);
        self.add(all, first, cancel);
        self.nodes[node as usize].second = self.add(all, second, cancel);
        node
    }

    fn add_leaf(&mut self, all: Points<'_>, points: &[u32]) {
        for block in points.chunks(LANES) {
            for dimension in 0..all.dimensions {
                let element = |&point: &u32| all.elements[point as usize * all.dimensions + dimension];
                self.blocks.extend(block.iter().map(element));
                self.blocks.resize(self.blocks.len() + LANES - block.len(), 0.0);
            }
            self.points.extend_from_slice(block);
            self.points.resize(self.points.len() + LANES - block.len(), EMPTY);
        }
    }

    /// The least and the greatest elements of the points of a node.
    #[inline]
    pub(super) fn box_of(&self, node: u32) -> (&[f64], &[f64]) {
        let both = &self.boxes[node as usize * 2 * self.dimensions..][..2 * self.dimensions];
        both.split_at(self.dimensions)
    }

    /// The blocks of a leaf.
    #[inline]
    pub(super) fn blocks_of(&self, leaf: Node) -> Range<usize> {
        let first = leaf.first_block as usize;
        first..first + (leaf.count as usize).div_ceil(LANES)
    }

    pub(super) fn memory(&self) -> usize {
        (self.boxes.capacity() + self.blocks.capacity()) * size_of::<f64>()
            + self.points.capacity() * size_of::<u32>()
            + self.nodes.capacity() * size_of::<Node>()
    }

    /// About what trees over so many points in so many groups will take.
    pub(super) fn estimated_memory(points: usize, groups: usize, dimensions: usize) -> usize {
        let leaves = points / (LEAF / 2) + groups;
        let lanes = points + groups.min(points) * (LANES - 1);
        8 * dimensions * (lanes + 4 * leaves) + 4 * lanes + 2 * leaves * size_of::<Node>()
    }
}

/// Orders `points` so that those before the returned place lie lower, in the dimension in which they spread most, than those
/// after it. Leaves are full, except for the last one.
fn split(all: Points<'_>, points: &mut [u32], around: &[f64]) -> usize {
    let middle = (points.len() / 2).next_multiple_of(LEAF).min(points.len() - 1);
    let (least, greatest) = around.split_at(all.dimensions);
    let spread = |&dimension: &usize| greatest[dimension] - least[dimension];
    let widest = (0..all.dimensions).max_by(|a, b| spread(a).total_cmp(&spread(b)));
    if let Some(dimension) = widest {
        points.select_nth_unstable_by(middle, |&a, &b| all.place(a, dimension).total_cmp(&all.place(b, dimension)));
    }
    middle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_in_one_leaf_and_in_its_boxes() {
        for (count, dimensions) in [(1, 2), (8, 1), (33, 3), (1000, 2), (70, 0), (257, 5)] {
            let elements: Vec<f64> = (0..count * dimensions).map(|i| ((i * 7919) % 1009) as f64).collect();
            let points = Points { dimensions, elements: &elements, places: &elements };
            let mut trees = Trees::new(dimensions);
            let mut all: Vec<u32> = (0..count as u32).collect();
            assert_eq!(trees.add(points, &mut all, &Cancel::default()), 0);
            let mut found: Vec<u32> = trees.points.iter().copied().filter(|&point| point != EMPTY).collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(0..count as u32));
            for (node, leaf) in (0..).zip(&trees.nodes).filter(|(_, node)| node.second == 0) {
                let (least, greatest) = trees.box_of(node);
                for block in trees.blocks_of(*leaf) {
                    for lane in 0..LANES {
                        let point = trees.points[block * LANES + lane];
                        for dimension in 0..if point == EMPTY { 0 } else { dimensions } {
                            let element = trees.blocks[(block * dimensions + dimension) * LANES + lane];
                            assert_eq!(element, points.place(point, dimension));
                            assert!((least[dimension]..=greatest[dimension]).contains(&element));
                        }
                    }
                }
            }
        }
    }
}
