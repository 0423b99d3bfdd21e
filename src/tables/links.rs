//! `clusters(..)`, `one_to_one(..)`, `best_matches(..)` and `match_path(..)`: what the links between ids amount to.

use std::sync::Arc;

use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use similarity_engine::links::{Assignment, Method};

use super::arguments::Argument;
use super::query::{Query, quoted_column, relation, session};
use crate::exec::LinkTask;
use crate::optimizer::links;

/// Names of the functions.
pub(super) const CLUSTERS: &str = "clusters";
pub(super) const ONE_TO_ONE: &str = "one_to_one";
pub(super) const BEST_MATCHES: &str = "best_matches";
pub(super) const MATCH_PATH: &str = "match_path";

/// `clusters(links [, method [, largest]])`: the columns `id` and `cluster_id`, the smallest id of its cluster.
///
/// `links` is a table, a view or a query of two ids and, maybe, a score. The method is `'components'` (by default),
/// `'center'`, `'star'` or `'split'`, which takes the most members that a cluster may have.
///
/// An id comes out once. A link with one NULL end, or a NULL score, adds its ids without linking them.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct ClustersFunction;

impl TableFunctionImpl for ClustersFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), CLUSTERS)?;
        let [links, method @ ..] = args.exprs() else {
            return plan_err!(
                "{CLUSTERS} takes the links, a method and the largest size, as in {CLUSTERS}('SELECT id, other FROM pairs')"
            );
        };
        let method = read_method(CLUSTERS, 2, method)?;
        view(CLUSTERS, links, LinkTask::Clusters(method), state)
    }
}

/// The method of a clustering and its size, from the argument at `place` on.
pub(super) fn read_method(function: &'static str, place: usize, args: &[Expr]) -> Result<Method> {
    let largest = Argument { function, place: place + 1, what: "the most members of a cluster" };
    let method = Argument { function, place, what: "the method" };
    let methods = [
        ("components", Method::Components),
        ("center", Method::Center),
        ("star", Method::Star),
        ("split", Method::Split { largest: 0 }),
    ];
    match args {
        [] => Ok(Method::Components),
        [named, size @ ..] => match (method.one_of(named, &methods)?, size) {
            (Method::Split { .. }, [size]) => Ok(Method::Split { largest: largest.positive(size)? as usize }),
            (Method::Split { .. }, _) => {
                plan_err!("the method 'split' of {function} takes one more argument: {}", largest.what)
            }
            (method, []) => Ok(method),
            (_, more) => plan_err!("{function} takes no argument after this method, and not {} of them", more.len()),
        },
    }
}

/// `one_to_one(links [, method])`: the links that leave each id of either side with one partner at most.
///
/// The method is `'greedy'` (by default), which takes the best score first, or `'optimal'`, which makes the sum of all
/// scores as large as it can be. Links without a score count as 1. The ids of the two sides are different things.
///
/// # Errors
/// A planning error that names the argument; an optimal matching over more than 1,000 ids of a side that links connect.
#[derive(Debug)]
pub struct OneToOneFunction;

impl TableFunctionImpl for OneToOneFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), ONE_TO_ONE)?;
        let method = Argument { function: ONE_TO_ONE, place: 2, what: "the method" };
        let methods = [("greedy", Assignment::Greedy), ("optimal", Assignment::Optimal)];
        let (links, assignment) = match args.exprs() {
            [links] => (links, Assignment::Greedy),
            [links, named] => (links, method.one_of(named, &methods)?),
            _ => return plan_err!("{ONE_TO_ONE} takes the links and a method, 'greedy' or 'optimal'"),
        };
        view(ONE_TO_ONE, links, LinkTask::Matching(assignment), state)
    }
}

/// `best_matches(links [, side])`: the links of each id with its best partner.
///
/// The side is `'left'` (by default), `'right'`, or `'both'` for links that are the best of either end. Of two links
/// with one score, that to the smaller id is the better one. A link whose score is NULL is left out.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct BestMatchesFunction;

