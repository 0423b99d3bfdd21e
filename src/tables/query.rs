//! Pieces of SQL in the arguments of table functions, and the query that they are put together to.

use std::sync::Arc;

use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, TableReference, plan_datafusion_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use futures::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::arguments::Argument;
use crate::predicate::{self, Sides};
use crate::sql::{StatementText, dialect, logical_plan, syntax_error, tokenize};

/// The session of DataFusion itself that a table function plans its query in.
///
/// # Errors
/// A session behind an interface, which has no planner.
pub(super) fn session<'a>(session: &'a dyn Session, function: &str) -> Result<&'a SessionState> {
    session.as_any().downcast_ref::<SessionState>().ok_or_else(|| {
        plan_datafusion_err!(
            "{function} plans a query and needs a session of DataFusion itself, not one behind an interface"
        )
    })
}

/// Fails unless the text of an argument is what can stand in FROM, once.
///
/// # Errors
/// A syntax error with line and column within the argument.
pub(super) fn check_relation(text: &str, argument: &Argument, state: &SessionState) -> Result<()> {
    parse_relation(text, state).map_err(|error| argument.blamed(error))
}

fn parse_relation(text: &str, state: &SessionState) -> Result<()> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect(options)?;
    let tokens = tokenize(text, dialect.as_ref()).map_err(ParserError::from)?;
    let limit = options.recursion_limit.get();
    let mut parser = Parser::new(dialect.as_ref()).with_recursion_limit(limit).with_tokens_with_locations(tokens);
    parser.parse_table_factor()?;
    match parser.peek_token() {
        end if end.token == Token::EOF => Ok(()),
        more => Err(syntax_error("a table ends before this, with or without an alias", more.span)),
    }
}

/// The text of an argument that is a table, a view or a query, as it can stand in FROM before an alias.
///
/// # Errors
/// A syntax error; an alias, since the function gives one itself.
pub(super) fn relation(text: &str, argument: &Argument, state: &SessionState) -> Result<String> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect(options)?;
    let blamed = |error| argument.blamed(error);
    let tokens = tokenize(text, dialect.as_ref()).map_err(ParserError::from).map_err(|error| blamed(error.into()))?;
    let first = tokens.iter().find_map(|token| match &token.token {
        Token::Whitespace(_) => None,
        Token::Word(word) => Some(word.keyword),
        _ => Some(Keyword::NoKeyword),
    });
    // a piece may end in a comment
    let is_query = matches!(first, Some(Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::TABLE));
    let text = if is_query { format!("(\n{text}\n)") } else { text.to_owned() };
    parse_relation(&format!("{text}\nAS x"), state).map_err(|error| {
        let alias = parse_relation(&text, state).is_ok();
        blamed(if alias { plan_datafusion_err!("it has an alias, which the function gives itself") } else { error })
    })?;
    Ok(format!("{text}\n"))
}

/// Fails unless the text of an argument is one expression.
///
/// # Errors
/// A syntax error with line and column within the argument.
pub(super) fn check_expression(text: &str, argument: &Argument, state: &SessionState) -> Result<()> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect(options)?;
    let parse = || -> Result<()> {
        let tokens = tokenize(text, dialect.as_ref()).map_err(ParserError::from)?;
        let limit = options.recursion_limit.get();
        let mut parser = Parser::new(dialect.as_ref()).with_recursion_limit(limit).with_tokens_with_locations(tokens);
        parser.parse_expr()?;
        match parser.peek_token() {
            end if end.token == Token::EOF => Ok(()),
            more => Err(syntax_error("an expression ends before this", more.span)),
        }
    };
    parse().map_err(|error| argument.blamed(error))
}

/// A column by its name, as it can stand after `alias.` in SQL.
///
/// # Errors
/// An expression that is no constant text, or a text that is not one name.
pub(super) fn column_name(expr: &Expr, argument: &Argument, state: &SessionState) -> Result<String> {
    let text = argument.text(expr, "the name of a column, as in 'id'")?;
    let dialect = dialect(&state.config_options().sql_parser)?;
    let name = Parser::new(dialect.as_ref()).try_with_sql(text).and_then(|mut parser| {
        let name = parser.parse_identifier()?;
        parser.expect_token(&Token::EOF).map(|_| name)
    });
    name.map(|name| name.to_string()).map_err(|error| argument.blamed(error.into()))
}

