//! Nearest neighbours by trees.

use std::any::Any;

use datafusion::common::{Result, exec_err, internal_err};

use super::metric::{Arithmetic, Cosine, L1, L2, Limits, Linf, Metric};
use super::tree::{EMPTY, LANES, Node, Points, Trees};
use super::vectors::Vectors;
use crate::engine::nearest::{Best, NearestIndex, Neighbour};
use crate::engine::{BuildContext, Counts, KeyColumn, NO_GROUP, PreparedProbe};

/// A tree for each group of the build side.
#[derive(Debug)]
pub struct KdForest {
    metric: Metric,
    trees: Trees,
    /// The root of each group, [`NO_TREE`] where none of its rows has a vector; the only one where there are no groups.
    roots: Vec<u32>,
    /// For each lane its row, the row's rank and the vector's norm.
    rows: Vec<u32>,
    ranks: Vec<u32>,
    norms: Vec<f64>,
    /// Whether boxes say anything about scores.
    bounded: bool,
    unmatchable: usize,
}

const NO_TREE: u32 = u32::MAX;

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
            let group = &mut order[start..end];
            roots.push(if group.is_empty() { NO_TREE } else { trees.add(points, group, context.cancel) });
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
            norms: if metric == Metric::Cosine { trees.points.iter().map(norm_of).collect() } else { Vec::new() },
            rows,
            bounded: metric != Metric::Cosine || members.points.iter().all(|&(_, norm)| is_ordinary(norm)),
            unmatchable: vectors.rows() - members.points.len(),
            trees,
        })
    }

    fn root(&self, probe: &PreparedVectors, row: usize) -> Option<u32> {
        let group = probe.groups.as_ref().map_or(0, |groups| groups[row]);
        self.roots.get(group as usize).copied().filter(|&root| group != NO_GROUP && root != NO_TREE)
    }

    fn walk<A: Arithmetic>(&self, root: u32, query: Query<'_>, best: &mut Best<i64>) -> usize {
        let limits = match best.worst() {
            Some(worst) => A::limits(worst, self.trees.dimensions),
            None => Limits::NONE,
        };
        let mut walk = Walk { forest: self, query, best, limits, seen: 0 };
        walk.node::<A>(root);
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
        let trees = self.roots.iter().filter(|&&root| root != NO_TREE).count();
        let rows = self.rows.iter().filter(|&&row| row != EMPTY).count();
        let plural = if trees == 1 { "tree" } else { "trees" };
        format!("{trees} k-d {plural} over {rows} vectors of {} elements", self.trees.dimensions)
    }

    fn memory(&self) -> usize {
        self.trees.memory()
            + (self.roots.capacity() + self.rows.capacity() + self.ranks.capacity()) * size_of::<u32>()
            + self.norms.capacity() * size_of::<f64>()
    }

    fn unmatchable(&self) -> usize {
        self.unmatchable
    }

    fn prepare(&self, keys: &KeyColumn) -> Result<Box<dyn PreparedProbe>> {
        let vectors = Vectors::try_new(&keys.values)?;
        let mut prepared = PreparedVectors { vectors, groups: keys.groups.clone(), unmatchable: 0 };
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

    fn nearest(&self, probe: &dyn PreparedProbe, row: usize, best: &mut Best<i64>) -> Result<Counts> {
        let Some(probe) = probe.as_any().downcast_ref::<PreparedVectors>() else {
            return internal_err!("a nearest join was given a probe batch that it did not prepare");
        };
        let (Some(vector), Some(root)) = (probe.vectors.at(row), self.root(probe, row)) else {
            return Ok(Counts::default());
        };
        let Some(norm) = norm(self.metric, vector) else { return Ok(Counts::default()) };
        let query = Query { vector, place: vector, norm, bounded: self.bounded };
        let seen = match self.metric {
            Metric::L1 => self.walk::<L1>(root, query, best),
            Metric::L2 => self.walk::<L2>(root, query, best),
            Metric::Linf => self.walk::<Linf>(root, query, best),
            Metric::Cosine => {
                let direction: Vec<f64> = vector.iter().map(|x| x / norm).collect();
                let bounded = self.bounded && is_ordinary(norm);
                self.walk::<Cosine>(root, Query { place: &direction, bounded, ..query }, best)
            }
        };
        Ok(Counts { candidates: seen, verified: seen, matched: 0 })
    }
}

