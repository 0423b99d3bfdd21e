//! A session with similarity joins.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::{SimilarityContext, SimilarityOptions, SimilarityStateBuilder};
use pyo3::prelude::*;

use crate::error::exception;
use crate::query::Query;
use crate::runtime;
use crate::stream;

/// A session: tables by name, and SQL with similarity joins over them.
#[pyclass(frozen, module = "datafusion_similarity")]
pub struct Session {
    context: SessionContext,
}

#[pymethods]
impl Session {
    /// A session with settings such as `{"similarity.engine": "cpu"}`.
    #[new]
    #[pyo3(signature = (settings = None))]
    fn new(settings: Option<BTreeMap<String, String>>) -> PyResult<Self> {
        let context = context(settings.unwrap_or_default()).map_err(|error| exception(&error))?;
        Ok(Self { context })
    }

    /// Makes `data`, an object with `__arrow_c_stream__`, a table in place of any that has the name.
    fn register(&self, name: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (schema, batches) = stream::read(data)?;
        let rows = self.context.copied_config().batch_size();
        let batches = batches.iter().flat_map(|batch| slices(batch, rows)).collect();
        let registered = MemTable::try_new(schema, vec![batches]).and_then(|table| {
            self.context.deregister_table(name)?;
            self.context.register_table(name, Arc::new(table))
        });
        registered.map(drop).map_err(|error| exception(&error))
    }

    /// Removes a table, and says whether there was one.
    fn deregister(&self, name: &str) -> PyResult<bool> {
        let removed = self.context.deregister_table(name).map_err(|error| exception(&error))?;
        Ok(removed.is_some())
    }

    /// Runs a statement such as CREATE, and plans a query: its rows are computed when they are asked for.
    fn sql(&self, py: Python<'_>, query: String) -> PyResult<Query> {
        let context = self.context.clone();
        let planned = runtime::wait(py, async move { context.similarity_sql(&query).await })?;
        planned.map(Query::new).map_err(|error| exception(&error))
    }
}

/// A session with these settings.
pub fn context(settings: BTreeMap<String, String>) -> Result<SessionContext> {
    let mut options = ConfigOptions::from_env()?;
    options.extensions.insert(SimilarityOptions::default());
    for (name, value) in settings {
        if let Err(error) = options.set(&name, &value) {
            return plan_err!("the setting '{name}' is refused: {}", error.strip_backtrace());
        }
    }
    let config = SessionConfig::from(options).with_information_schema(true);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().with_similarity().build();
    Ok(SessionContext::new_with_state(state).enable_url_table())
}

/// `batch` in parts of so many rows, for threads to share. No value is copied.
fn slices(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> + '_ {
    let starts = (0..batch.num_rows()).step_by(rows.max(1));
    starts.map(move |start| batch.slice(start, rows.min(batch.num_rows() - start)))
}
