//! The numbers of leaves, by several threads: each fills some that follow each other.

use crate::error::Result;

use super::blocks::{Blocks, Leaf, Values};
use super::lanes::LANES;
use super::lanes::{Real, put_lane};
use super::metric::{Metric, depth, numbers};
use super::points::Points;
use super::reach::Reach;
use crate::Cancel;
use crate::parallel::in_parallel;
use similarity_measures::VectorMeasure;

/// The points by place.
pub(super) struct Placing<'a, R> {
    pub(super) points: &'a Points,
    /// Points in the frame of the filter.
    pub(super) placed: &'a [R],
    /// The place at each position.
    pub(super) places: &'a [u32],
    pub(super) measure: VectorMeasure,
    pub(super) has_balls: bool,
    pub(super) cancel: &'a Cancel,
}

/// Writes what leaves hold of their points: vectors, lanes, norms and boxes. Returns the centres of
/// their balls, one after the other, and the radii, where there are some.
///
/// Once the build is cancelled, some may be missing.
pub(super) fn fill<R: Real, M: Metric>(
    blocks: &mut Blocks<R>,
    placing: &Placing<'_, R>,
    threads: usize,
) -> Result<(Vec<R>, Vec<f64>)> {
    let leaves = if placing.has_balls { blocks.leaves.len() } else { 0 };
    let (mut centres, mut radii) = (vec![R::ZERO; leaves * blocks.dimension], vec![0.0; leaves]);
    let stretch = blocks.leaves.len().div_ceil(threads).max(1);
    in_parallel(stretches(blocks, &mut centres, &mut radii, stretch).into_iter(), |stretch| {
        stretch.fill::<M>(placing);
        Ok(())
    })?;
    Ok((centres, radii))
}

/// Some leaves that follow each other, and where their numbers go.
struct Stretch<'a, R> {
    leaves: &'a mut [Leaf],
    /// Values by position; empty where vectors are read by row.
    values: &'a mut [f64],
    lanes: &'a mut [R],
    /// Boxes of the nodes from `first_node` on.
    boxes: &'a mut [R],
    first_node: usize,
    width: usize,
    centres: &'a mut [R],
    radii: &'a mut [f64],
}

/// Cuts the blocks into stretches of so many leaves.
fn stretches<'a, R: Real>(
    blocks: &'a mut Blocks<R>,
    mut centres: &'a mut [R],
    mut radii: &'a mut [f64],
    leaves_each: usize,
) -> Vec<Stretch<'a, R>> {
    let (dimension, width, points) = (blocks.dimension, blocks.width, blocks.rows.len());
    let depth = blocks.depth;
    let mut values = match &mut blocks.values {
        Values::Ordered(values) => values.as_mut_slice(),
        Values::ByRow(_) => &mut [],
    };
    let is_ordered = !values.is_empty();
    let (mut lanes, mut boxes) = (blocks.lanes.as_mut_slice(), blocks.boxes.as_mut_slice());
    let mut left = blocks.leaves.as_mut_slice();
    let (mut first_node, mut all) = (0, Vec::new());
    while !left.is_empty() {
        let some = leaves_each.min(left.len());
        let (leaves, later) = left.split_at_mut(some);
        let first = leaves[0].first as usize;
        let end = later.first().map_or(points, |leaf| leaf.first as usize);
        let nodes = later.first().map_or(boxes.len(), |leaf| (leaf.node as usize - first_node) * 2 * width);
        let numbers = leaves.iter().filter(|leaf| leaf.lanes.is_some()).count() * depth * LANES;
        let with_balls = leaves.len().min(radii.len());
        all.push(Stretch {
            values: cut(&mut values, if is_ordered { (end - first) * dimension } else { 0 }),
            lanes: cut(&mut lanes, numbers),
            boxes: cut(&mut boxes, nodes),
            first_node,
            width,
            centres: cut(&mut centres, with_balls * dimension),
            radii: cut(&mut radii, with_balls),
            leaves,
        });
        first_node = later.first().map_or(0, |leaf| leaf.node as usize);
        left = later;
    }
    all
}

/// Takes the first `count` of `rest`.
fn cut<'a, T>(rest: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (first, later) = std::mem::take(rest).split_at_mut(count);
    *rest = later;
    first
}

