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

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{
    DataFusionError, Result, ScalarValue, SchemaError, TableReference, plan_datafusion_err, plan_err,
};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::FutureExt;

use super::error::syntax_error;
use super::plan::logical_plan;
use super::ranking::as_condition;
use super::statements::{StatementText, dialect, tokenize};

/// The name of the table function.
pub(crate) const NEAREST: &str = "nearest";

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
        let Some(state) = args.session().as_any().downcast_ref::<SessionState>() else {
            return plan_err!(
                "{NEAREST} plans a join and needs a session of DataFusion itself, not one behind an interface"
            );
        };
        let join = NearestJoin::read(args.exprs(), state)?;
        let plan = with_unique_names(join.plan(state)?)?;
        Ok(Arc::new(ViewTable::new(plan, Some(join.0))))
    }
}

/// The text of the join.
struct NearestJoin(String);

impl NearestJoin {
    fn read(args: &[Expr], state: &SessionState) -> Result<Self> {
        let ([left, right, rows, ranking], join_type) = match args {
            [left, right, rows, ranking] => ([left, right, rows, ranking], "INNER"),
            [left, right, rows, ranking, kind] => ([left, right, rows, ranking], join_type(kind)?),
            _ => {
                return plan_err!(
                    "{NEAREST} takes 4 or 5 arguments, not {}: a left and a right table, a number of rows, a ranking and a \
                     join type, as in {NEAREST}('customers c', 'shops s', 3, 'DISTANCE l2_distance(c.place, s.place)', 'left')",
                    args.len()
                );
            }
        };
        let options = &state.config_options().sql_parser;
        let (dialect, recursion_limit) = (dialect(options)?, options.recursion_limit.get());
        let [left, right] = [(left, Argument::Left), (right, Argument::Right)].map(|(expr, argument)| {
            let text = argument.text(expr, "a table in quotes, as in 'shops s'")?;
            table(text, dialect.as_ref(), recursion_limit).map_err(|error| argument.blamed(error))?;
            Ok::<_, DataFusionError>(text)
        });
        let (left, right, rows) = (left?, right?, number(rows)?);
        let ranking =
            Argument::Ranking.text(ranking, "what follows BY, as in 'DISTANCE abs(a.x - b.x) ON a.k = b.k'")?;
        let condition = as_condition(ranking, rows, dialect.as_ref(), recursion_limit)
            .map_err(|error| Argument::Ranking.blamed(error))?;
        // a piece may end in a comment
        Ok(Self(format!("SELECT * FROM\n{left}\n{join_type} JOIN\n{right}\n{condition}")))
    }

    /// Plans the join at once: a table function has a schema as soon as it is named, and no time to wait for anybody.
    fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        match logical_plan(state, &self.0).now_or_never() {
            Some(planned) => planned.map_err(|error| self.missing_table(state).unwrap_or_else(|| explained(error))),
            None => match self.missing(state) {
                Some(missing) => plan_err!(
                    "{NEAREST} finds no table {missing} in the session, and cannot wait for a catalog that may look it \
                     up elsewhere; make a table or view of the session from it, and name that"
                ),
                None => plan_err!(
                    "{NEAREST} cannot wait for a catalog that looks up its tables elsewhere; make a table or view of \
                     the session from them, and name that"
                ),
            },
        }
    }

    /// The error for a table that the session does not have.
    fn missing_table(&self, state: &SessionState) -> Option<DataFusionError> {
        let missing = self.missing(state)?;
        Some(plan_datafusion_err!(
            "{NEAREST} finds no table {missing} in the session; it sees tables and views, but no common table \
             expression of the query around it: write that as (SELECT ..) in the argument, or make a view of it"
        ))
    }

    /// The first table that the session does not have.
    fn missing(&self, state: &SessionState) -> Option<TableReference> {
        let statement = StatementText::new(&self.0).parsed_for(state).ok()?.statements.pop_front()?;
        let is_missing = |table: &TableReference| {
            let exists = state.schema_for_ref(table.clone()).is_ok_and(|schema| schema.table_exist(table.table()));
            !exists && !state.table_functions().contains_key(table.table())
        };
        state.resolve_table_references(&statement).ok()?.into_iter().find(is_missing)
    }
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

/// The arguments that are texts.
#[derive(Clone, Copy)]
enum Argument {
    Left,
    Right,
    Ranking,
    JoinType,
}

impl Argument {
    fn name(self) -> &'static str {
        match self {
            Self::Left => "argument 1 of nearest, the left table",
            Self::Right => "argument 2 of nearest, the right table",
            Self::Ranking => "argument 4 of nearest, the ranking",
            Self::JoinType => "argument 5 of nearest, the join type",
        }
    }

    fn text<'a>(self, expr: &'a Expr, expected: &str) -> Result<&'a str> {
        match expr {
            Expr::Literal(value, _) => value.try_as_str().flatten(),
            _ => None,
        }
        .ok_or_else(|| plan_datafusion_err!("{} takes a constant text: {expected}", self.name()))
    }

    fn blamed(self, error: DataFusionError) -> DataFusionError {
        error.context(self.name())
    }
}

fn join_type(expr: &Expr) -> Result<&'static str> {
    let expected = "'inner' or 'left'";
    match Argument::JoinType.text(expr, expected)?.to_ascii_lowercase().as_str() {
        "inner" => Ok("INNER"),
        "left" => Ok("LEFT"),
        _ => plan_err!("{} is {expected}", Argument::JoinType.name()),
    }
}

fn number(expr: &Expr) -> Result<u64> {
    let number = match expr {
        Expr::Literal(value, _) if value.data_type().is_integer() => value.cast_to(&DataType::UInt64).ok(),
        _ => None,
    };
    match number {
        Some(ScalarValue::UInt64(Some(number))) if number > 0 => Ok(number),
        _ => plan_err!("argument 3 of nearest is a positive whole number of rows, as in 3"),
    }
}

/// Fails unless `text` is what can stand in FROM, once.
fn table(text: &str, dialect: &dyn Dialect, recursion_limit: usize) -> Result<()> {
    let tokens = tokenize(text, dialect).map_err(ParserError::from)?;
    let mut parser = Parser::new(dialect).with_recursion_limit(recursion_limit).with_tokens_with_locations(tokens);
    parser.parse_table_factor()?;
    match parser.peek_token() {
        end if end.token == Token::EOF => Ok(()),
        more => Err(syntax_error("a table ends before this, with or without an alias", more.span)),
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
