//! Executes the statements about similarity indexes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::catalog::TableProvider;
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
    /// expression that reads no column or changes from row to row by itself, a LOCATION for a table that is not of
    /// files, and what `options` do not allow. An IO error for files that cannot be removed.
    pub async fn run_with_options(self, ctx: &SessionContext, options: SQLOptions) -> Result<DataFrame> {
        let config = ctx.copied_config();
        let indexes = IndexCatalog::of(&config)?;
        let normalize = config.options().sql_parser.enable_ident_normalization;
        let normalizer = IdentNormalizer::new(normalize);
        match self.action {
            Action::Show => return ctx.read_batch(listing(&indexes)?),
            Action::Drop { name, if_exists } => {
                verify_ddl(&options, "DROP SIMILARITY INDEX")?;
                let removed = indexes.remove(&normalizer.normalize(name), if_exists)?;
                removed.iter().try_for_each(|index| index.remove_files())?;
            }
            Action::Create(create) => {
                verify_ddl(&options, "CREATE SIMILARITY INDEX")?;
                let name = normalizer.normalize(create.name.clone());
                let (replace, if_not_exists) = (create.replace, create.if_not_exists);
                let index = Arc::new(index(name, *create, ctx, normalize).await?);
                let replaced = indexes.add(Arc::clone(&index), replace, if_not_exists)?;
                if replace {
                    replaced.iter().chain([&index]).try_for_each(|index| index.remove_files())?;
                }
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
    let location = create.location.map(|location| folder(&name, location, provider.as_ref())).transpose()?;
    Ok(SimilarityIndex::new(name, table, expression, location))
}

/// The folder for the files of an index over a table.
fn folder(name: &str, location: String, table: &dyn TableProvider) -> Result<PathBuf> {
    if !SimilarityIndex::can_have_files(table) {
        return plan_err!(
            "SIMILARITY INDEX '{name}': LOCATION is for tables of files, as CREATE EXTERNAL TABLE makes them; leave it \
             out for any other table, and the session keeps the index"
        );
    }
    let folder = PathBuf::from(&location);
    if location.is_empty() || location.contains("://") || folder.is_file() {
        return plan_err!("SIMILARITY INDEX '{name}': LOCATION '{location}' is no folder of this machine");
    }
    Ok(folder)
}

/// An index, and one of the build sides that it keeps.
type Listed = (Arc<SimilarityIndex>, Option<KeptSummary>);

fn shown(folder: &Path) -> String {
    folder.display().to_string()
}

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
        ("location", texts(&|(index, _)| index.location.as_deref().map(shown)), true),
        ("file", texts(&|(_, kept)| kept.as_ref()?.file.clone()), true),
    ])
    .map_err(|error| plan_datafusion_err!("the list of similarity indexes cannot be made: {error}"))
}
