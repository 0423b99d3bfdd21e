//! A query that runs when its rows are asked for.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchIterator};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::dataframe::DataFrame;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::exception;
use crate::runtime;
use crate::stream::{self, RunningQuery};

/// A query of a session. It runs each time that its rows are asked for, and is itself an Arrow stream.
#[pyclass(frozen, module = "datafusion_similarity")]
pub struct Query {
    frame: DataFrame,
}

impl Query {
    pub fn new(frame: DataFrame) -> Self {
        Self { frame }
    }
}

#[pymethods]
impl Query {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.frame.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The columns, as a capsule of Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        stream::write_schema(py, self.frame.schema().inner())
    }

    /// The rows one batch after the other, as a capsule of Arrow's C data interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // the interface allows to yield the columns as they are
        drop(requested_schema);
        let frame = self.frame.clone();
        let started = runtime::wait(py, async move { frame.execute_stream().await })?;
        stream::write(py, Box::new(RunningQuery::start(started.map_err(|error| exception(&error))?)?))
    }

    /// Runs the query to its end and returns its rows, which may be read any number of times.
    fn collect(&self, py: Python<'_>) -> PyResult<Rows> {
        let frame = self.frame.clone();
        let schema = Arc::clone(frame.schema().inner());
        let batches = runtime::wait(py, async move { frame.collect().await })?.map_err(|error| exception(&error))?;
        Ok(Rows { schema, batches })
    }
}

/// The rows of a query that has run.
#[pyclass(frozen, module = "datafusion_similarity")]
pub struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.batches.iter().map(|batch| batch.num_rows()).sum()
    }

    /// The columns, as a capsule of Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        stream::write_schema(py, &self.schema)
    }

    /// The rows, as a capsule of Arrow's C data interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let rows = RecordBatchIterator::new(self.batches.clone().into_iter().map(Ok), Arc::clone(&self.schema));
        stream::write(py, Box::new(rows))
    }
}
