//! Nearest neighbours by trees.

use std::any::Any;

use datafusion::common::{Result, exec_err, internal_err};

use super::lanes::{self, LANES, Probe};
use super::metric::{Arithmetic, Cosine, L1, L2, Limits, Linf, Metric};
use super::tree::{Child, EMPTY, Points, Trees};
use super::vectors::Vectors;
use crate::engine::nearest::{Best, NearestIndex, Neighbour};
use crate::engine::{BuildContext, Counts, KeyColumn, NO_GROUP, PreparedProbe};

/// A tree for each group of the build side.
#[derive(Debug)]
pub struct KdForest {
    metric: Metric,
    trees: Trees,
    /// The root of each group; the only one where there are no groups.
    roots: Vec<Child>,
    /// The row in each lane.
    rows: Vec<u32>,
    /// The rank of that row.
    ranks: Vec<u32>,
    /// The norms of the vectors in each block, where the metric asks for them.
    norms: Vec<[f64; LANES]>,
    /// Whether boxes say anything about scores.
    bounded: bool,
    unmatchable: usize,
}

impl KdForest {
    /// Trees over `vectors`, which all have the same number of elements; `groups` as in [`KeyColumn`], and a rank a row.
    ///
    /// # Errors
    /// A refused reservation.
    pub fn try_new(
        metric: Metric,
        vectors: &Vectors,
        groups: Option<&[u32]>,
        ranks: &[u32],
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let dimensions = vectors.length().unwrap_or_default();
        let members = Members::new(metric, vectors, groups);
        let grouped = members.ends.len();
        (context.reserve)(Trees::estimated_memory(members.points.len(), grouped, dimensions))?;
        let directions = if metric == Metric::Cosine { members.directions(dimensions) } else { Vec::new() };
        let places = if metric == Metric::Cosine { &directions } else { &members.elements };
        let points = Points { dimensions, elements: &members.elements, places };
        let mut trees = Trees::new(dimensions);
        let mut order: Vec<u32> = (0..members.points.len() as u32).collect();
        let mut roots = Vec::with_capacity(grouped);
        let mut start = 0;
        for &end in &members.ends {
            roots.push(trees.add(points, &mut order[start..end], context.cancel));
            start = end;
        }
        let row_of = |&point: &u32| if point == EMPTY { EMPTY } else { members.points[point as usize].0 };
        let rows: Vec<u32> = trees.points.iter().map(row_of).collect();
        let rank_of = |&row: &u32| if row == EMPTY { 0 } else { ranks[row as usize] };
        let norm_of = |&point: &u32| members.points.get(point as usize).map_or(0.0, |&(_, norm)| norm);
        Ok(Self {
            metric,
            roots,
            ranks: rows.iter().map(rank_of).collect(),
            norms: match metric {
                Metric::Cosine => {
                    trees.points.as_chunks().0.iter().map(|block| block.each_ref().map(norm_of)).collect()
                }
                _ => Vec::new(),
            },
            rows,
            bounded: metric != Metric::Cosine || members.points.iter().all(|&(_, norm)| is_ordinary(norm)),
            unmatchable: vectors.rows() - members.points.len(),
            trees,
        })
    }

    fn root(&self, probe: &PreparedVectors, row: usize) -> Option<Child> {
        let group = probe.groups.as_ref().map_or(0, |groups| groups[row]);
        self.roots.get(group as usize).copied().filter(|&root| root != Child::None)
    }

    fn walk<A: Arithmetic>(&self, root: Child, mut probe: Probe<'_>, bounded: bool, best: &mut Best<i64>) -> usize {
        if let Some(worst) = best.worst() {
            probe.limits = A::limits(worst, self.trees.dimensions);
        }
        let mut walk = Walk { forest: self, probe, bounded, best, seen: 0 };
        walk.visit::<A>(root);
        walk.seen
    }
}

/// The vectors of the build side that have a score with some vector, group by group.
struct Members {
    /// The row and the norm of each.
    points: Vec<(u32, f64)>,
    elements: Vec<f64>,
    /// Where the points of each group end.
    ends: Vec<usize>,
}

