//! Which parts of two sides are too far from each other to have a match, for sides that are not held whole.
//!
//! A sample says how space is divided: by the median of the widest dimension, again and again. Each part of a side knows the
//! box around its points, and two parts are compared where their boxes are within reach.
//!
//! Source: LSS (ICDE 2008), section V.B; the chunks are the cells of a k-d tree instead of arbitrary ones.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;

use super::frame::Frame;
use super::metric::Real;
use super::points::Points;
use super::reach::Reach;
use crate::engine::{Cancel, KeyColumn};
use crate::measure::VectorMeasure;
use crate::predicate::VectorTest;

/// How often space is halved.
const DEPTH: u32 = 6;

/// Space, divided.
#[derive(Debug)]
pub struct Regions {
    test: VectorTest,
    reach: Reach,
    frame: Frame,
    dimension: usize,
    /// The dimension by which each node is divided and where, the children of `n` being `2 n + 1` and `2 n + 2`.
    divisions: Vec<(usize, f64)>,
}

/// The box around some points.
#[derive(Debug, Clone, Default)]
pub struct Extent {
    /// None where there is no point.
    ends: Option<Vec<(f64, f64)>>,
    /// Whether there is a row whose place no filter knows.
    everywhere: bool,
}

impl Extent {
    /// That of rows of which nothing is known.
    pub fn everywhere() -> Self {
        Self { ends: None, everywhere: true }
    }

    /// Grows around other rows.
    pub fn extend(&mut self, other: Self) {
        self.everywhere |= other.everywhere;
        match (&mut self.ends, other.ends) {
            (Some(ends), Some(others)) => {
                for (end, other) in ends.iter_mut().zip(others) {
                    *end = (end.0.min(other.0), end.1.max(other.1));
                }
            }
            (ends @ None, others) => *ends = others,
            (Some(_), None) => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.ends.is_none() && !self.everywhere
    }
}

impl Regions {
    /// How many regions there are, rows that no filter can place having one.
    pub const COUNT: usize = (1 << DEPTH) + 1;

    /// Divides space as `sample` is spread; none where `test` is not about distances or the sample has no vectors.
    pub fn of(test: VectorTest, sample: &ArrayRef) -> Option<Self> {
        let keys = KeyColumn { values: ArrayRef::clone(sample), groups: None };
        let points = Points::try_new(&test, &keys, None, &Cancel::default()).ok()?;
        let (dimension, reach) = (points.dimension, Reach::of(&test, points.dimension)?);
        if dimension == 0 || points.regular.len() == 0 || test.measure == VectorMeasure::InnerProduct {
            return None;
        }
        let frame = Frame::of(&points, test.measure);
        let mut placed = vec![0.0; points.regular.len() * dimension];
        for (at, point) in placed.chunks_exact_mut(dimension).enumerate() {
            frame.place(points.regular(at), point);
        }
        let mut sample: Vec<&[f64]> = placed.chunks_exact(dimension).collect();
        let mut divisions = vec![(0, 0.0); (1 << DEPTH) - 1];
        divide(&mut sample, 0, &mut divisions);
        Some(Self { test, reach, frame, dimension, divisions })
    }

