//! The pairs of a sample for which a condition holds.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::catalog::MemTable;
use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::cost::Run;
use super::interval::{Found, Rows};
use super::sample::Sample;

/// Rows of either side that the first join reads: all of its pairs could be compared.
const FIRST_ROWS: usize = 1 << 11;
/// The most pairs that a join is expected to find.
const MOST_PAIRS: f64 = 3e5;
/// The most pairs that a join is expected to look at one by one.
const MOST_CANDIDATES: f64 = 3e7;
/// The most pairs of a nested loop.
const MOST_LOOPS: f64 = 5e6;

/// The samples of one table or of two.
#[derive(Debug)]
pub(super) struct Samples {
    pub left: Sample,
    /// None where pairs are of two rows of the left table.
    pub right: Option<Sample>,
    /// A column that no table has: the number of a row in its sample.
    row: String,
}

/// A condition over two rows.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub sql: String,
    /// Whether it holds for two rows the other way round where it holds one way.
    pub is_symmetric: bool,
}

/// What a condition found, and what that took.
#[derive(Debug)]
pub(super) struct Counted {
    pub found: Found,
    /// The rows that were joined last.
    pub rows: Rows,
    /// The join of these rows.
    pub run: Run,
}

impl Samples {
    pub fn new(left: Sample, right: Option<Sample>) -> Self {
        let mut row = "sample_row".to_owned();
        let sides = [Some(&left), right.as_ref()];
        while sides.into_iter().flatten().any(|side| side.rows.schema().column_with_name(&row).is_some()) {
            row.push('_');
        }
        Self { left, right, row }
    }

    /// The rows of the first `sizes` of either sample.
    fn rows(&self, [left, right]: [usize; 2]) -> Rows {
        match &self.right {
            None => Rows::OneTable { all: self.left.all, sampled: left as u64 },
            Some(of_right) => {
                Rows::TwoTables { all: [self.left.all, of_right.all], sampled: [left as u64, right as u64] }
            }
        }
    }

    /// How many pairs there are.
    pub fn all_pairs(&self) -> f64 {
        self.rows([0, 0]).pairs()
    }

    /// Up to so many rows of either sample.
    fn sizes(&self, most: usize) -> [usize; 2] {
        let left = self.left.rows.num_rows().min(most);
        [left, self.right.as_ref().map_or(left, |right| right.rows.num_rows().min(most))]
    }

    /// Joins more and more rows of the samples, as long as the next join is not expected to be long. `density` is the
    /// share of all pairs that the join has to look at, where that is known.
    ///
    /// # Errors
    /// What a join fails with.
    pub async fn count(
        &self,
        condition: &Condition,
        density: Option<f64>,
        state: &SessionState,
        context: &Arc<TaskContext>,
    ) -> Result<Counted> {
        let largest = self.sizes(usize::MAX);
        let mut sizes = self.sizes(FIRST_ROWS);
        loop {
            let (found, run, loops) = self.join(condition, sizes, state, context).await?;
            let rows = self.rows(sizes);
            let pairs = rows.sampled_pairs().max(1.0);
            let limits = [
                MOST_PAIRS * pairs / found.pairs.max(4) as f64,
                MOST_CANDIDATES / (run.candidates / pairs).max(density.unwrap_or(0.0)).max(1e-12),
                if loops { MOST_LOOPS } else { f64::INFINITY },
            ];
            let most = limits.into_iter().fold(f64::INFINITY, f64::min);
            let mut next = largest.into_iter().max().unwrap_or(0);
            while self.rows(self.sizes(next)).sampled_pairs() > most {
                next = next * 7 / 8;
            }
            let next = self.sizes(next);
            let grown = self.rows(next).sampled_pairs();
            if next == sizes || (grown < 2.0 * pairs && next != largest) {
                return Ok(Counted { found, rows, run });
            }
            sizes = next;
        }
    }

