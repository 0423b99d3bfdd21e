//! `largest_blocks(..)`: the values that many rows share, for each alternative of a condition.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::execution::context::SessionState;

use super::arguments::Argument;
use super::one_or_two::OneOrTwo;
use super::query::{Query, is_symmetric, quoted, session};
use crate::sql::SetPart;

/// Name of the function.
pub(super) const LARGEST_BLOCKS: &str = "largest_blocks";

/// The most rows that LIMIT takes.
const MOST: u64 = i64::MAX as u64;

/// Blocks of each alternative, unless a call says another number.
const BLOCKS: u64 = 10;

/// `largest_blocks(table, condition [, number])`: the values that most rows share, for each alternative of a condition
/// over two rows.
///
/// Rows that agree in all equalities of an alternative are a block, and each pair of them is compared. For an
/// alternative without equalities, the tokens of its sets are listed instead. For pairs of rows of two tables, both
/// tables come first. The condition is one over `a` and `b`, or the name of a matching rule. `number` is how many are
/// listed for each alternative, 10 by default.
///
/// | column | meaning |
/// |---|---|
/// | `clause` | the number of the alternative, from 1 |
/// | `kind` | `block` or `token` |
/// | `part` | the equalities, or the condition on sets |
/// | `value` | the value that the rows share; several values have commas between them |
/// | `left_rows`, `right_rows` | how many rows have it |
/// | `pairs` | how many pairs these rows make |
///
/// The numbers are exact. Pairs of one table are two different rows in whatever order. Where the two sides of an
/// equality are different expressions, both orders count, and so does a row with itself.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct LargestBlocksFunction;

impl TableFunctionImpl for LargestBlocksFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), LARGEST_BLOCKS)?;
        let usage = format!("as in {LARGEST_BLOCKS}('people', 'a.city = b.city'); a number of blocks may follow");
        let (tables, more, place) = OneOrTwo::read(LARGEST_BLOCKS, args.exprs(), &usage, state)?;
        let number = match more {
            [] => BLOCKS,
            [number] => {
                Argument { function: LARGEST_BLOCKS, place, what: "the number of blocks" }.positive(number)?.min(MOST)
            }
            _ => return plan_err!("{LARGEST_BLOCKS} takes at most {place} arguments, {usage}"),
        };
        let blocks = Blocks { tables: &tables, state };
        let mut lists = Vec::new();
        for (at, blocking) in tables.condition.blocking(state).into_iter().enumerate() {
            let clause = at + 1;
            if !blocking.equal.is_empty() {
                lists.push(blocks.of_values(clause, &blocking.equal, number)?);
                continue;
            }
            for set in &blocking.sets {
                lists.push(blocks.of_tokens(clause, set, number)?);
            }
        }
        if lists.is_empty() {
            lists.push(
                "(SELECT CAST(0 AS BIGINT) AS clause, '' AS kind, '' AS part, '' AS value, CAST(0 AS BIGINT) AS \
                 left_rows, CAST(0 AS BIGINT) AS right_rows, CAST(0 AS BIGINT) AS pairs WHERE false)"
                    .to_owned(),
            );
        }
        Query { function: LARGEST_BLOCKS, text: lists.join(" UNION ALL ") }.view(state)
    }
}

/// The tables that are counted.
struct Blocks<'a> {
    tables: &'a OneOrTwo,
    state: &'a SessionState,
}