impl Members {
    fn new(metric: Metric, vectors: &Vectors, groups: Option<&[u32]>) -> Self {
        let group_of = |row: usize| groups.map_or(0, |groups| groups[row]);
        let mut rows: Vec<(u32, u32)> = (0..vectors.rows())
            .filter(|&row| group_of(row) != NO_GROUP && vectors.at(row).is_some_and(|v| norm(metric, v).is_some()))
            .map(|row| (group_of(row), row as u32))
            .collect();
        if groups.is_some() {
            rows.sort_unstable();
        }
        let mut members = Self { points: Vec::with_capacity(rows.len()), elements: Vec::new(), ends: Vec::new() };
        for (group, row) in rows {
            members.ends.resize(members.ends.len().max(group as usize), members.points.len());
            if let Some(vector) = vectors.at(row as usize) {
                members.points.push((row, norm(metric, vector).unwrap_or_default()));
                members.elements.extend_from_slice(vector);
            }
        }
        members.ends.push(members.points.len());
        members
    }

    /// The vectors at length 1.
    fn directions(&self, dimensions: usize) -> Vec<f64> {
        let element = |(at, element): (usize, &f64)| element / self.points[at / dimensions].1;
        self.elements.iter().enumerate().map(element).collect()
    }
}

/// The length of a vector as the metric needs it; `None` where the vector has no score with any other.
fn norm(metric: Metric, vector: &[f64]) -> Option<f64> {
    if metric != Metric::Cosine {
        return Some(0.0);
    }
    let squares = vector.iter().fold(0.0, |sum, x| sum + x * x);
    (squares.is_finite() && squares > 0.0).then(|| squares.sqrt())
}

/// Whether no square in a sum that has this root was so small or so large that the sum is far off.
fn is_ordinary(norm: f64) -> bool {
    (1e-140..=1e140).contains(&norm)
}

impl NearestIndex for KdForest {
    fn describe(&self) -> String {
        let trees = self.roots.iter().filter(|&&root| root != Child::None).count();
        let rows = self.rows.iter().filter(|&&row| row != EMPTY).count();
        let plural = if trees == 1 { "tree" } else { "trees" };
        format!("{trees} k-d {plural} over {rows} vectors of {} elements", self.trees.dimensions)
    }

    fn memory(&self) -> usize {
        self.trees.memory()
            + self.roots.capacity() * size_of::<Child>()
            + (self.rows.capacity() + self.ranks.capacity()) * size_of::<u32>()
            + self.norms.capacity() * size_of::<[f64; LANES]>()
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn prepare(&self, keys: &KeyColumn) -> Result<Box<dyn PreparedProbe>> {
        let vectors = Vectors::try_new(&keys.values)?;
        let order = neighbouring(&vectors);
        let mut prepared = PreparedVectors { vectors, groups: keys.groups.clone(), order, unmatchable: 0 };
        for row in 0..prepared.len() {
            match (prepared.vectors.at(row), self.root(&prepared, row)) {
                (Some(vector), Some(_)) if vector.len() != self.trees.dimensions => {
                    return exec_err!(
                        "{}: the vectors have {} and {} elements",
                        self.metric,
                        vector.len(),
                        self.trees.dimensions
                    );
                }
                (Some(_), Some(_)) => {}
                _ => prepared.unmatchable += 1,
            }
        }
        Ok(Box::new(prepared))
    }

    fn order<'a>(&self, probe: &'a dyn PreparedProbe) -> Result<&'a [u32]> {
        Ok(&PreparedVectors::of(probe)?.order)
    }

    fn nearest(&self, probe: &dyn PreparedProbe, row: usize, best: &mut Best<i64>) -> Result<Counts> {
        let probe = PreparedVectors::of(probe)?;
        let (Some(vector), Some(root)) = (probe.vectors.at(row), self.root(probe, row)) else {
            return Ok(Counts::default());
        };
        let Some(norm) = norm(self.metric, vector) else { return Ok(Counts::default()) };
        let probe = Probe { vector, place: vector, norm, limits: Limits::NONE };
        let seen = match self.metric {
            Metric::L1 => self.walk::<L1>(root, probe, true, best),
            Metric::L2 => self.walk::<L2>(root, probe, true, best),
            Metric::Linf => self.walk::<Linf>(root, probe, true, best),
            Metric::Cosine => {
                let direction: Vec<f64> = vector.iter().map(|x| x / norm).collect();
                let bounded = self.bounded && is_ordinary(norm);
                self.walk::<Cosine>(root, Probe { place: &direction, ..probe }, bounded, best)
            }
        };
        Ok(Counts { candidates: seen, verified: seen, matched: 0 })
    }
}

