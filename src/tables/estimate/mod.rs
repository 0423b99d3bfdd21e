//! `estimate_join(..)`: what a join would find and cost, from a sample.

mod cost;
mod exec;
mod interval;
mod pairs;
mod sample;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::arguments::Argument;
use super::one_or_two::OneOrTwo;
use super::query::{Query, is_symmetric, quoted_column, session};
use exec::{Clause, Estimate, EstimateExec, schema};
use pairs::Condition;

/// Name of the function.
pub(super) const ESTIMATE_JOIN: &str = "estimate_join";

/// Rows of a table that are drawn, unless a call says another number.
const SAMPLE: u64 = 200_000;
/// The most rows of a sample.
const MOST_ROWS: u64 = 1 << 30;
/// The seed of the draws, unless a call says another one.
const SEED: u64 = 42;

/// `estimate_join(table, condition [, sample [, seed]])`: a row for each alternative of a condition over two rows, and
/// for several of them one for all together, whose `clause` is NULL.
///
/// The pairs are those of two different rows of the table, in whatever order. For pairs of rows of two tables, both
/// tables come first: `estimate_join(left, right, condition [, sample [, seed]])`. The condition is one over `a` and
/// `b`, or the name of a matching rule. `sample` is the most rows that are drawn of a table, 200,000 by default. A
/// table of fewer rows is taken whole.
///
/// | columns | meaning |
/// |---|---|
/// | `clause`, `condition` | the number of the alternative from 1, and its text |
/// | `candidates`, `candidates_low`, `candidates_high` | pairs for which all parts without a measure hold |
/// | `matches`, `matches_low`, `matches_high` | pairs for which it holds |
/// | `left_unmatchable`, `right_unmatchable` | rows that fail what it asks of one row: a value, a token, a condition |
/// | `seconds`, `bytes` | time to read the tables and to join them, and memory of what is indexed |
///
/// The bounds hold the true number in at least 19 of 20 samples. Of one table `right_unmatchable` is NULL.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct EstimateJoinFunction;

impl TableFunctionImpl for EstimateJoinFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), ESTIMATE_JOIN)?;
        let usage = format!(
            "as in {ESTIMATE_JOIN}('people', 'levenshtein(a.name, b.name) <= 1'); the size of a sample and a seed may \
             follow"
        );
        let (tables, more, place) = OneOrTwo::read(ESTIMATE_JOIN, args.exprs(), &usage, state)?;
        let of_size = Argument { function: ESTIMATE_JOIN, place, what: "the size of the sample" };
        let of_seed = Argument { function: ESTIMATE_JOIN, place: place + 1, what: "the seed" };
        let (size, seed) = match more {
            [] => (SAMPLE, SEED),
            [size] => (of_size.positive(size)?, SEED),
            [size, seed] => (of_size.positive(size)?, of_seed.positive(seed)?),
            _ => return plan_err!("{ESTIMATE_JOIN} takes at most {} arguments, {usage}", place + 1),
        };
        if size > MOST_ROWS {
            return plan_err!("{of_size} is at most {MOST_ROWS}");
        }
        let estimate =
            Estimate { inputs: inputs(&tables, state)?, clauses: clauses(&tables, state), size: size as usize, seed };
        Ok(Arc::new(EstimateTable { estimate, state: state.clone() }))
    }
}

/// The tables with the columns that the condition reads.
fn inputs(tables: &OneOrTwo, state: &SessionState) -> Result<Vec<LogicalPlan>> {
    let (mut left, mut right) = (BTreeSet::new(), BTreeSet::new());
    for clause in tables.condition.clauses() {
        left.extend(clause.left);
        right.extend(clause.right);
    }
    if tables.right.is_none() {
        left.append(&mut right);
    }
    let plan = |(relation, columns): (&String, BTreeSet<String>)| {
        let names: Vec<String> = columns.iter().map(|name| quoted_column(name)).collect();
        let names = if names.is_empty() { "1 AS one".to_owned() } else { names.join(", ") };
        Query { function: ESTIMATE_JOIN, text: format!("SELECT {names} FROM {relation} AS t") }.plan(state)
    };
    std::iter::once(&tables.left).chain(&tables.right).zip([left, right]).map(plan).collect()
}

fn clauses(tables: &OneOrTwo, state: &SessionState) -> Vec<Clause> {
    let condition = &tables.condition;
    let read = |sql: String| {
        // pairs of two tables have one order
        let is_symmetric = tables.right.is_none() && is_symmetric(ESTIMATE_JOIN, &tables.left, &sql, state);
        Condition { sql, is_symmetric }
    };
    let mut clauses = Vec::new();
    for (at, (text, blocking)) in condition.clauses().into_iter().zip(condition.blocking(state)).enumerate() {
        clauses.push(Clause {
            number: Some(at as u32 + 1),
            condition: read(text.sql),
            candidates: blocking.pairs.map(read),
            rows: blocking.rows,
        });
    }
    if clauses.len() > 1 {
        let candidates: Option<Vec<String>> =
            clauses.iter().map(|clause| Some(format!("({})", clause.candidates.as_ref()?.sql))).collect();
        clauses.push(Clause {
            number: None,
            condition: read(condition.sql()),
            candidates: candidates.map(|each| read(each.join(" OR "))),
            rows: [Vec::new(), Vec::new()],
        });
    }
    clauses
}

/// The table that the function gives.
#[derive(Debug)]
struct EstimateTable {
    estimate: Estimate,
    state: SessionState,
}

#[async_trait]
impl TableProvider for EstimateTable {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut inputs = Vec::new();
        for input in &self.estimate.inputs {
            inputs.push(self.state.create_physical_plan(input).await?);
        }
        let exec = EstimateExec::new(self.estimate.clone(), inputs, self.state.clone());
        exec.projected(projection)
    }
}
