//! `duplicates(..)` and `matches(..)`: from tables and a condition to entities, in one call.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr;
use similarity_engine::links::Method;

use super::arguments::Argument;
use super::links::{CLUSTERS, columns_of, read_method};
use super::query::{Query, check_expression, column_name, is_symmetric, quoted, relation, session};
use crate::sql::TwoRows;

/// Names of the functions.
pub(super) const DUPLICATES: &str = "duplicates";
pub(super) const MATCHES: &str = "matches";

/// `duplicates(table, id, condition [, score [, method [, largest]]])`: the rows of the table with their `cluster_id`,
/// the smallest id of the rows that are the same thing.
///
/// Two rows `a` and `b` are linked where `condition` holds for them one way round or the other; a matching rule is
/// named instead. `id` is a column whose values differ. `score` ranks the links for methods of
/// [`ClustersFunction`](super::ClustersFunction) that look at scores, `method` and `largest` are as there. A row that
/// is like no other one has its own id, a row whose id is NULL has none.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct DuplicatesFunction;

impl TableFunctionImpl for DuplicatesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), DUPLICATES)?;
        let [table, id, condition, more @ ..] = args.exprs() else {
            return plan_err!(
                "{DUPLICATES} takes a table, its id and a condition over two rows a and b, as in \
                 {DUPLICATES}('people', 'id', 'levenshtein(a.name, b.name) <= 1'); a score, a method and a size may \
                 follow"
            );
        };
        let argument = |place, what| Argument { function: DUPLICATES, place, what };
        let (of_table, of_id) = (argument(1, "the table"), argument(2, "the id"));
        let table =
            relation(of_table.text(table, "a table, or a query such as 'SELECT * FROM people'")?, &of_table, state)?;
        let id = column_name(id, &of_id, state)?;
        if columns_of(&table, &of_table, state)?.iter().any(|column| column == "\"cluster_id\"") {
            return plan_err!(
                "{of_table} has a column cluster_id already; leave it out, as in 'SELECT id, name FROM people'"
            );
        }
        let condition = read_condition(condition, &argument(3, "the condition"), state)?;
        let (score, method) = match more {
            [] => (None, more),
            [score, method @ ..] => (Some(read_score(score, &argument(4, "the score"), state)?), method),
        };
        let method = read_method(DUPLICATES, 5, method)?;
        // components look at no score, and a pair without one is a pair
        let score = score.filter(|_| method != Method::Components);
        let score = score.map(|score| format!(",\n{score}\n")).unwrap_or_default();
        // a pair that is linked either way round is looked at once
        let order = if is_symmetric(DUPLICATES, &table, &condition.sql(), state) { "<" } else { "<>" };
        let links = format!(
            "SELECT a.{id}, b.{id}{score} FROM {table} AS a JOIN {table} AS b ON ({}) AND a.{id} {order} b.{id}",
            condition.sql()
        );
        // planned by itself, so that an error is about what the user wrote
        Query { function: DUPLICATES, text: links.clone() }.plan(state)?;
        // the side on the left is the one that a join holds in memory
        let text = format!(
            "SELECT t.*, coalesce(c.cluster_id, t.{id}) AS cluster_id FROM {CLUSTERS}({}{method}) AS c \
             RIGHT JOIN {table} AS t ON c.id = t.{id}",
            quoted(&links),
            method = method_arguments(method),
        );
        Query { function: DUPLICATES, text }.view(state)
    }
}

/// `matches(left, right, left id, right id, condition [, score [, which]])`: the ids and the score of rows of two
/// tables that describe the same thing.
///
/// A left row `a` and a right row `b` are linked where `condition` holds for them; a matching rule is named instead.
/// `which` is `'all'` (by default), `'best'` for the best right row of each left one, `'mutual'` for links that are the
/// best of both ends, `'one-to-one'` or `'optimal'` as [`OneToOneFunction`](super::OneToOneFunction) has them. Without
/// a score every link counts 1.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct MatchesFunction;

impl TableFunctionImpl for MatchesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), MATCHES)?;
        let [left, right, left_id, right_id, condition, more @ ..] = args.exprs() else {
            return plan_err!(
                "{MATCHES} takes two tables, their ids and a condition over a left row a and a right row b, as in \
                 {MATCHES}('abt', 'buy', 'id', 'id', 'jaccard(a.words, b.words) >= 0.5'); a score may follow, and \
                 which \
                 links come out"
            );
        };
        let argument = |place, what| Argument { function: MATCHES, place, what };
        let table = |expr: &Expr, argument: Argument| -> Result<String> {
            relation(argument.text(expr, "a table, or a query such as 'SELECT * FROM people'")?, &argument, state)
        };
        let (left, right) =
            (table(left, argument(1, "the left table"))?, table(right, argument(2, "the right table"))?);
        let left_id = column_name(left_id, &argument(3, "the id of the left table"), state)?;
        let right_id = column_name(right_id, &argument(4, "the id of the right table"), state)?;
        let condition = read_condition(condition, &argument(5, "the condition"), state)?;
        let (score, which) = match more {
            [] => ("1.0".to_owned(), None),
            [score] => (read_score(score, &argument(6, "the score"), state)?, None),
            [score, which] => (read_score(score, &argument(6, "the score"), state)?, Some(which)),
            _ => return plan_err!("{MATCHES} takes 5 to 7 arguments, not {}", 5 + more.len()),
        };
        let ways = [
            ("all", None),
            ("best", Some("best_matches({}, 'left')")),
            ("mutual", Some("best_matches({}, 'both')")),
            ("one-to-one", Some("one_to_one({}, 'greedy')")),
            ("optimal", Some("one_to_one({}, 'optimal')")),
        ];
        let way = which.map(|which| argument(7, "which links come out").one_of(which, &ways)).transpose()?.flatten();
        let links = format!(
            "SELECT a.{left_id} AS left_id, b.{right_id} AS right_id, CAST((\n{score}\n) AS DOUBLE) AS score \
             FROM {left} AS a JOIN {right} AS b ON {}",
            condition.sql()
        );
        let all = Query { function: MATCHES, text: links };
        all.plan(state)?;
        match way {
            None => all.view(state),
            Some(way) => {
                let text = format!("SELECT * FROM {}", way.replace("{}", &quoted(&all.text)));
                Query { function: MATCHES, text }.view(state)
            }
        }
    }
}

/// What follows the links in a call of [`ClustersFunction`](super::ClustersFunction).
fn method_arguments(method: Method) -> String {
    match method {
        Method::Components => String::new(),
        Method::Center => ", 'center'".into(),
        Method::Star => ", 'star'".into(),
        Method::Split { largest } => format!(", 'split', {largest}"),
    }
}

/// A condition over two rows `a` and `b`.
pub(super) fn read_condition(expr: &Expr, argument: &Argument, state: &SessionState) -> Result<TwoRows> {
    let text = argument.text(expr, "a condition over two rows a and b, or the name of a matching rule")?;
    TwoRows::read(text, state).map_err(|error| argument.blamed(error))
}

fn read_score(expr: &Expr, argument: &Argument, state: &SessionState) -> Result<String> {
    let text = argument.text(expr, "an expression over two rows a and b, as in 'jaro_similarity(a.name, b.name)'")?;
    check_expression(text, argument, state)?;
    Ok(text.to_owned())
}
