//! Functions over pairs of rows of one table, or of a row of either of two tables.

use datafusion::common::{Result, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr;

use super::arguments::Argument;
use super::duplicates::read_condition;
use super::query::{Query, relation};
use crate::sql::TwoRows;

/// One table or two, and a condition over a row `a` and a row `b`.
pub(super) struct OneOrTwo {
    /// The left table, as it can stand in FROM.
    pub left: String,
    /// The right table; none where both rows are of the left one.
    pub right: Option<String>,
    pub condition: TwoRows,
}

impl OneOrTwo {
    /// Reads one table or two and a condition, which are texts, and returns the arguments behind them with the place
    /// of the first one.
    ///
    /// # Errors
    /// A planning error that names the argument, or says `usage` where there are too few texts.
    pub fn read<'a>(
        function: &'static str,
        args: &'a [Expr],
        usage: &str,
        state: &SessionState,
    ) -> Result<(Self, &'a [Expr], usize)> {
        let is_text = |expr: &&Expr| matches!(expr, Expr::Literal(value, _) if value.data_type().is_string());
        let argument = |place, what| Argument { function, place, what };
        let table = |at: usize, what| {
            let of_table = argument(at + 1, what);
            relation(of_table.text(&args[at], "a table, or a query such as 'SELECT * FROM people'")?, &of_table, state)
        };
        let (left, right) = match args.iter().take_while(is_text).count() {
            2 => (table(0, "the table")?, None),
            3 => (table(0, "the left table")?, Some(table(1, "the right table")?)),
            _ => return plan_err!("{function} takes one or two tables and a condition over two rows a and b, {usage}"),
        };
        let at = if right.is_some() { 2 } else { 1 };
        let condition = read_condition(&args[at], &argument(at + 1, "the condition"), state)?;
        let tables = Self { left, right, condition };
        // planned as the user wrote it, so that an error is about that
        let join =
            format!("SELECT 1 FROM {} AS a JOIN {} AS b ON {}", tables.left, tables.of_b(), tables.condition.sql());
        Query { function, text: join }.plan(state)?;
        Ok((tables, &args[at + 1..], at + 2))
    }

    /// The table of the row `b`.
    pub fn of_b(&self) -> &str {
        self.right.as_ref().unwrap_or(&self.left)
    }
}
