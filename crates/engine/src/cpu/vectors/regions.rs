//! Which parts of two sides are too far from each other to have a match, for sides that are not held whole.
//!
//! A sample says how space is divided: by the median of the widest dimension, again and again. Each part of a side
//! knows the box around its points, and two parts are compared where their boxes are within reach.
//!
//! Source: LSS (ICDE 2008), section V.B; the chunks are the cells of a k-d tree instead of arbitrary ones.

use crate::error::Error;
use arrow::array::ArrayRef;

use super::frame::Frame;
use super::lanes::Real;
use super::points::Points;
use super::reach::Reach;
use crate::condition::VectorCondition;
use crate::vectors::precision::Precision;
use crate::{Cancel, KeyColumn, PrepareContext};
use similarity_measures::VectorMeasure;

/// How often space is halved.
const DEPTH: u32 = 6;

/// How many regions there are, rows that no filter can place having one.
pub const REGIONS: usize = (1 << DEPTH) + 1;

/// Space, divided.
#[derive(Debug)]
pub struct PointRegions {
    condition: VectorCondition,
    reach: Reach,
    frame: Frame,
    dimension: usize,
    /// The dimension by which each node is divided and where, the children of `n` being `2 n + 1` and `2 n + 2`.
    divisions: Vec<(usize, f64)>,
}

/// The box around some points.
#[derive(Debug, Clone, Default)]
pub struct Extent {
    /// Ends of the box in each dimension; `None` where there is no point.
    ends: Option<Vec<(f64, f64)>>,
    /// Whether there is a row whose place no filter knows.
    everywhere: bool,
}

impl Extent {
    /// Extent of rows of which nothing is known.
    pub fn everywhere() -> Self {
        Self { ends: None, everywhere: true }
    }

    /// Grows around a point.
    pub(in crate::cpu) fn extend(&mut self, point: &[f64]) {
        let ends = self.ends.get_or_insert_with(|| vec![(f64::INFINITY, f64::NEG_INFINITY); point.len()]);
        for (end, &x) in ends.iter_mut().zip(point) {
            *end = (end.0.min(f64::below(x)), end.1.max(f64::above(x)));
        }
    }

    fn is_empty(&self) -> bool {
        self.ends.is_none() && !self.everywhere
    }

    /// Boxes of two parts, each with points; or whether the parts may have a match, where that is known without them.
    pub(in crate::cpu) fn boxes<'a>(&'a self, other: &'a Self) -> Result<[&'a [(f64, f64)]; 2], bool> {
        let is_everywhere = self.everywhere || other.everywhere;
        match (&self.ends, &other.ends) {
            (Some(one), Some(other)) if !is_everywhere => Ok([one, other]),
            _ => Err(!self.is_empty() && !other.is_empty()),
        }
    }
}

impl PointRegions {
    /// Divides space as `sample` is spread; none where `condition` is not about distances or the sample has no vectors.
    pub fn of(condition: VectorCondition, sample: &ArrayRef) -> Option<Self> {
        let keys = KeyColumn { values: ArrayRef::clone(sample), groups: None };
        let points =
            Points::try_new(&condition, &keys, None, &PrepareContext { threads: 1, cancel: &Cancel::default() })
                .ok()?;
        let (dimension, reach) = (points.dimension, Reach::of(&condition, points.dimension)?);
        if dimension == 0 || points.filterable.is_empty() || condition.measure == VectorMeasure::InnerProduct {
            return None;
        }
        let frame = Frame::of(&points, condition.measure);
        let mut placed = vec![0.0; points.filterable.len() * dimension];
        for (at, point) in placed.chunks_exact_mut(dimension).enumerate() {
            frame.place(points.filterable(at), point);
        }
        let mut sample: Vec<&[f64]> = placed.chunks_exact(dimension).collect();
        let mut divisions = vec![(0, 0.0); (1 << DEPTH) - 1];
        divide(&mut sample, 0, &mut divisions);
        Some(Self { condition, reach, frame, dimension, divisions })
    }

    /// The region of each row; `extents`, one for each region, grow around them.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of another length than the sample's.
    pub fn place(&self, keys: &ArrayRef, extents: &mut [Extent]) -> Result<Vec<u32>, Error> {
        let mut regions = vec![0; keys.len()];
        let keys = KeyColumn { values: ArrayRef::clone(keys), groups: None };
        let points = Points::try_new(
            &self.condition,
            &keys,
            Some(self.dimension),
            &PrepareContext { threads: 1, cancel: &Cancel::default() },
        )?;
        let mut point = vec![0.0; self.dimension];
        for (at, &row) in points.filterable.rows.iter().enumerate() {
            self.frame.place(points.filterable(at), &mut point);
            let region = self.region(&point);
            regions[row as usize] = region;
            extents[region as usize].extend(&point);
        }
        for &row in &points.unfilterable.rows {
            regions[row as usize] = 1 << DEPTH;
            extents[1 << DEPTH] = Extent::everywhere();
        }
        Ok(regions)
    }

