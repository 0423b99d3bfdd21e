//! `nearest(..)`: NEAREST as a table function, for text that the stock parser reads (`SessionContext::sql`, Python,
//! Flight SQL).
//!
//! ```sql
//! SELECT * FROM nearest('customers c', 'shops s', 3,
//!     'DISTANCE l2_distance(c.place, s.place) ON c.country = s.country', 'left')
//! ```
//!
//! The arguments are pieces of the join that they stand for, `customers c LEFT JOIN shops s NEAREST 3 BY DISTANCE ..`:
//! the parser has read each of them whole, and nothing but it, before they are put together. The function is a view
//! over that join, so that it is planned as part of its query, by the same rules.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, SchemaError, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::arguments::Argument;
use super::query::{Query, check_relation, session};
use crate::sql::{as_condition, dialect};

/// The name of the table function.
pub(super) const NEAREST: &str = "nearest";

/// `nearest(left, right, rows, ranking [, join type])`: each row of `left` with its best `rows` of `right`.
///
/// `left` and `right` are texts that can stand in FROM: a table or a view with or without an alias, or a query in
/// parentheses with an alias. `ranking` is what follows BY in the clause; the join type is `'inner'` (by default) or
/// `'left'`. The columns are those of the join, in order, under the names that they have in their tables; where an
/// earlier column has the name, `_right` is appended.
///
/// # Errors
/// A planning error that names the argument: it is no constant, the parser cannot read it (line and column are those
/// within the argument), or a table is not to be had without waiting for its catalog; and whatever the join itself
/// would be refused for.
#[derive(Debug)]
pub struct NearestFunction;

impl TableFunctionImpl for NearestFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), NEAREST)?;
        let join = read(args.exprs(), state)?;
        let plan = with_unique_names(join.plan(state).map_err(explained)?)?;
        Ok(Arc::new(ViewTable::new(plan, Some(join.text))))
    }
}

const LEFT: Argument = Argument { function: NEAREST, place: 1, what: "the left table" };
const RIGHT: Argument = Argument { function: NEAREST, place: 2, what: "the right table" };
const ROWS: Argument = Argument { function: NEAREST, place: 3, what: "the number of rows" };
const RANKING: Argument = Argument { function: NEAREST, place: 4, what: "the ranking" };
const JOIN_TYPE: Argument = Argument { function: NEAREST, place: 5, what: "the join type" };

/// The join that the arguments ask for.
fn read(args: &[Expr], state: &SessionState) -> Result<Query> {
    let ([left, right, rows, ranking], join_type) = match args {
        [left, right, rows, ranking] => ([left, right, rows, ranking], "INNER"),
        [left, right, rows, ranking, kind] => {
            let kinds = [("inner", "INNER"), ("left", "LEFT")];
            ([left, right, rows, ranking], JOIN_TYPE.one_of(kind, &kinds)?)
        }
        _ => {
            return plan_err!(
                "{NEAREST} takes 4 or 5 arguments, not {}: a left and a right table, a number of rows, a ranking and a \
                 join type, as in {NEAREST}('customers c', 'shops s', 3, 'DISTANCE l2_distance(c.place, s.place)', \
                 'left')",
                args.len()
            );
        }
    };
    let [left, right] = [(left, LEFT), (right, RIGHT)].map(|(expr, argument)| {
        let text = argument.text(expr, "a table in quotes, as in 'shops s'")?;
        check_relation(text, &argument, state).map(|()| text)
    });
    let (left, right, rows) = (left?, right?, ROWS.positive(rows)?);
    let ranking = RANKING.text(ranking, "what follows BY, as in 'DISTANCE abs(a.x - b.x) ON a.k = b.k'")?;
    let options = &state.config_options().sql_parser;
    let condition = as_condition(ranking, rows, dialect(options)?.as_ref(), options.recursion_limit.get())
        .map_err(|error| RANKING.blamed(error))?;
    // a piece may end in a comment
    let text = format!("SELECT * FROM\n{left}\n{join_type} JOIN\n{right}\n{condition}");
    Ok(Query { function: NEAREST, text })
}

/// Says what to do about two tables of one name.
fn explained(error: DataFusionError) -> DataFusionError {
    let same_name = matches!(
        error.find_root(),
        DataFusionError::SchemaError(cause, _) if matches!(**cause, SchemaError::DuplicateQualifiedField { .. })
    );
    match same_name {
        true => error.context("nearest needs two names for its tables, as in 'shops a' and 'shops b'"),
        false => error,
    }
}

/// The columns of `plan`, each under a name of its own.
fn with_unique_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut names = HashSet::new();
    let columns = plan.schema().columns().into_iter().map(|column| {
        let mut name = column.name.clone();
        while names.contains(&name) {
            name.push_str("_right");
        }
        names.insert(name.clone());
        if name == column.name { Expr::Column(column) } else { Expr::Column(column).alias(name) }
    });
    let columns: Vec<_> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
