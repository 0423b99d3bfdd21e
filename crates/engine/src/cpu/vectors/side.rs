//! One side of a join, arranged.

use crate::error::Result;

use super::blocks::Blocks;
use super::frame::Frame;
use super::grow::grow;
use super::metric::{Metric, Real};
use super::points::{Points, Rows, Vectors};
use crate::BuildContext;
use crate::condition::VectorTest;

/// Rows that are worth waiting for, at most.
const MOST_ROWS: usize = 1 << 17;
/// Elements of rows that are worth waiting for, at most.
const MOST_NUMBERS: usize = 1 << 22;

/// The rows of one side that may match.
#[derive(Debug)]
pub(super) struct Side<R> {
    pub(super) blocks: Blocks<R>,
    /// Vectors of all rows, where there are loose ones.
    vectors: Option<Vectors>,
    /// Rows that are compared with all others.
    pub(super) loose: Rows,
    /// Rows that can never match.
    pub(super) unmatchable: usize,
    /// Whether the test leaves a row to the condition as the query states it.
    pub(super) undecided: bool,
}

impl<R: Real> Side<R> {
    /// A build side, or a probe side for `build`.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    pub(super) fn try_new<M: Metric>(
        test: &VectorTest,
        frame: &Frame,
        mut points: Points,
        build: Option<&Self>,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let (loose, unmatchable) = (std::mem::take(&mut points.loose), points.unmatchable);
        let undecided = loose.rows.iter().any(|&row| !test.decides(points.vectors.given(row as usize)));
        let vectors = (!loose.is_empty()).then(|| points.vectors.clone());
        let blocks = grow::<R, M>(points, frame, test.measure, build.map(|build| &build.blocks), context)?;
        Ok(Self { blocks, vectors, loose, unmatchable, undecided })
    }

    /// The vector of a loose row.
    pub(super) fn loose(&self, at: usize) -> &[f64] {
        self.vectors.as_ref().map_or(&[], |vectors| vectors.given(self.loose.rows[at] as usize))
    }

    /// The rows of the blocks, then the loose ones.
    pub(super) fn order(&self) -> Vec<u32> {
        self.blocks.rows.iter().chain(&self.loose.rows).copied().collect()
    }

    /// Whether no row can match.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.len() + self.loose.len() == 0
    }

    /// How many rows of the other side are best arranged at once: as many as make its leaves no larger than the
    /// leaves here.
    pub(super) fn rows_at_once(&self) -> usize {
        self.blocks.len().min(MOST_ROWS).min(MOST_NUMBERS / self.blocks.dimension.max(1))
    }

    /// What EXPLAIN ANALYZE says.
    pub(super) fn describe(&self) -> String {
        let Self { blocks, loose, .. } = self;
        let precision = if size_of::<R>() == size_of::<f32>() { "single" } else { "double" };
        let what = match blocks.dimension {
            0 | 1 => "sorted runs",
            _ if blocks.width == 0 => "metric blocks",
            _ if blocks.balls.is_some() => "k-d blocks in balls",
            _ => "k-d blocks",
        };
        let loose = match loose.len() {
            0 => String::new(),
            loose => format!(", {loose} rows compared with all"),
        };
        let (leaves, dimensions) = (blocks.leaves.len(), blocks.dimension);
        format!("{what} of {leaves} leaves over {dimensions} dimensions, {precision} precision filter{loose}")
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let vectors = self.vectors.as_ref().filter(|_| self.blocks.is_ordered()).map_or(0, Vectors::memory);
        self.blocks.memory() + vectors + self.loose.memory()
    }
}