    fn region(&self, point: &[f64]) -> u32 {
        let mut node = 0;
        while let Some(&(dimension, at)) = self.divisions.get(node) {
            node = 2 * node + 1 + usize::from(point[dimension] >= at);
        }
        (node - self.divisions.len()) as u32
    }

    /// Whether a row of one part may match one of the other.
    pub fn may_match(&self, one: &Extent, other: &Extent) -> bool {
        let [one, other] = match one.boxes(other) {
            Ok(boxes) => boxes,
            Err(may_match) => return may_match,
        };
        let gaps = one.iter().zip(other).map(|(one, other)| (one.0 - other.1).max(other.0 - one.1).max(0.0));
        let sum = match self.condition.measure {
            VectorMeasure::Linf => gaps.fold(0.0, f64::max),
            VectorMeasure::L1 => gaps.sum(),
            _ => gaps.map(|gap| gap * gap).sum(),
        };
        !sum.exceeds(self.reach.of_boxes::<f64>((0.0, 0.0)))
    }
}

/// Divides a node by the median of its widest dimension, and all below it.
fn divide(points: &mut [&[f64]], node: usize, divisions: &mut [(usize, f64)]) {
    if node >= divisions.len() || points.is_empty() {
        return;
    }
    let spread = |k: usize| {
        let ends = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |e, p| (e.0.min(p[k]), e.1.max(p[k])));
        ends.1 - ends.0
    };
    let widest = (0..points[0].len()).max_by(|&a, &b| spread(a).total_cmp(&spread(b))).unwrap_or(0);
    let middle = points.len() / 2;
    points.select_nth_unstable_by(middle, |a, b| a[widest].total_cmp(&b[widest]));
    divisions[node] = (widest, points[middle][widest]);
    let (below, above) = points.split_at_mut(middle);
    divide(below, 2 * node + 1, divisions);
    divide(above, 2 * node + 2, divisions);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::FixedSizeListArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::condition::Bounds;

    fn keys(points: &[[f64; 2]]) -> ArrayRef {
        let lists = points.iter().map(|point| Some(point.map(Some)));
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(lists, 2))
    }

    #[test]
    fn no_near_pair_is_in_parts_that_are_not_compared() {
        let spread = |n: usize, by: usize| ((n * by) % 1009) as f64;
        let points: Vec<[f64; 2]> = (0..2000).map(|n| [spread(n, 37), spread(n, 101) * 2.0]).collect();
        for measure in [VectorMeasure::L1, VectorMeasure::L2, VectorMeasure::Linf] {
            let condition = VectorCondition { measure, bounds: Bounds::at_most(40.0, true), undecided_from: None };
            let regions = PointRegions::of(condition, &keys(&points[..500])).unwrap();
            let mut extents = vec![Extent::default(); REGIONS];
            let of_rows = regions.place(&keys(&points), &mut extents).unwrap();
            let rows = |region: u32| {
                let rows = points.iter().zip(&of_rows).filter(move |(_, r)| **r == region);
                rows.map(|(point, _)| *point).collect::<Vec<_>>()
            };
            let parts: Vec<(Vec<[f64; 2]>, Extent)> = (0..).map(rows).zip(extents).collect();
            let mut skipped = 0;
            for (one, other) in parts.iter().flat_map(|one| parts.iter().map(move |other| (one, other))) {
                if regions.may_match(&one.1, &other.1) {
                    continue;
                }
                skipped += 1;
                let near = |a: &[f64; 2], b: &[f64; 2]| measure.score(a, b).is_some_and(|d| d <= 40.0);
                assert!(!one.0.iter().any(|a| other.0.iter().any(|b| near(a, b))));
            }
            assert!(skipped > 3000, "{skipped}");
        }
    }

    #[test]
    fn rows_of_no_known_place_are_near_all() {
        let condition = VectorCondition {
            measure: VectorMeasure::L2,
            bounds: Bounds::at_most(1.0, true),
            undecided_from: Some(465),
        };
        let regions = PointRegions::of(condition, &keys(&[[0.0, 0.0], [100.0, 100.0]])).unwrap();
        let of = |points: &[[f64; 2]]| {
            let mut extents = vec![Extent::default(); REGIONS];
            let region = regions.place(&keys(points), &mut extents).unwrap()[0];
            (region, extents.swap_remove(region as usize))
        };
        let (near, far) = (of(&[[0.0, 0.0]]).1, of(&[[100.0, 100.0]]).1);
        assert!(!regions.may_match(&near, &far));
        let (region, lost) = of(&[[0.0, f64::NAN]]);
        assert!(regions.may_match(&lost, &far) && !regions.may_match(&lost, &Extent::default()));
        assert_eq!(region, 64);
        assert_eq!(of(&[[f64::INFINITY, 0.0]]).0, 64);
        assert!(regions.may_match(&of(&[[100.0, 100.0], [100.0, 99.5]]).1, &far));
    }
}
