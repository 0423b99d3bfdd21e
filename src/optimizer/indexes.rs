//! The similarity indexes of a session, and which of them a build side is about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TableScan, TryCast};
use datafusion::prelude::SessionConfig;

use super::same_input::repeatable;
use crate::exec::{IndexedTable, SimilarityIndex};

type Indexes = BTreeMap<String, Arc<SimilarityIndex>>;

/// The similarity indexes of a session, an extension of its [`SessionConfig`].
///
/// Sessions whose configurations are clones of one that already holds a catalog share it.
#[derive(Debug, Default)]
pub struct IndexCatalog {
    indexes: Mutex<Indexes>,
}

impl IndexCatalog {
    /// The catalog of the session with this configuration.
    ///
    /// # Errors
    /// A planning error where similarity joins were not added to the session.
    pub fn of(config: &SessionConfig) -> Result<Arc<Self>> {
        config.get_extension().ok_or_else(|| {
            plan_datafusion_err!(
                "this session does not know similarity indexes; build its state `with_similarity()` or call \
                 `enable_similarity()`"
            )
        })
    }

    /// All indexes, in the order of their names.
    pub fn all(&self) -> Vec<Arc<SimilarityIndex>> {
        self.lock().values().cloned().collect()
    }

    /// Adds an index, in the place of its namesake where `replace` says so, which is returned. With `if_not_exists` a
    /// namesake stays.
    ///
    /// # Errors
    /// A planning error where there is a namesake otherwise.
    pub fn add(
        &self,
        index: Arc<SimilarityIndex>,
        replace: bool,
        if_not_exists: bool,
    ) -> Result<Option<Arc<SimilarityIndex>>> {
        let mut indexes = self.lock();
        match indexes.contains_key(&index.name) {
            true if if_not_exists => Ok(None),
            true if !replace => plan_err!(
                "the similarity index '{}' exists already; CREATE OR REPLACE SIMILARITY INDEX takes its place",
                index.name
            ),
            _ => Ok(indexes.insert(index.name.clone(), index)),
        }
    }

    /// Removes an index from the session and returns it; without `if_exists` there has to be one.
    ///
    /// # Errors
    /// A planning error where there is none.
    pub fn remove(&self, name: &str, if_exists: bool) -> Result<Option<Arc<SimilarityIndex>>> {
        let mut indexes = self.lock();
        let removed = indexes.remove(name);
        if removed.is_none() && !if_exists {
            let known: Vec<_> = indexes.keys().map(|known| format!("'{known}'")).collect();
            let known = if known.is_empty() { "this session has none".into() } else { known.join(", ") };
            return plan_err!("there is no similarity index '{name}' (known: {known})");
        }
        Ok(removed)
    }

    // every change is a single insertion or removal, so what a panic left behind is whole
    fn lock(&self) -> MutexGuard<'_, Indexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index over the expression that a build side has as its key.
pub(super) fn index_of(session: &dyn Session, input: &LogicalPlan, key: &Expr) -> Option<IndexedTable> {
    let indexes = session.config().get_extension::<IndexCatalog>()?.all();
    if indexes.is_empty() {
        return None;
    }
    let (scan, keys) = over_table(input, vec![key.clone()])?;
    let key = keys.into_iter().next()?;
    let catalog = &session.config_options().catalog;
    let table = scan.table_name.clone().resolve(&catalog.default_catalog, &catalog.default_schema);
    let key = bare(key);
    let index =
        indexes.into_iter().find(|index| index.table == table && is_about(bare(index.expression.clone()), &key))?;
    Some(IndexedTable { index, provider: Arc::clone(repeatable(scan)?) })
}

/// Whether an index over `expression` is one of `key`: the key itself, or tokens that are made of it.
fn is_about(expression: Expr, key: &Expr) -> bool {
    if expression == *key {
        return true;
    }
    match expression {
        Expr::ScalarFunction(call) => call.args.first().is_some_and(|made_of| made_of == key),
        _ => false,
    }
}

/// An expression without casts, other names and the names of tables.
fn bare(expr: Expr) -> Expr {
    let bare = expr.transform_up(|part| {
        Ok(match part {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => Transformed::yes(*expr),
            other => Transformed::no(other),
        })
    });
    // the closure never fails
    bare.data().unwrap_or_default()
}

/// The scan below `plan` where it reads one table, and `keys` over the columns of that.
pub(super) fn over_table(plan: &LogicalPlan, keys: Vec<Expr>) -> Option<(&TableScan, Vec<Expr>)> {
    let below = |of: &dyn Fn(&Column) -> Option<Expr>| -> Option<Vec<Expr>> {
        keys.iter().map(|key| replaced(key.clone(), of)).collect()
    };
    match plan {
        LogicalPlan::TableScan(scan) => Some((scan, keys)),
        LogicalPlan::Filter(filter) => over_table(&filter.input, keys),
        LogicalPlan::SubqueryAlias(alias) => {
            let columns = alias.input.schema().columns();
            let of =
                |column: &Column| Some(Expr::Column(columns.get(alias.schema.maybe_index_of_column(column)?)?.clone()));
            over_table(&alias.input, below(&of)?)
        }
        LogicalPlan::Projection(projection) => {
            let of = |column: &Column| projection.expr.get(projection.schema.maybe_index_of_column(column)?).cloned();
            over_table(&projection.input, below(&of)?)
        }
        _ => None,
    }
}

/// `key` with an expression in the place of each column.
fn replaced(key: Expr, of: &dyn Fn(&Column) -> Option<Expr>) -> Option<Expr> {
    let replaced = key.transform_up(|part| match &part {
        Expr::Column(column) => match of(column) {
            Some(expr) => Ok(Transformed::yes(expr)),
            None => plan_err!("a column of another table"),
        },
        _ => Ok(Transformed::no(part)),
    });
    replaced.data().ok()
}