    /// Joins half of the rows that were joined last, where no counter shows how the time grows. Few rows tell nothing.
    ///
    /// # Errors
    /// What the join fails with.
    pub async fn half(
        &self,
        condition: &Condition,
        last: &Run,
        state: &SessionState,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Run>> {
        let sizes = last.joined.map(|rows| rows / 2);
        if !last.compares_all || sizes.into_iter().any(|rows| rows < FIRST_ROWS) {
            return Ok(None);
        }
        Ok(Some(self.join(condition, sizes, state, context).await?.1))
    }

    /// Joins the first `sizes` of either sample. Also says whether it is a nested loop.
    async fn join(
        &self,
        condition: &Condition,
        sizes: [usize; 2],
        state: &SessionState,
        context: &Arc<TaskContext>,
    ) -> Result<(Found, Run, bool)> {
        let plan = self.plan(condition, sizes, state)?;
        let plan = state.create_physical_plan(&plan).await?;
        let start = Instant::now();
        let batches = collect(Arc::clone(&plan), Arc::clone(context)).await?;
        let seconds = start.elapsed().as_secs_f64();
        let found = match self.right {
            None => found_in_one_table(&batches, sizes[0], condition.is_symmetric),
            Some(_) => found_in_two_tables(&batches, sizes),
        };
        let run = Run { seconds, rows: self.rows(sizes), joined: sizes, found: found.pairs as f64, ..Run::of(&plan) };
        Ok((found, run, has_nested_loop(&plan)))
    }

    fn plan(&self, condition: &Condition, sizes: [usize; 2], state: &SessionState) -> Result<LogicalPlan> {
        let partitions = state.config().target_partitions();
        let left = table(&self.left.rows, &self.row, sizes[0], partitions)?;
        let right = match &self.right {
            None => Arc::clone(&left),
            Some(right) => table(&right.rows, &self.row, sizes[1], partitions)?,
        };
        let scan = |name: &str, table| LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.build();
        let (left, right) = (scan("a", left)?, scan("b", right)?);
        let row = |side: &str| Column::new(Some(TableReference::bare(side)), &self.row);
        let schema = left.schema().join(right.schema())?;
        let mut on = state.create_logical_expr(&condition.sql, &schema)?;
        if self.right.is_none() {
            let (a, b) = (Expr::Column(row("a")), Expr::Column(row("b")));
            on = on.and(if condition.is_symmetric { a.lt(b) } else { a.not_eq(b) });
        }
        LogicalPlanBuilder::from(left)
            .join_on(right, JoinType::Inner, [on])?
            .project([row("a"), row("b")].map(Expr::Column))?
            .build()
    }

    /// Which rows of either sample may match at all, for each of some lists of conditions over one row.
    ///
    /// # Errors
    /// What a condition fails with.
    pub fn matchable(&self, conditions: &[Vec<String>], side: usize, state: &SessionState) -> Result<Vec<Vec<bool>>> {
        let rows = match (side, &self.right) {
            (1, Some(right)) => &right.rows,
            _ => &self.left.rows,
        };
        let schema = DFSchema::try_from_qualified_schema(["a", "b"][side], &rows.schema())?;
        conditions.iter().map(|conditions| may_match(rows, &schema, conditions, state)).collect()
    }
}

/// Which rows fail none of some conditions.
fn may_match(rows: &RecordBatch, schema: &DFSchema, conditions: &[String], state: &SessionState) -> Result<Vec<bool>> {
    let mut left = vec![true; rows.num_rows()];
    for condition in conditions {
        let expr = state.create_logical_expr(condition, schema)?;
        let values = state.create_physical_expr(expr, schema)?.evaluate(rows)?.into_array(rows.num_rows())?;
        let values = datafusion::arrow::compute::cast(&values, &DataType::Boolean)?;
        let values = values.as_boolean();
        for (row, left) in left.iter_mut().enumerate() {
            *left &= values.is_valid(row) && values.value(row);
        }
    }
    Ok(left)
}

/// The first rows of a sample as a table, with their numbers.
fn table(rows: &RecordBatch, row: &str, size: usize, partitions: usize) -> Result<Arc<MemTable>> {
    let mut fields = rows.schema().fields().to_vec();
    fields.push(Arc::new(Field::new(row, DataType::UInt32, false)));
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let mut columns: Vec<ArrayRef> = rows.slice(0, size).columns().to_vec();
    columns.push(Arc::new(UInt32Array::from_iter_values(0..size as u32)));
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let each = size.div_ceil(partitions.max(1)).max(1);
    let part = |start: usize| {
        let end = (start + each).min(size);
        (start..end).step_by(1 << 13).map(|from| rows.slice(from, (end - from).min(1 << 13))).collect()
    };
    let parts: Vec<Vec<RecordBatch>> = (0..size.max(1)).step_by(each).map(part).collect();
    Ok(Arc::new(MemTable::try_new(schema, parts)?))
}

/// The two columns of row numbers.
fn ends(batch: &RecordBatch) -> impl Iterator<Item = (u32, u32)> {
    let [left, right] = [0, 1].map(|column| batch.column(column).as_primitive::<UInt32Type>().values());
    left.iter().copied().zip(right.iter().copied())
}

fn shared(degrees: &[u32]) -> f64 {
    degrees.iter().map(|&degree| f64::from(degree) * (f64::from(degree) - 1.0)).sum()
}

fn found_in_two_tables(batches: &[RecordBatch], sizes: [usize; 2]) -> Found {
    let mut degrees = sizes.map(|size| vec![0u32; size]);
    let mut pairs = 0;
    for (left, right) in batches.iter().flat_map(ends) {
        pairs += 1;
        degrees[0][left as usize] += 1;
        degrees[1][right as usize] += 1;
    }
    Found { pairs, shared: [shared(&degrees[0]), shared(&degrees[1])] }
}

/// Pairs of one table count once, whichever way round they were found.
fn found_in_one_table(batches: &[RecordBatch], size: usize, each_once: bool) -> Found {
    let mut links: Vec<(u32, u32)> = batches.iter().flat_map(ends).map(|(l, r)| (l.min(r), l.max(r))).collect();
    if !each_once {
        links.sort_unstable();
        links.dedup();
    }
    let mut degrees = vec![0u32; size];
    for &(left, right) in &links {
        degrees[left as usize] += 1;
        degrees[right as usize] += 1;
    }
    Found { pairs: links.len() as u64, shared: [shared(&degrees), 0.0] }
}

fn has_nested_loop(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(plan.name(), "NestedLoopJoinExec" | "CrossJoinExec") || plan.children().into_iter().any(has_nested_loop)
}