impl<R: Real> Stretch<'_, R> {
    fn fill<M: Metric>(mut self, placing: &Placing<'_, R>) {
        let (mut self_join, mut shape) = (Vec::new(), Shape::new(placing.points.dimension));
        let leaves = std::mem::take(&mut self.leaves);
        for (at, leaf) in leaves.iter_mut().enumerate().take_while(|_| !placing.cancel.is_cancelled()) {
            let places = &placing.places[leaf.first as usize..][..leaf.len as usize];
            let points = LeafPoints { placing, places };
            self.copy_values(&points);
            // points are rounded
            leaf.norm = points.all().map(|point| placing.norm(point)).fold(0.0, f64::max) * (1.0 + 4.0 * R::ROUNDING);
            if leaf.lanes.is_some() {
                self.put_lanes::<M>(&points, &mut self_join);
            }
            if self.width > 0 || !self.radii.is_empty() {
                shape.measure(points.all());
            }
            if self.width > 0 {
                self.draw_box(leaf.node as usize, &shape);
            }
            if !self.radii.is_empty() {
                self.draw_ball(at, leaf.norm, &points, &shape);
            }
        }
    }

    /// Moves on behind the vectors of a leaf.
    fn copy_values(&mut self, points: &LeafPoints<'_, R>) {
        if self.values.is_empty() {
            return;
        }
        let Placing { points: all, .. } = points.placing;
        let values = cut(&mut self.values, points.places.len() * all.dimension);
        for (to, &place) in values.chunks_exact_mut(all.dimension).zip(points.places) {
            let vector = all.filterable(place as usize);
            // to call for the copy of a few numbers takes longer than to copy them
            match all.dimension {
                2 => to[..2].copy_from_slice(&vector[..2]),
                3 => to[..3].copy_from_slice(&vector[..3]),
                _ => to.copy_from_slice(vector),
            }
        }
    }

    /// Moves on behind the lanes of a leaf.
    fn put_lanes<M: Metric>(&mut self, points: &LeafPoints<'_, R>, self_join: &mut Vec<R>) {
        let lanes = cut(&mut self.lanes, depth::<M>(points.placing.points.dimension) * LANES);
        for lane in 0..LANES {
            numbers::<R, M>(points.at(lane.min(points.places.len() - 1)), self_join);
            put_lane(lanes, lane, self_join);
        }
    }

    fn draw_box(&mut self, node: usize, shape: &Shape) {
        let ends = &mut self.boxes[(node - self.first_node) * 2 * self.width..][..2 * self.width];
        let (low, high) = ends.split_at_mut(self.width);
        low.iter_mut().zip(&shape.low).for_each(|(to, &low)| *to = R::below(low));
        high.iter_mut().zip(&shape.high).for_each(|(to, &high)| *to = R::above(high));
    }

    fn draw_ball(&mut self, at: usize, norm: f64, points: &LeafPoints<'_, R>, shape: &Shape) {
        let dimension = shape.sum.len();
        let centre = &mut self.centres[at * dimension..][..dimension];
        centre.iter_mut().zip(&shape.sum).for_each(|(to, sum)| *to = R::of(sum / points.places.len() as f64));
        let from_centre = |point: &[R]| {
            let differences = point.iter().zip(&*centre).map(|(x, c)| x.get() - c.get());
            Reach::norm_of(points.placing.measure, differences)
        };
        self.radii[at] = points.all().map(from_centre).fold(0.0, f64::max) + 2.0 * R::ROUNDING * norm;
    }
}

/// The points of a leaf.
struct LeafPoints<'a, R> {
    placing: &'a Placing<'a, R>,
    places: &'a [u32],
}

impl<'a, R: Real> LeafPoints<'a, R> {
    fn at(&self, lane: usize) -> &'a [R] {
        let dimension = self.placing.points.dimension;
        &self.placing.placed[self.places[lane] as usize * dimension..][..dimension]
    }

    fn all(&self) -> impl Iterator<Item = &'a [R]> {
        (0..self.places.len()).map(|lane| self.at(lane))
    }
}

impl<R: Real> Placing<'_, R> {
    fn norm(&self, point: &[R]) -> f64 {
        Reach::norm_of(self.measure, point.iter().map(|x| x.get()))
    }
}

/// What some points are within, dimension by dimension.
struct Shape {
    low: Vec<f64>,
    high: Vec<f64>,
    sum: Vec<f64>,
}

impl Shape {
    fn new(dimension: usize) -> Self {
        Self { low: vec![0.0; dimension], high: vec![0.0; dimension], sum: vec![0.0; dimension] }
    }

    fn measure<'a, R: Real>(&mut self, points: impl Iterator<Item = &'a [R]>) {
        self.low.fill(f64::INFINITY);
        self.high.fill(f64::NEG_INFINITY);
        self.sum.fill(0.0);
        for point in points {
            for (k, x) in point.iter().map(|x| x.get()).enumerate() {
                self.low[k] = self.low[k].min(x);
                self.high[k] = self.high[k].max(x);
                self.sum[k] += x;
            }
        }
    }
}
