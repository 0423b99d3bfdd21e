//! Executes the statements about similarity indexes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::{DFSchema, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::SessionContext;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};

use super::statement::{Action, Create, IndexStatement};
use crate::exec::{KeptSummary, SimilarityIndex};
use crate::optimizer::IndexCatalog;
use crate::sql::reader::verify_ddl;

impl IndexStatement {
    /// Executes the statement at once, if `options` allow DDL or the statement is no DDL; only SHOW has a result.
    ///
    /// # Errors
    /// A planning error for an index that exists or does not exist, a table or a column that does not exist, an
    /// expression that reads no column or changes from row to row by itself, and what `options` do not allow.
    pub async fn run_with_options(self, ctx: &SessionContext, options: SQLOptions) -> Result<DataFrame> {
        let config = ctx.copied_config();
        let indexes = IndexCatalog::of(&config)?;
        let normalize = config.options().sql_parser.enable_ident_normalization;
        let normalizer = IdentNormalizer::new(normalize);
        match self.action {
            Action::Show => return ctx.read_batch(listing(&indexes)?),
            Action::Drop { name, if_exists } => {
                verify_ddl(&options, "DROP SIMILARITY INDEX")?;
                indexes.remove(&normalizer.normalize(name), if_exists)?;
            }
            Action::Create(create) => {
                verify_ddl(&options, "CREATE SIMILARITY INDEX")?;
                let name = normalizer.normalize(create.name.clone());
                let (replace, if_not_exists) = (create.replace, create.if_not_exists);
                let index = index(name, *create, ctx, normalize).await?;
                indexes.add(index, replace, if_not_exists)?;
            }
        }
        Ok(DataFrame::new(ctx.state(), LogicalPlanBuilder::empty(false).build()?))
    }
}

async fn index(name: String, create: Create, ctx: &SessionContext, normalize: bool) -> Result<SimilarityIndex> {
    let state = ctx.state();
    let table = object_name_to_table_reference(create.table, normalize)?;
    let provider = ctx.table_provider(table.clone()).await?;
    let schema = DFSchema::try_from_qualified_schema(TableReference::bare(table.table()), &provider.schema())?;
    let written = create.expression.to_string();
    let expression = state.create_logical_expr(&written, &schema)?;
    if expression.is_volatile() {
        return plan_err!("SIMILARITY INDEX '{name}': {written} changes by itself, so nothing of it can be kept");
    }
    if expression.column_refs().is_empty() {
        return plan_err!("SIMILARITY INDEX '{name}': {written} reads no column of the table");
    }
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .build();
    let expression = ExprSimplifier::new(context).coerce(expression, &schema)?;
    let catalog = &state.config_options().catalog;
    let table = table.resolve(&catalog.default_catalog, &catalog.default_schema);
    Ok(SimilarityIndex::new(name, table, expression))
}

/// An index, and one of the build sides that it keeps.
type Listed = (Arc<SimilarityIndex>, Option<KeptSummary>);

fn listing(indexes: &IndexCatalog) -> Result<RecordBatch> {
    // one row for each build side that is kept, and one for an index that keeps none yet
    let mut rows: Vec<Listed> = Vec::new();
    for index in indexes.all() {
        let kept = index.kept();
        match kept.is_empty() {
            true => rows.push((index, None)),
            false => rows.extend(kept.into_iter().map(|kept| (Arc::clone(&index), Some(kept)))),
        }
    }
    let texts =
        |of: &dyn Fn(&Listed) -> Option<String>| Arc::new(rows.iter().map(of).collect::<StringArray>()) as ArrayRef;
    let numbers = |of: fn(&KeptSummary) -> usize| {
        let number = |kept: &KeptSummary| i64::try_from(of(kept)).ok();
        Arc::new(rows.iter().map(|(_, kept)| kept.as_ref().and_then(number)).collect::<Int64Array>()) as ArrayRef
    };
    RecordBatch::try_from_iter_with_nullable([
        ("name", texts(&|(index, _)| Some(index.name.clone())), false),
        ("table", texts(&|(index, _)| Some(index.table.to_string())), false),
        ("expression", texts(&|(index, _)| Some(index.expression.to_string())), false),
        ("kept_for", texts(&|(_, kept)| kept.as_ref().map(|kept| kept.label.clone())), true),
        ("rows", numbers(|kept| kept.rows), true),
        ("bytes", numbers(|kept| kept.bytes), true),
        ("uses", numbers(|kept| kept.uses), true),
    ])
    .map_err(|error| plan_datafusion_err!("the list of similarity indexes cannot be made: {error}"))
}
