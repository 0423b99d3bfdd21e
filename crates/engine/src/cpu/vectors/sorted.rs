//! The points of one side, in the order and the blocks that are compared.

use crate::error::Result;

use super::blocks::{Blocks, Values};
use super::build_tree::{Role, grow};
use super::frame::Frame;
use super::lanes::Real;
use super::metric::Metric;
use super::points::{Points, Rows, Vectors};
use crate::condition::VectorCondition;
use crate::stored::{Sink, Source, Store, Stored};
use crate::{BuildContext, IndexInfo};

/// Rows that are worth waiting for, at most.
const MOST_ROWS: usize = 1 << 17;
/// Elements of rows that are worth waiting for, at most.
const MOST_NUMBERS: usize = 1 << 22;

/// The rows of one side that may match.
#[derive(Debug)]
pub(super) struct Side<R> {
    pub(super) blocks: Blocks<R>,
    /// Vectors of all rows, where there are unfilterable ones.
    vectors: Option<Vectors>,
    /// Rows that are compared with all others.
    pub(super) unfilterable: Rows,
    /// Rows that can never match.
    pub(super) unmatchable: usize,
    /// Whether the condition leaves a row to the expression as the query states it.
    pub(super) undecided: bool,
}

impl<R: Real> Store for Side<R> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        let Self { blocks, vectors, unfilterable, unmatchable, undecided } = self;
        blocks.store(sink)?;
        // long vectors stay where they are, and those of the blocks are the same
        vectors.is_some().store(sink)?;
        vectors.iter().filter(|_| blocks.is_ordered()).try_for_each(|vectors| vectors.store(sink))?;
        unfilterable.store(sink)?;
        unmatchable.store(sink)?;
        undecided.store(sink)
    }
}

impl<R: Real> Stored for Side<R> {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let blocks: Blocks<R> = Stored::load(source)?;
        let vectors = match (bool::load(source)?, &blocks.values) {
            (false, _) => None,
            (true, Values::ByRow(vectors)) => Some(vectors.clone()),
            (true, Values::Ordered(_)) => Some(Stored::load(source)?),
        };
        let (unfilterable, unmatchable) = (Stored::load(source)?, Stored::load(source)?);
        Ok(Self { blocks, vectors, unfilterable, unmatchable, undecided: Stored::load(source)? })
    }
}

impl<R: Real> Side<R> {
    /// The points of a side in its role.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    pub(super) fn try_new<M: Metric>(
        condition: &VectorCondition,
        frame: &Frame,
        mut points: Points,
        role: Role<'_, Self>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let (unfilterable, unmatchable) = (std::mem::take(&mut points.unfilterable), points.unmatchable);
        let undecided = unfilterable.rows.iter().any(|&row| !condition.decides(points.vectors.given(row as usize)));
        let vectors = (!unfilterable.is_empty()).then(|| points.vectors.clone());
        let blocks = grow::<R, M>(points, frame, condition.measure, role.map(|build| &build.blocks), context)?;
        Ok(Self { blocks, vectors, unfilterable, unmatchable, undecided })
    }

    /// The vector of an unfilterable row.
    pub(super) fn unfilterable(&self, at: usize) -> &[f64] {
        self.vectors.as_ref().map_or(&[], |vectors| vectors.given(self.unfilterable.rows[at] as usize))
    }

    /// The rows of the blocks, then the unfilterable ones.
    pub(super) fn order(&self) -> Vec<u32> {
        self.blocks.rows.iter().chain(&self.unfilterable.rows).copied().collect()
    }

    /// Whether no row can match.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.len() + self.unfilterable.len() == 0
    }

    /// What is known of an index that has no more than this build side.
    pub(super) fn info(&self) -> IndexInfo {
        IndexInfo {
            path: self.describe(),
            bytes: self.memory(),
            unmatchable: self.unmatchable,
            rows_at_once: self.rows_at_once(),
            ..IndexInfo::default()
        }
    }

    /// How many rows of the other side are best arranged at once: as many as make its leaves no larger than the
    /// leaves here.
    fn rows_at_once(&self) -> usize {
        self.blocks.len().min(MOST_ROWS).min(MOST_NUMBERS / self.blocks.dimension.max(1))
    }

    /// What EXPLAIN ANALYZE says.
    fn describe(&self) -> String {
        let Self { blocks, unfilterable, .. } = self;
        let precision = if size_of::<R>() == size_of::<f32>() { "single" } else { "double" };
        let what = match blocks.dimension {
            0 | 1 => "sorted runs",
            _ if !blocks.clusters.is_empty() => "clustered blocks",
            _ if blocks.width == 0 => "metric blocks",
            _ if blocks.balls.is_some() => "k-d blocks in balls",
            _ => "k-d blocks",
        };
        let unfilterable = match unfilterable.len() {
            0 => String::new(),
            unfilterable => format!(", {unfilterable} rows compared with all"),
        };
        let (leaves, dimensions) = (blocks.leaves.len(), blocks.dimension);
        format!("{what} of {leaves} leaves over {dimensions} dimensions, {precision} precision filter{unfilterable}")
    }

    /// Bytes held.
    fn memory(&self) -> usize {
        let vectors = self.vectors.as_ref().filter(|_| self.blocks.is_ordered()).map_or(0, Vectors::memory);
        self.blocks.memory() + vectors + self.unfilterable.memory()
    }
}
