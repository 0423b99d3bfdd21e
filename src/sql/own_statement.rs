//! Statements of this crate that have no plan: they are executed at once.

use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;

use super::indexes::IndexStatement;
use super::rules::RuleStatement;

/// A statement that the stock parser does not know.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnStatement {
    /// One about matching rules.
    Rule(RuleStatement),
    /// One about similarity indexes.
    Index(IndexStatement),
}

impl OwnStatement {
    /// Executes the statement at once; only SHOW has a result.
    ///
    /// # Errors
    /// A planning error for a rule or an index that exists, does not exist or cannot be understood.
    pub async fn run(self, ctx: &SessionContext) -> Result<DataFrame> {
        self.run_with_options(ctx, SQLOptions::new()).await
    }

    /// Runs the statement as [`run`](Self::run) does, if `options` allow DDL or the statement is no DDL.
    ///
    /// # Errors
    /// A planning error, also for what `options` do not allow; see [`run`](Self::run).
    pub async fn run_with_options(self, ctx: &SessionContext, options: SQLOptions) -> Result<DataFrame> {
        match self {
            Self::Rule(statement) => statement.run_with_options(ctx, options).await,
            Self::Index(statement) => statement.run_with_options(ctx, options).await,
        }
    }
}