/// A vector on its way through a tree.
#[derive(Clone, Copy)]
struct Query<'a> {
    vector: &'a [f64],
    /// Where it lies among the boxes.
    place: &'a [f64],
    norm: f64,
    bounded: bool,
}

struct Walk<'a> {
    forest: &'a KdForest,
    query: Query<'a>,
    best: &'a mut Best<i64>,
    limits: Limits,
    /// Rows compared.
    seen: usize,
}

impl Walk<'_> {
    fn node<A: Arithmetic>(&mut self, at: u32) {
        let node = self.forest.trees.nodes[at as usize];
        if node.second == 0 {
            return self.leaf::<A>(node);
        }
        let (first, second) = (at + 1, node.second);
        let (near, far) = (self.bound::<A>(first), self.bound::<A>(second));
        let ((near, nearer), (far, farther)) =
            if near <= far { ((near, first), (far, second)) } else { ((far, second), (near, first)) };
        if near <= self.limits.bound {
            self.node::<A>(nearer);
        }
        if far <= self.limits.bound {
            self.node::<A>(farther);
        }
    }

    /// What no point in the box of a node is nearer than.
    #[inline]
    fn bound<A: Arithmetic>(&self, node: u32) -> f64 {
        if !self.query.bounded {
            return 0.0;
        }
        let (least, greatest) = self.forest.trees.box_of(node);
        let sides = self.query.place.iter().zip(least).zip(greatest);
        sides.fold(0.0, |sum, ((&x, &least), &greatest)| A::widen(sum, (least - x).max(x - greatest).max(0.0)))
    }

    fn leaf<A: Arithmetic>(&mut self, leaf: Node) {
        let forest = self.forest;
        let size = forest.trees.dimensions * LANES;
        for block in forest.trees.blocks_of(leaf) {
            let sums = sums::<A>(self.query.vector, &forest.trees.blocks[block * size..][..size], self.limits.value);
            let Some(sums) = sums else { continue };
            for (lane, sum) in (block * LANES..).zip(sums) {
                let norm = if A::GROWS { 0.0 } else { forest.norms[lane] };
                let value = A::value(sum, self.query.norm, norm);
                if value <= self.limits.value && forest.rows[lane] != EMPTY {
                    self.offer::<A>(value, lane);
                }
            }
        }
        self.seen += leaf.count as usize;
    }

    #[inline]
    fn offer<A: Arithmetic>(&mut self, value: f64, lane: usize) {
        let (rank, row) = (self.forest.ranks[lane], self.forest.rows[lane]);
        self.best.offer(Neighbour { score: A::key(value), rank, row });
        if let Some(worst) = self.best.worst() {
            self.limits = A::limits(worst, self.forest.trees.dimensions);
        }
    }
}

/// How many elements are added before it is looked whether all sums are beyond the limit.
const STRIDE: usize = 16;

/// The sums of the points of a block, `None` where all of them are known to be beyond `limit`.
#[inline]
fn sums<A: Arithmetic>(query: &[f64], block: &[f64], limit: f64) -> Option<[f64; LANES]> {
    let mut sums = [0.0; LANES];
    let (lanes, _) = block.as_chunks::<LANES>();
    for (query, lanes) in query.chunks(STRIDE).zip(lanes.chunks(STRIDE)) {
        for (&x, points) in query.iter().zip(lanes) {
            for (sum, &y) in sums.iter_mut().zip(points) {
                *sum = A::add(*sum, x, y);
            }
        }
        if A::GROWS && sums.iter().all(|&sum| sum > limit) {
            return None;
        }
    }
    Some(sums)
}

/// A probe batch.
struct PreparedVectors {
    vectors: Vectors,
    groups: Option<Vec<u32>>,
    unmatchable: usize,
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