impl Blocks<'_> {
    /// The blocks of some equalities.
    fn of_values(&self, clause: usize, equal: &[[String; 2]], number: u64) -> Result<String> {
        let part: Vec<String> = equal.iter().map(|[left, right]| format!("{left} = {right}")).collect();
        let part = part.join(" AND ");
        let counts = |side: usize, relation: &str| {
            let keys: Vec<String> =
                equal.iter().enumerate().map(|(at, sides)| format!("{} AS k{at}", sides[side])).collect();
            let places: Vec<String> = (1..=equal.len()).map(|at| at.to_string()).collect();
            let row = ["a", "b"][side];
            format!(
                "(SELECT {}, count(*) AS n FROM {relation} AS {row} GROUP BY {})",
                keys.join(", "),
                places.join(", ")
            )
        };
        let each = |of: fn(usize) -> String, between: &str| (0..equal.len()).map(of).collect::<Vec<_>>().join(between);
        let value = format!("concat_ws(', ', {})", each(|at| format!("CAST(l.k{at} AS VARCHAR)"), ", "));
        // an AND may be the same both ways round where its parts are not
        let of_one_side = |[left, right]: &[String; 2]| self.is_of_one_side(&format!("{left} = {right}"));
        let rows = match equal.iter().all(of_one_side) {
            true => Counted::OneSide {
                counts: counts(0, &self.tables.left),
                present: each(|at| format!("l.k{at} IS NOT NULL"), " AND "),
            },
            false => Counted::TwoSides {
                counts: [counts(0, &self.tables.left), counts(1, self.tables.of_b())],
                on: each(|at| format!("l.k{at} = r.k{at}"), " AND "),
            },
        };
        Ok(list(clause, "block", &part, &value, rows, number))
    }

    /// The tokens of a condition on sets.
    fn of_tokens(&self, clause: usize, set: &SetPart, number: u64) -> Result<String> {
        let counts = |side: usize, relation: &str| -> Result<String> {
            let (row, of) = (["a", "b"][side], &set.sides[side]);
            let query = format!("SELECT {of} AS s FROM {relation} AS {row}");
            let plan = Query { function: LARGEST_BLOCKS, text: query.clone() }.plan(self.state)?;
            let is_text = match plan.schema().field(0).data_type() {
                DataType::Dictionary(_, values) => values.is_string(),
                other => other.is_string(),
            };
            let tokens = match is_text {
                true => format!("array_distinct(qgrams(s, {}))", set.q.as_deref().unwrap_or("1")),
                false => "array_distinct(s)".to_owned(),
            };
            Ok(format!("(SELECT k, count(*) AS n FROM (SELECT unnest({tokens}) AS k FROM ({query})) GROUP BY k)"))
        };
        let left = counts(0, &self.tables.left)?;
        let rows = match self.is_of_one_side(&set.sql) {
            true => Counted::OneSide { counts: left, present: "l.k IS NOT NULL".into() },
            false => Counted::TwoSides { counts: [left, counts(1, self.tables.of_b())?], on: "l.k = r.k".into() },
        };
        Ok(list(clause, "token", &set.sql, "CAST(l.k AS VARCHAR)", rows, number))
    }

    /// Whether either row of a pair is counted by the same expressions of the same table.
    fn is_of_one_side(&self, part: &str) -> bool {
        self.tables.right.is_none() && is_symmetric(LARGEST_BLOCKS, &self.tables.left, part, self.state)
    }
}

/// Values with the number of their rows, as they can stand in FROM.
enum Counted {
    OneSide { counts: String, present: String },
    TwoSides { counts: [String; 2], on: String },
}

fn list(clause: usize, kind: &str, part: &str, value: &str, rows: Counted, number: u64) -> String {
    let (right, pairs, from) = match rows {
        Counted::OneSide { counts, present } => {
            ("l", "l.n * (l.n - 1) / 2", format!("{counts} AS l WHERE {present} AND l.n > 1"))
        }
        Counted::TwoSides { counts: [left, right], on } => {
            ("r", "l.n * r.n", format!("{left} AS l JOIN {right} AS r ON {on}"))
        }
    };
    format!(
        "(SELECT CAST({clause} AS BIGINT) AS clause, '{kind}' AS kind, {} AS part, {value} AS value, l.n AS left_rows, \
         {right}.n AS right_rows, {pairs} AS pairs FROM {from} ORDER BY pairs DESC, value LIMIT {number})",
        quoted(part)
    )
}