    /// The region of each row.
    ///
    /// # Errors
    /// Keys that are no lists of numbers.
    pub fn place(&self, keys: &ArrayRef) -> Result<Vec<u32>> {
        let mut regions = vec![0; keys.len()];
        let keys = KeyColumn { values: ArrayRef::clone(keys), groups: None };
        let points = Points::try_new(&self.test, &keys, Some(self.dimension), &Cancel::default())?;
        let mut point = vec![0.0; self.dimension];
        for (at, &row) in points.regular.rows.iter().enumerate() {
            self.frame.place(points.regular(at), &mut point);
            regions[row as usize] = self.region(&point);
        }
        for &row in &points.loose.rows {
            regions[row as usize] = 1 << DEPTH;
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

    /// The box around some rows.
    ///
    /// # Errors
    /// Keys that are no lists of numbers, vectors of another length than the sample's.
    pub fn extent(&self, keys: &ArrayRef) -> Result<Extent> {
        let keys = KeyColumn { values: ArrayRef::clone(keys), groups: None };
        let points = Points::try_new(&self.test, &keys, Some(self.dimension), &Cancel::default())?;
        let mut ends = vec![(f64::INFINITY, f64::NEG_INFINITY); self.dimension];
        let mut point = vec![0.0; self.dimension];
        for at in 0..points.regular.len() {
            self.frame.place(points.regular(at), &mut point);
            for (end, &x) in ends.iter_mut().zip(&point) {
                *end = (end.0.min(f64::below(x)), end.1.max(f64::above(x)));
            }
        }
        let ends = (points.regular.len() > 0).then_some(ends);
        Ok(Extent { ends, everywhere: points.loose.len() > 0 })
    }

    /// Whether a row of one part may match one of the other.
    pub fn may_match(&self, one: &Extent, other: &Extent) -> bool {
        if one.is_empty() || other.is_empty() || one.everywhere || other.everywhere {
            return !one.is_empty() && !other.is_empty();
        }
        let (Some(one), Some(other)) = (&one.ends, &other.ends) else { return true };
        let gaps = one.iter().zip(other).map(|(one, other)| (one.0 - other.1).max(other.0 - one.1).max(0.0));
        let sum = match self.test.measure {
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

    use datafusion::arrow::array::FixedSizeListArray;
    use datafusion::arrow::datatypes::Float64Type;

    use super::*;
    use crate::predicate::Bounds;

    fn keys(points: &[[f64; 2]]) -> ArrayRef {
        let lists = points.iter().map(|point| Some(point.map(Some)));
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float64Type, _, _>(lists, 2))
    }

    #[test]
    fn no_near_pair_is_in_parts_that_are_not_compared() {
        let spread = |n: usize, by: usize| ((n * by) % 1009) as f64;
        let points: Vec<[f64; 2]> = (0..2000).map(|n| [spread(n, 37), spread(n, 101) * 2.0]).collect();
        for measure in [VectorMeasure::L1, VectorMeasure::L2, VectorMeasure::Linf] {
            let test = VectorTest { measure, bounds: Bounds::at_most(40.0, true), undecided_from: None };
            let regions = Regions::of(test, &keys(&points[..500])).unwrap();
            let of_rows = regions.place(&keys(&points)).unwrap();
            let parts: Vec<(Vec<[f64; 2]>, Extent)> = (0..Regions::COUNT as u32)
                .map(|region| {
                    let rows = points.iter().zip(&of_rows).filter(|(_, r)| **r == region).map(|(p, _)| *p);
                    let rows: Vec<_> = rows.collect();
                    let extent = regions.extent(&keys(&rows)).unwrap();
                    (rows, extent)
                })
                .collect();
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
        let test =
            VectorTest { measure: VectorMeasure::L2, bounds: Bounds::at_most(1.0, true), undecided_from: Some(465) };
        let regions = Regions::of(test, &keys(&[[0.0, 0.0], [100.0, 100.0]])).unwrap();
        let of = |point| regions.extent(&keys(&[point])).unwrap();
        assert!(!regions.may_match(&of([0.0, 0.0]), &of([100.0, 0.0])));
        assert!(regions.may_match(&of([0.0, f64::NAN]), &of([100.0, 0.0])));
        assert!(!regions.may_match(&of([0.0, f64::NAN]), &Extent::default()));
        let mut both = of([0.0, 0.0]);
        both.extend(of([99.5, 0.0]));
        assert!(regions.may_match(&both, &of([100.0, 0.0])));
        assert_eq!(regions.place(&keys(&[[f64::INFINITY, 0.0]])).unwrap(), [64]);
    }
}
