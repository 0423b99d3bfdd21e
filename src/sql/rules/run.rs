//! Executes the statements about matching rules.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::prelude::SessionContext;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::Expr;

use super::catalog::RuleCatalog;
use super::expand::Calls;
use super::import::import;
use super::pair_value;
use super::rule::Rule;
use super::statement::{Action, Body, Create, RuleStatement, Side};
use crate::sql::error::planning_error;
use crate::sql::reader::verify_ddl;
use crate::sql::visit::visit_expr;

impl RuleStatement {
    /// Executes the statement at once; only SHOW has a result.
    ///
    /// # Errors
    /// A planning error for a rule that exists, does not exist or cannot be understood, and for rule files that
    /// cannot be read.
    pub async fn run(self, ctx: &SessionContext) -> Result<DataFrame> {
        self.run_with_options(ctx, SQLOptions::new()).await
    }

    /// Runs the statement as [`run`](Self::run) does, if `options` allow DDL or the statement is no DDL.
    ///
    /// # Errors
    /// A planning error, also for what `options` do not allow; see [`run`](Self::run).
    pub async fn run_with_options(self, ctx: &SessionContext, options: SQLOptions) -> Result<DataFrame> {
        let config = ctx.copied_config();
        let rules = RuleCatalog::of(&config)?;
        let normalizer = IdentNormalizer::new(config.options().sql_parser.enable_ident_normalization);
        match self.action {
            Action::Show => return ctx.read_batch(listing(&rules)?),
            Action::Drop { name, if_exists } => {
                verify_ddl(&options, "DROP MATCHING RULE")?;
                rules.remove(&normalizer.normalize(name), if_exists)?;
            }
            Action::Create(create) => {
                verify_ddl(&options, "CREATE MATCHING RULE")?;
                let (name, replace) = (normalizer.normalize(create.name.clone()), create.replace);
                rules.add(&name, rule(*create, ctx, &rules, &normalizer).await?, replace)?;
            }
        }
        Ok(DataFrame::new(ctx.state(), LogicalPlanBuilder::empty(false).build()?))
    }
}

async fn rule(create: Create, ctx: &SessionContext, rules: &RuleCatalog, normalizer: &IdentNormalizer) -> Result<Rule> {
    let Create { left, right, body, .. } = create;
    if normalizer.normalize(left.name.clone()) == normalizer.normalize(right.name.clone()) {
        return Err(planning_error("the two rows of a matching rule need two names, as in ON t, s", right.name.span));
    }
    let condition = match body {
        Body::Files(path) => import(ctx, &path, &left, &right).await?,
        Body::Condition(condition) => {
            [&left, &right].into_iter().try_for_each(is_name_only)?;
            let mut condition = expanded(*condition, rules)?;
            pair_value::check(&mut condition, &ctx.state())?;
            condition
        }
    };
    Rule::try_new(left.name, right.name, condition, normalizer)
}

fn is_name_only(side: &Side) -> Result<()> {
    match side.table.0.as_slice() {
        [only] if only.as_ident() == Some(&side.name) => Ok(()),
        _ => Err(planning_error(
            "a matching rule with a condition fits any table: ON takes nothing but two names for the rows, as in \
             ON t, s",
            side.name.span,
        )),
    }
}

/// The condition of a rule that may call other rules.
fn expanded(mut condition: Expr, rules: &RuleCatalog) -> Result<Expr> {
    visit_expr(&mut condition, &mut Calls::new(rules, &HashMap::new(), None))?;
    Ok(condition)
}

fn listing(rules: &RuleCatalog) -> Result<RecordBatch> {
    let (names, rules): (Vec<_>, Vec<_>) = rules.all().into_iter().unzip();
    let each = |of: fn(&Rule) -> String| rules.iter().map(|rule| of(rule)).collect();
    let texts = |values: Vec<String>| Arc::new(StringArray::from(values)) as ArrayRef;
    let clauses: Int64Array = rules.iter().map(|rule| i64::try_from(rule.clauses().len()).ok()).collect();
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("name", texts(names), false),
        ("left", texts(each(|rule| rule.left().value.clone())), false),
        ("right", texts(each(|rule| rule.right().value.clone())), false),
        ("clauses", Arc::new(clauses) as ArrayRef, false),
        ("definition", texts(each(|rule| rule.condition().to_string())), false),
    ])?)
}