impl TableFunctionImpl for BestMatchesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), BEST_MATCHES)?;
        let side = Argument { function: BEST_MATCHES, place: 2, what: "the side" };
        let sides =
            [("left", "__of_left = 1"), ("right", "__of_right = 1"), ("both", "__of_left = 1 AND __of_right = 1")];
        let (links, condition) = match args.exprs() {
            [links] => (links, sides[0].1),
            [links, named] => (links, side.one_of(named, &sides)?),
            _ => return plan_err!("{BEST_MATCHES} takes the links and a side, 'left', 'right' or 'both'"),
        };
        let argument = Argument { function: BEST_MATCHES, place: 1, what: "the links" };
        let (links, columns) = link_query(links, &argument, state)?;
        let [left, right, score] = columns.as_slice() else {
            return plan_err!("{argument} have two ids and a score, not {} columns", columns.len());
        };
        let rank =
            |of: &str, other: &str| format!("row_number() OVER (PARTITION BY {of} ORDER BY {score} DESC, {other})");
        let text = format!(
            "SELECT {left}, {right}, {score} FROM (SELECT *, {} AS __of_left, {} AS __of_right FROM {links} \
             WHERE {left} IS NOT NULL AND {right} IS NOT NULL AND {score} IS NOT NULL) WHERE {condition}",
            rank(left, right),
            rank(right, left)
        );
        Query { function: BEST_MATCHES, text }.view(state)
    }
}

/// `match_path(links, from, to)`: the links that lead from one id to another, fewest first, as the columns `step`,
/// `from_id`, `to_id` and `score`; no rows where none do.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct MatchPathFunction;

impl TableFunctionImpl for MatchPathFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), MATCH_PATH)?;
        let [links, from, to] = args.exprs() else {
            return plan_err!("{MATCH_PATH} takes the links and two ids, as in {MATCH_PATH}('pairs', 1, 7)");
        };
        let [from, to] =
            [(from, 2, "where the path begins"), (to, 3, "where the path ends")].map(|(id, place, what)| match id {
                Expr::Literal(id, _) if !id.is_null() => Ok(id.clone()),
                _ => plan_err!("{} is a constant id", Argument { function: MATCH_PATH, place, what }),
            });
        let (from, to): (ScalarValue, ScalarValue) = (from?, to?);
        view(MATCH_PATH, links, LinkTask::Path { from, to }, state)
    }
}

fn view(function: &'static str, expr: &Expr, task: LinkTask, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(ViewTable::new(plan(function, expr, task, state)?, None)))
}

fn plan(function: &'static str, expr: &Expr, task: LinkTask, state: &SessionState) -> Result<LogicalPlan> {
    let argument = Argument { function, place: 1, what: "the links" };
    let text = argument.text(expr, EXPECTED)?;
    let text = format!("SELECT * FROM {}", relation(text, &argument, state)?);
    let query = Query { function, text }.plan(state).map_err(|error| argument.blamed(error))?;
    links(task, query).map_err(|error| argument.blamed(error))
}

const EXPECTED: &str = "a table, or a query such as 'SELECT id, other, score FROM pairs'";

/// Links as they can stand in FROM, and their columns as they can stand in SQL.
pub(super) fn link_query(expr: &Expr, argument: &Argument, state: &SessionState) -> Result<(String, Vec<String>)> {
    let links = relation(argument.text(expr, EXPECTED)?, argument, state)?;
    let columns = columns_of(&links, argument, state)?;
    Ok((links, columns))
}

/// The columns of what can stand in FROM, as they can stand in SQL.
pub(super) fn columns_of(relation: &str, argument: &Argument, state: &SessionState) -> Result<Vec<String>> {
    let query = Query { function: argument.function, text: format!("SELECT * FROM {relation}") };
    let plan = query.plan(state).map_err(|error| argument.blamed(error))?;
    Ok(plan.schema().fields().iter().map(|field| quoted_column(field.name())).collect())
}
