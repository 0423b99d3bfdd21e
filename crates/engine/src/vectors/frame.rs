//! The coordinates of the filter: shifted to where most points are, the telling dimensions first.

use super::points::Points;
use super::precision::Precision;
use super::reach::Reach;
use crate::stored::stored;
use similarity_measures::VectorMeasure;

/// How vectors become points of the filter.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The vector's dimension for each of the filter's.
    order: Vec<usize>,
    /// What is subtracted, for each of the filter's dimensions.
    centre: Vec<f64>,
    /// Whether vectors are scaled to length 1 before.
    unit: bool,
}

stored!(Frame { order, centre, unit });

/// How many points tell how far their nearest others are.
const ASKED: usize = 32;
/// How many points tell about all.
const SAMPLED: usize = 1024;

impl Frame {
    /// The frame for `points` that are compared by `measure`; products are not shifted.
    pub fn of(points: &Points, measure: VectorMeasure) -> Self {
        let unit = matches!(measure, VectorMeasure::Cosine | VectorMeasure::CosineDistance);
        let Points { dimension, filterable, .. } = points;
        let mut frame = Self { order: (0..*dimension).collect(), centre: vec![0.0; *dimension], unit };
        let sample: Vec<Vec<f64>> = sample(filterable.len())
            .map(|at| {
                let mut point = vec![0.0; *dimension];
                frame.place(points.filterable(at), &mut point);
                point
            })
            .collect();
        if sample.is_empty() {
            return frame;
        }
        let mut spread = Vec::with_capacity(*dimension);
        for k in 0..*dimension {
            let mut column: Vec<f64> = sample.iter().map(|point| point[k]).collect();
            column.sort_unstable_by(f64::total_cmp);
            let median = column[column.len() / 2];
            spread.push((column.iter().map(|x| (x - median).abs()).sum::<f64>(), median));
        }
        frame.order.sort_by(|&a, &b| spread[b].0.total_cmp(&spread[a].0));
        if measure != VectorMeasure::InnerProduct {
            frame.centre = frame.order.iter().map(|&k| spread[k].1).collect();
        }
        frame
    }

    /// Writes the point of `vector`.
    pub fn place<R: Precision>(&self, vector: &[f64], point: &mut [R]) {
        let scale = if self.unit { vector.iter().map(|x| x * x).sum::<f64>().sqrt() } else { 1.0 };
        for ((out, &k), centre) in point.iter_mut().zip(&self.order).zip(&self.centre) {
            *out = R::of(vector[k] / scale - centre);
        }
    }

    /// The vector's dimension for each of the filter's.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// What is subtracted, for each of the filter's dimensions.
    pub fn centre(&self) -> &[f64] {
        &self.centre
    }

    /// Whether vectors are scaled to length 1 before.
    pub fn is_unit(&self) -> bool {
        self.unit
    }

    /// The largest of the numbers of some points, without their signs.
    pub fn typical_largest(&self, points: &Points) -> f64 {
        let extents = self.extents(points, points.dimension);
        extents.into_iter().fold(0.0, |most, (low, high)| most.max(-low).max(high))
    }

    /// Between what numbers some points lie in each of the first dimensions.
    pub fn extents(&self, points: &Points, dimensions: usize) -> Vec<(f64, f64)> {
        let mut extents = vec![(f64::INFINITY, f64::NEG_INFINITY); dimensions];
        let mut placed = vec![0.0; points.dimension];
        for at in sample(points.filterable.len()) {
            self.place(points.filterable(at), &mut placed);
            for (extent, &x) in extents.iter_mut().zip(&placed) {
                *extent = (extent.0.min(x), extent.1.max(x));
            }
        }
        extents
    }

    /// The square of how far some points are from the nearest of some others, the median of it: more than their
    /// nearest ones of all are.
    pub fn typical_gap(&self, points: &Points, measure: VectorMeasure) -> f64 {
        let placed = |at: usize| {
            let mut point = vec![0.0; points.dimension];
            self.place(points.filterable(at), &mut point);
            point
        };
        let sample: Vec<Vec<f64>> = sample(points.filterable.len()).map(placed).collect();
        let gap = |one: &Vec<f64>, other: &Vec<f64>| {
            let differences: Vec<f64> = one.iter().zip(other).map(|(x, y)| x - y).collect();
            Reach::norm(measure, &differences).powi(2)
        };
        let nearest = |asked: usize| {
            let others = sample.iter().enumerate().filter(|(at, _)| *at != asked);
            others.map(|(_, other)| gap(&sample[asked], other)).fold(f64::INFINITY, f64::min)
        };
        let mut gaps: Vec<f64> = (0..sample.len().min(ASKED)).map(nearest).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        gaps.get(gaps.len() / 2).copied().unwrap_or(0.0)
    }

    /// The median of some points' norms.
    pub fn typical_norm(&self, points: &Points, measure: VectorMeasure) -> f64 {
        let mut placed = vec![0.0; points.dimension];
        let norms = sample(points.filterable.len()).map(|at| {
            self.place(points.filterable(at), &mut placed);
            Reach::norm(measure, &placed)
        });
        let mut norms: Vec<f64> = norms.collect();
        norms.sort_unstable_by(f64::total_cmp);
        norms.get(norms.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Some of `len` places, evenly spread.
fn sample(len: usize) -> impl Iterator<Item = usize> {
    let count = len.min(SAMPLED);
    (0..count).map(move |n| n * len / count)
}
