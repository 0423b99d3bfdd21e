//! The rule of a task: from a file or from the command line, and taken apart into its clauses for the report.

use std::fs;
use std::path::Path;

use datafusion::common::{Result, exec_datafusion_err, plan_datafusion_err, plan_err};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use datafusion_similarity::sql::{self, ClauseText, OwnStatement, RuleCatalog, TwoRows};

use super::input::failed;
use super::options::Condition;
use super::query::{literal, query};
use crate::shell::parser_options;

/// A matching rule of the session.
#[derive(Debug)]
pub struct Rule {
    /// The name, as the argument of a call.
    pub name: String,
    /// What it says.
    pub definition: String,
    /// The clauses, in order.
    pub clauses: Vec<ClauseText>,
}

impl Rule {
    /// Makes the rule that the options name or spell out.
    ///
    /// # Errors
    /// A file that cannot be read, holds another statement or no rule, and a condition that is none.
    pub async fn read(ctx: &SessionContext, condition: &Condition) -> Result<Self> {
        match (&condition.rule, &condition.on) {
            (Some(path), _) => {
                let text = fs::read_to_string(path).map_err(|error| failed("cannot read", path, error))?;
                let made = run(ctx, &text, &path.display().to_string()).await;
                made.map_err(|error| error.context(path.display().to_string()))?;
                Self::of(ctx, &chosen(ctx, path, condition.rule_name.as_deref())?).await
            }
            (None, Some(on)) => {
                const NAME: &str = "condition";
                let text = format!("CREATE MATCHING RULE {NAME} ON a, b AS {on}");
                if sql::split(&text, &parser_options(ctx)).is_ok_and(|statements| statements.len() > 1) {
                    return plan_err!("--on takes one condition, not several statements");
                }
                run(ctx, &text, "--on").await.map_err(|error| error.context("--on"))?;
                Self::of(ctx, NAME).await
            }
            (None, None) => plan_err!("there is neither --rule nor --on"),
        }
    }

    async fn of(ctx: &SessionContext, name: &str) -> Result<Self> {
        let rules = query(ctx, "SHOW MATCHING RULES").await?;
        for row in 0..rules.len() {
            if rules.text(0, row)?.as_deref() != Some(name) {
                continue;
            }
            let definition = rules.text(4, row)?.unwrap_or_default();
            let clauses = TwoRows::read(name, &ctx.state())?.clauses();
            return Ok(Self { name: literal(name), definition, clauses });
        }
        Err(exec_datafusion_err!("there is no matching rule {name}"))
    }
}

/// Runs statements about rules, and no others.
async fn run(ctx: &SessionContext, text: &str, source: &str) -> Result<()> {
    let options = parser_options(ctx);
    for (at, statement) in sql::split(text.trim_start_matches('\u{feff}'), &options)?.into_iter().enumerate() {
        match statement.own_statement(&options)? {
            Some(OwnStatement::Rule(rule)) => rule.run(ctx).await?.collect().await?,
            _ => return plan_err!("statement {} of {source} is not about matching rules", at + 1),
        };
    }
    Ok(())
}

/// The rule of a file that is meant.
fn chosen(ctx: &SessionContext, path: &Path, name: Option<&str>) -> Result<String> {
    let names = RuleCatalog::of(&ctx.copied_config())?.names();
    let path = path.display();
    match (name, &names[..]) {
        (_, []) => plan_err!("{path} makes no rule; write CREATE MATCHING RULE r ON a, b AS a.name = b.name"),
        (Some(name), names) if names.iter().any(|known| known == name) => Ok(name.to_owned()),
        (Some(name), names) => plan_err!("{path} makes no rule {name}; it makes {}", names.join(", ")),
        (None, [only]) => Ok(only.clone()),
        (None, names) => plan_err!("{path} makes several rules: {}; choose one by --rule-name", names.join(", ")),
    }
}

/// Fails unless a text is one expression.
///
/// # Errors
/// A syntax error that names the option.
fn check_expression(ctx: &SessionContext, option: &str, text: &str) -> Result<()> {
    let dialect = dialect_from_str(parser_options(ctx).dialect);
    let dialect = dialect.unwrap_or_else(|| Box::new(GenericDialect {}));
    let parse = || {
        let mut parser = Parser::new(dialect.as_ref()).try_with_sql(text)?;
        parser.parse_expr()?;
        parser.expect_token(&Token::EOF).map(|_| ())
    };
    parse().map_err(|error| plan_datafusion_err!("{option} is no expression over two rows a and b: {error}"))
}

/// The score of two rows as it can stand in a query, 1 without one.
///
/// # Errors
/// A syntax error that names the option.
pub fn score_in_sql(ctx: &SessionContext, score: Option<&str>) -> Result<String> {
    let Some(score) = score else { return Ok("CAST(1 AS DOUBLE)".to_owned()) };
    check_expression(ctx, "--score", score)?;
    Ok(format!("CAST((\n{score}\n) AS DOUBLE)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_one_expression() {
        let ctx = SessionContext::new();
        assert!(check_expression(&ctx, "--score", "jaro(a.x, b.x) + 1").is_ok());
        for wrong in ["", "1) OR (1", "1; DROP TABLE x", "a.x b.x"] {
            let error = check_expression(&ctx, "--score", wrong).unwrap_err().to_string();
            assert!(error.contains("--score is no expression"), "{error}");
        }
    }
}
