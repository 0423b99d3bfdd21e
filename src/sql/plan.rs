//! Plans and data frames from SQL text that may say SIMILARITY JOIN and name matching rules.

use datafusion::common::{Result, not_impl_err, plan_datafusion_err, plan_err};
use datafusion::config::SqlParserOptions;
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::{SQLOptions, SessionState};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;

use super::dml;
use super::hints::with_hint;
use super::statements::StatementText;
use crate::functions::contract;

/// Data frame of a statement that may say SIMILARITY JOIN, use matching rules or be about them; otherwise it is
/// [`SessionContext::sql`].
///
/// # Errors
/// Errors of [`SessionContext::sql`]. Syntax errors and unknown rules point into the text; DDL and DML statements are
/// executed at once.
pub async fn sql(ctx: &SessionContext, sql: &str) -> Result<DataFrame> {
    sql_with_options(ctx, sql, SQLOptions::new()).await
}

/// Data frame of a statement that may say SIMILARITY JOIN; otherwise it is [`SessionContext::sql_with_options`].
///
/// # Errors
/// Errors of [`sql`], and a planning error for statements that `options` do not allow.
pub async fn sql_with_options(ctx: &SessionContext, sql: &str, options: SQLOptions) -> Result<DataFrame> {
    if let Some(statement) = StatementText::new(sql).own_statement(&parser_options(ctx))? {
        return statement.run_with_options(ctx, options).await;
    }
    let plan = logical_plan(&ctx.state(), sql).await?;
    options.verify_plan(&plan)?;
    ctx.execute_logical_plan(plan).await
}

/// Logical plan of a statement that may say SIMILARITY JOIN and use matching rules; otherwise it is
/// [`SessionState::create_logical_plan`].
///
/// # Errors
/// Syntax and planning errors; also for a statement about matching rules or similarity indexes, and where the session
/// does not know similarity joins at all.
pub async fn logical_plan(state: &SessionState, sql: &str) -> Result<LogicalPlan> {
    let text = StatementText::new(sql);
    if text.own_statement(&state.config_options().sql_parser)?.is_some() {
        return not_impl_err!(
            "a statement about matching rules or similarity indexes has no plan; run it with `similarity_sql` or \
             `sql::sql`"
        );
    }
    let mut parsed = text.parsed_for(state)?;
    if parsed.statements.len() > 1 {
        return not_impl_err!("the text holds {} SQL statements; run them one by one", parsed.statements.len());
    }
    let mut statement =
        parsed.statements.pop_front().ok_or_else(|| plan_datafusion_err!("the text holds no SQL statement"))?;
    if parsed.joins > 0 && !state.scalar_functions().contains_key(contract::NAME) {
        return plan_err!(
            "this session does not know SIMILARITY JOIN and NEAREST; build its state `with_similarity()` or call \
             `enable_similarity()`"
        );
    }
    let deletes = dml::normalise(&mut statement);
    let plan = state.statement_to_plan(statement).await.map_err(with_hint)?;
    let plan = if deletes { dml::as_delete(plan)? } else { plan };
    Ok(if parsed.joins > 0 || parsed.rules { with_definition(plan, sql) } else { plan })
}

fn parser_options(ctx: &SessionContext) -> SqlParserOptions {
    ctx.state_ref().read().config_options().sql_parser.clone()
}

/// A view is defined by what its author wrote, not by what the parser was given.
fn with_definition(plan: LogicalPlan, sql: &str) -> LogicalPlan {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateView(mut view)) => {
            view.definition = Some(sql.trim().trim_end_matches(';').trim_end().to_string());
            LogicalPlan::Ddl(DdlStatement::CreateView(view))
        }
        plan => plan,
    }
}