/// Whether a condition over rows `a` and `b` of one `table` surely holds for both orders of two rows or for none. Of a
/// condition that is refused nothing is sure: the query that asks it says why.
pub(super) fn is_symmetric(function: &'static str, table: &str, condition: &str, state: &SessionState) -> bool {
    let text = format!("SELECT {condition} FROM {table} AS a CROSS JOIN {table} AS b");
    let Ok(LogicalPlan::Projection(projection)) = (Query { function, text }).plan(state) else { return false };
    match (projection.input.as_ref(), projection.expr.as_slice()) {
        (LogicalPlan::Join(join), [condition]) => {
            predicate::is_symmetric(condition, Sides { left: join.left.schema(), right: join.right.schema() })
        }
        _ => false,
    }
}

/// A text as a constant of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The name of a column as it can stand in SQL.
pub(crate) fn quoted_column(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A query that a table function stands for.
pub(super) struct Query {
    /// The table function.
    pub function: &'static str,
    /// The text.
    pub text: String,
}

impl Query {
    /// Plans the query at once: a table function has a schema as soon as it is named.
    ///
    /// A catalog that looks its tables up elsewhere is waited for where other threads of the runtime go on meanwhile.
    ///
    /// # Errors
    /// Whatever the query is refused for, tables that the session does not have first of all.
    pub fn plan(&self, state: &SessionState) -> Result<LogicalPlan> {
        let planned = logical_plan(state, &self.text).now_or_never().or_else(|| self.plan_on_a_thread(state));
        match planned {
            Some(planned) => planned.map_err(|error| self.missing_table(&error, state).unwrap_or(error)),
            None => Err(self.waiting(state)),
        }
    }

    /// Plans the query on a thread of its own, none where the runtime has no second thread to go on with.
    fn plan_on_a_thread(&self, state: &SessionState) -> Option<Result<LogicalPlan>> {
        let runtime = Handle::try_current().ok()?;
        let goes_on = runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1;
        if !goes_on {
            return None;
        }
        std::thread::scope(|scope| {
            let planning = || runtime.block_on(logical_plan(state, &self.text));
            std::thread::Builder::new().spawn_scoped(scope, planning).ok()?.join().ok()
        })
    }

    /// The error for a catalog that answers later.
    fn waiting(&self, state: &SessionState) -> DataFusionError {
        let function = self.function;
        match self.missing(state) {
            Some(missing) => plan_datafusion_err!(
                "{function} finds no table {missing} in the session, and cannot wait for a catalog that may look it up \
                 elsewhere; make a table or view of the session from it, and name that"
            ),
            None => plan_datafusion_err!(
                "{function} cannot wait for a catalog that looks up its tables elsewhere; make a table or view of the \
                 session from them, and name that"
            ),
        }
    }

    /// The query as a view.
    ///
    /// # Errors
    /// Whatever the query is refused for.
    pub fn view(self, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(ViewTable::new(self.plan(state)?, Some(self.text))))
    }

    /// The error for a table that the session does not have, if that is what `error` is about.
    fn missing_table(&self, error: &DataFusionError, state: &SessionState) -> Option<DataFusionError> {
        let (missing, function) = (self.missing(state)?, self.function);
        // a file may be named instead of a table
        let found = error.strip_backtrace();
        if !(found.contains(missing.table()) && found.contains("not found")) {
            return None;
        }
        Some(plan_datafusion_err!(
            "{function} finds no table {missing} in the session; it sees tables and views, but no common table \
             expression of the query around it: write that as (SELECT ..) in the argument, or make a view of it"
        ))
    }

    /// The first table that the session does not have.
    fn missing(&self, state: &SessionState) -> Option<TableReference> {
        let is_missing = |table: &TableReference| {
            let exists = state.schema_for_ref(table.clone()).is_ok_and(|schema| schema.table_exist(table.table()));
            !exists && !state.table_functions().contains_key(table.table())
        };
        StatementText::new(&self.text).tables(state).into_iter().find(is_missing)
    }
}