/// A query on its way through a tree.
struct Walk<'a> {
    forest: &'a KdForest,
    probe: Probe<'a>,
    /// Whether boxes say anything about the query.
    bounded: bool,
    best: &'a mut Best<i64>,
    /// Rows compared.
    seen: usize,
}

impl Walk<'_> {
    fn visit<A: Arithmetic>(&mut self, child: Child) {
        match child {
            Child::None => {}
            Child::Leaf(first, count) => self.leaf::<A>(first as usize, count as usize),
            Child::Node(node) => self.node::<A>(node),
        }
    }

    /// The children of a node, the nearest first, up to those that are beyond the limit.
    fn node<A: Arithmetic>(&mut self, node: u32) {
        let (children, boxes) = self.forest.trees.node(node);
        let bounds = if self.bounded { lanes::bounds::<A>(self.probe, boxes) } else { [0.0; LANES] };
        let (mut order, mut near) = ([0; LANES], 0);
        for lane in (0..LANES).filter(|&lane| bounds[lane] <= self.probe.limits.bound) {
            let place =
                (0..near).rev().find(|&place| bounds[order[place]] <= bounds[lane]).map_or(0, |place| place + 1);
            order.copy_within(place..near, place + 1);
            order[place] = lane;
            near += 1;
        }
        for &lane in &order[..near] {
            if bounds[lane] > self.probe.limits.bound {
                break;
            }
            self.visit::<A>(children[lane]);
        }
    }

    fn leaf<A: Arithmetic>(&mut self, first: usize, count: usize) {
        let forest = self.forest;
        for block in first..first + count.div_ceil(LANES) {
            let norms = forest.norms.get(block).unwrap_or(&[0.0; LANES]);
            let Some(values) = lanes::values::<A>(self.probe, forest.trees.block(block), norms) else { continue };
            for (lane, value) in (block * LANES..).zip(values) {
                if value <= self.probe.limits.value && forest.rows[lane] != EMPTY {
                    self.offer::<A>(value, lane);
                }
            }
        }
        self.seen += count;
    }

    #[inline]
    fn offer<A: Arithmetic>(&mut self, value: f64, lane: usize) {
        let (rank, row) = (self.forest.ranks[lane], self.forest.rows[lane]);
        self.best.offer(Neighbour { score: A::key(value), rank, row });
        if let Some(worst) = self.best.worst() {
            self.probe.limits = A::limits(worst, self.forest.trees.dimensions);
        }
    }
}

/// A probe batch.
struct PreparedVectors {
    vectors: Vectors,
    groups: Option<Vec<u32>>,
    order: Vec<u32>,
    unmatchable: usize,
}

/// The rows with a vector, neighbours one after the other: they visit the same leaves.
fn neighbouring(vectors: &Vectors) -> Vec<u32> {
    let rows: Vec<u32> = (0..vectors.rows() as u32).filter(|&row| vectors.at(row as usize).is_some()).collect();
    let Some(dimensions) = vectors.length() else { return rows };
    let points = Points { dimensions, elements: &[], places: vectors.elements() };
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    points.arrange(&mut order);
    order.into_iter().map(|point| rows[point as usize]).collect()
}

impl PreparedVectors {
    fn of(probe: &dyn PreparedProbe) -> Result<&Self> {
        match probe.as_any().downcast_ref() {
            Some(prepared) => Ok(prepared),
            None => internal_err!("a nearest join was given a probe batch that it did not prepare"),
        }
    }
}

impl PreparedProbe for PreparedVectors {
    fn len(&self) -> usize {
        self.vectors.rows()
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
