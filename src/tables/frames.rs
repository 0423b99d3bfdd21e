//! Table functions over data frames, in place of tables that a session has by name.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider,
    SchemaProvider, TableFunctionArgs,
};
use datafusion::common::{Result, internal_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};

/// The catalog that has the frames, while a function looks them up.
const CATALOG: &str = "similarity_frames";
/// Schema of the frames in it.
const SCHEMA: &str = "public";

/// The table that the function `name` makes of `frames`, its first arguments, and `others` behind them. The session is
/// that of the first frame.
///
/// # Errors
/// Errors of the function, and columns of a frame that cannot be named.
pub(crate) fn over(
    name: &str,
    frames: impl IntoIterator<Item = DataFrame>,
    others: impl IntoIterator<Item = Expr>,
) -> Result<DataFrame> {
    let schema = MemorySchemaProvider::new();
    let mut arguments = Vec::new();
    let mut session = None;
    for (number, frame) in frames.into_iter().enumerate() {
        let table = format!("frame_{number}");
        arguments.push(lit(format!("{CATALOG}.{SCHEMA}.{table}")));
        session.get_or_insert_with(|| frame.clone().into_parts().0);
        schema.register_table(table, with_names_that_differ(frame)?.into_view())?;
    }
    arguments.extend(others);
    let function = super::all().into_iter().find_map(|(known, function)| (known == name).then_some(function));
    let (Some(session), Some(function)) = (session, function) else {
        return internal_err!("{name} is no table function of frames");
    };
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(SCHEMA, Arc::new(schema))?;
    // the session does not keep the frames
    let catalogs = MemoryCatalogProviderList::new();
    for name in session.catalog_list().catalog_names() {
        if let Some(known) = session.catalog_list().catalog(&name) {
            catalogs.register_catalog(name, known);
        }
    }
    catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
    let with_frames = SessionStateBuilder::new_from_existing(session.clone());
    let with_frames = with_frames.with_catalog_list(Arc::new(catalogs)).build();
    let table = function.call_with_args(TableFunctionArgs::new(&arguments, &with_frames))?;
    let plan = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.build()?;
    Ok(DataFrame::new(session, plan))
}

/// The frame itself, or with the columns whose name another one has before them named by their places.
fn with_names_that_differ(frame: DataFrame) -> Result<DataFrame> {
    let mut names = HashSet::new();
    let columns = frame.schema().columns().into_iter().enumerate();
    let named: Vec<Expr> = columns
        .map(|(place, column)| match names.insert(column.name.clone()) {
            true => Expr::Column(column),
            false => Expr::Column(column).alias(format!("column_{}", place + 1)),
        })
        .collect();
    if names.len() < named.len() { frame.select(named) } else { Ok(frame) }
}
