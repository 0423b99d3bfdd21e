//! Makes one rule of the rule files in a folder, or of a single one.

use datafusion::common::utils::quote_identifier;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use datafusion::prelude::SessionContext;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, Value};

use super::build::{call, chain};
use super::statement::Side;
use super::yaml::{self, Fault, Predicate};

/// Measure behind `Sim`, for which rule files name none. It is the nearest one to what HyperBlocker's released kernels
/// compute: those take a prefix of any length, always boost by it, and do not use transpositions.
const MEASURE: &str = "jaro_winkler_similarity";

/// A path that is read for rules; whatever else lies in a folder is left alone.
const EXTENSIONS: [&str; 2] = ["yaml", "yml"];

/// The OR of the rule files at `path`, a file or a folder, in the order of their names.
///
/// They come from the session's object stores, as the files of tables do.
pub(super) async fn import(ctx: &SessionContext, path: &str, left: &Side, right: &Side) -> Result<Expr> {
    let (left, right) = (Columns::of(ctx, left).await?, Columns::of(ctx, right).await?);
    let mut clauses = Vec::new();
    for file in read(ctx, path).await? {
        let placed = |Fault { line, message }| plan_datafusion_err!("{}:{line}: {message}", file.name);
        let predicates = yaml::predicates(&file.text).map_err(placed)?;
        let atoms = predicates.iter().map(|predicate| atom(predicate, &left, &right)).collect::<Result<Vec<_>, _>>();
        clauses.extend(chain(BinaryOperator::And, atoms.map_err(placed)?).map(|clause| Expr::Nested(Box::new(clause))));
    }
    chain(BinaryOperator::Or, clauses)
        .ok_or_else(|| plan_datafusion_err!("'{path}' holds no rule file; their names end in .yaml or .yml"))
}

struct RuleFile {
    /// The path of the file, as the user would write it.
    name: String,
    text: String,
}

async fn read(ctx: &SessionContext, path: &str) -> Result<Vec<RuleFile>> {
    let url = ListingTableUrl::parse(path)?;
    let store = ctx.runtime_env().object_store(&url)?;
    if !url.is_collection() {
        return Ok(vec![RuleFile { name: path.to_owned(), text: text(&store, url.prefix(), path).await? }]);
    }
    let mut found: Vec<_> = store.list_with_delimiter(Some(url.prefix())).await?.objects;
    found.retain(|file| file.location.extension().is_some_and(|extension| EXTENSIONS.contains(&extension)));
    found.sort_by(|one, other| one.location.cmp(&other.location));
    let mut files = Vec::with_capacity(found.len());
    for file in found {
        let name = format!("{}/{}", path.trim_end_matches('/'), file.location.filename().unwrap_or_default());
        files.push(RuleFile { text: text(&store, &file.location, &name).await?, name });
    }
    Ok(files)
}

async fn text(store: &dyn ObjectStore, location: &Path, name: &str) -> Result<String> {
    let bytes = async { store.get(location).await?.bytes().await };
    let bytes =
        bytes.await.map_err(|error| DataFusionError::from(error).context(format!("reading the rule file {name}")))?;
    String::from_utf8(bytes.into()).map_err(|error| {
        let read = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + read.iter().filter(|&&byte| byte == b'\n').count();
        plan_datafusion_err!("{name}: a rule file is text in UTF-8, and line {line} is not")
    })
}

/// The columns of a table, which rule files count.
struct Columns {
    side: Ident,
    names: Vec<String>,
}

impl Columns {
    async fn of(ctx: &SessionContext, side: &Side) -> Result<Self> {
        let normalize = ctx.copied_config().options().sql_parser.enable_ident_normalization;
        let table = object_name_to_table_reference(side.table.clone(), normalize)?;
        let provider = ctx.table_provider(table).await.map_err(|error| {
            error.context(format!(
                "rule files count the columns of a table, and {} is none; write ON and two tables, as in \
                 ON people t, people s",
                side.table
            ))
        })?;
        let names = provider.schema().fields().iter().map(|field| field.name().clone()).collect();
        Ok(Self { side: side.name.clone(), names })
    }

    fn column(&self, place: usize, line: usize) -> Result<Expr, Fault> {
        let Some(name) = self.names.get(place) else {
            let message = format!(
                "there is no column {place}: the table of {} has {} columns, counted from 0",
                self.side,
                self.names.len()
            );
            return Err(Fault { line, message });
        };
        let quote = (quote_identifier(name) != name.as_str()).then_some('"');
        let column = Ident { quote_style: quote, ..Ident::new(name) };
        Ok(Expr::CompoundIdentifier(vec![self.side.clone(), column]))
    }
}

fn atom(predicate: &Predicate, left: &Columns, right: &Columns) -> Result<Expr, Fault> {
    let columns = [left.column(predicate.left, predicate.line)?, right.column(predicate.right, predicate.line)?];
    let (value, op, other) = match (predicate.threshold, columns) {
        (None, [left, right]) => (left, BinaryOperator::Eq, right),
        (Some(threshold), columns) => {
            let threshold = Expr::Value(Value::Number(format!("{threshold:?}"), false).into());
            (call(MEASURE, columns), BinaryOperator::GtEq, threshold)
        }
    };
    Ok(Expr::BinaryOp { left: Box::new(value), op, right: Box::new(other) })
}
