//! Registration: functions alone, a session state under construction, or a session that already runs.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableFunction;
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::config::SimilarityOptions;
use crate::functions;
use crate::optimizer::{
    DmlRule, IndexCatalog, NearestFilterRule, NearestJoinRule, NestedLoopRule, PairValueRule, SimilarityJoinRule,
    SimilarityQueryPlanner, SubqueryConditionRule,
};
use crate::sql::{self, RuleCatalog};
use crate::tables;

/// Similarity joins for a session state under construction.
pub trait SimilarityStateBuilder {
    /// Adds the functions and the table functions (unless there are some of these names), the options under
    /// `similarity.*`, catalogs of matching rules and of similarity indexes, the analyzer and optimizer rules, the
    /// query planner, and the error for SIMILARITY JOIN in text that did not go through
    /// [`SimilarityContext::similarity_sql`].
    ///
    /// A session has one query planner: for a session with its own, add
    /// [`SimilarityJoinPlanner`](crate::optimizer::SimilarityJoinPlanner) to its extension planners and call
    /// `with_query_planner` after this.
    ///
    /// ```
    /// # use datafusion::execution::session_state::SessionStateBuilder;
    /// # use datafusion::prelude::SessionContext;
    /// # use datafusion_similarity::{SimilarityContext, SimilarityStateBuilder};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::common::Result<()> {
    /// let state = SessionStateBuilder::new().with_default_features().with_similarity().build();
    /// let session = SessionContext::new_with_state(state);
    /// session.sql("CREATE TABLE p (id INT, name VARCHAR) AS VALUES (1, 'Anna'), (2, 'Ana'), (3, 'Hans')").await?;
    /// let similar = "levenshtein(a.name, b.name) <= 1 AND a.id < b.id";
    /// let query = format!("SELECT a.id, b.id FROM p a SIMILARITY JOIN p b ON {similar}");
    /// assert_eq!(session.similarity_sql(&query).await?.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    fn with_similarity(self) -> Self;
}

impl SimilarityStateBuilder for SessionStateBuilder {
    fn with_similarity(mut self) -> Self {
        self.scalar_functions().get_or_insert_default().extend(functions::all());
        let known = self.table_functions().get_or_insert_default();
        for (name, function) in tables::all() {
            known.entry(name.into()).or_insert_with(|| Arc::new(TableFunction::new(name.into(), function)));
        }
        let config = self.config().get_or_insert_with(SessionConfig::new);
        if config.get_extension::<RuleCatalog>().is_none() {
            config.set_extension(Arc::new(RuleCatalog::default()));
        }
        if config.get_extension::<IndexCatalog>().is_none() {
            config.set_extension(Arc::new(IndexCatalog::default()));
        }
        let extensions = &mut config.options_mut().extensions;
        if extensions.get::<SimilarityOptions>().is_none() {
            extensions.insert(SimilarityOptions::default());
        }
        self.relation_planners().get_or_insert_default().insert(0, Arc::new(sql::SimilarityAliasPlanner));
        let builder = with_physical_optimizer_rule(with_optimizer_rules(with_analyzer_rules(self)));
        builder.with_query_planner(Arc::new(SimilarityQueryPlanner))
    }
}

/// Adds the analyzer rules that the session does not have yet.
fn with_analyzer_rules(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let known = &mut builder.analyzer().get_or_insert_with(Analyzer::new).rules;
    if !known.iter().any(|rule| rule.name() == PairValueRule.name()) {
        // before type coercion, which fails for some of what is refused here
        known.insert(0, Arc::new(PairValueRule));
    }
    let rules: [Arc<dyn AnalyzerRule + Send + Sync>; 3] =
        [Arc::new(SubqueryConditionRule), Arc::new(NearestJoinRule), Arc::new(DmlRule)];
    rules.into_iter().fold(builder, |mut builder, rule| {
        match builder.analyzer().iter().flat_map(|analyzer| &analyzer.rules).any(|known| known.name() == rule.name()) {
            true => builder,
            false => builder.with_analyzer_rule(rule),
        }
    })
}

/// Adds the optimizer rules that the session does not have yet.
fn with_optimizer_rules(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    if !rules.iter().any(|rule| rule.name() == "nearest_filter") {
        // at the end, projections would have come between a filter and the join that it belongs below
        let at = rules.iter().position(|rule| rule.name() == "push_down_filter").map_or(rules.len(), |at| at + 1);
        rules.insert(at, Arc::new(NearestFilterRule));
    }
    match rules.iter().any(|rule| rule.name() == "similarity_join") {
        true => builder,
        false => builder.with_optimizer_rule(Arc::new(SimilarityJoinRule)),
    }
}

/// Adds the rule for nested loops behind all others, unless the session has it.
fn with_physical_optimizer_rule(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let rules = &mut builder.physical_optimizers().get_or_insert_with(PhysicalOptimizer::new).rules;
    if !rules.iter().any(|rule| rule.name() == NestedLoopRule.name()) {
        rules.push(Arc::new(NestedLoopRule));
    }
    builder
}

/// Similarity joins for a session that already runs.
#[async_trait]
pub trait SimilarityContext {
    /// Adds to this session what [`SimilarityStateBuilder::with_similarity`] adds to a new one; tables, functions
    /// and settings stay.
    fn enable_similarity(&self) -> Result<()>;

    /// Runs a statement that may say SIMILARITY JOIN, use matching rules or be about them; otherwise as
    /// [`SessionContext::sql`].
    ///
    /// # Errors
    /// What `sql` returns, and a planning error that names the condition where a SIMILARITY JOIN would have become
    /// a nested loop.
    async fn similarity_sql(&self, sql: &str) -> Result<DataFrame>;
}

#[async_trait]
impl SimilarityContext for SessionContext {
    fn enable_similarity(&self) -> Result<()> {
        let state = self.state();
        let id = state.session_id().to_string();
        let state = SessionStateBuilder::new_from_existing(state).with_session_id(id).with_similarity().build();
        *self.state_ref().write() = state;
        Ok(())
    }

    async fn similarity_sql(&self, sql: &str) -> Result<DataFrame> {
        sql::sql(self, sql).await
    }
}
