//! Errors of the engine as exceptions.

use datafusion::common::DataFusionError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    datafusion_similarity,
    SimilarityError,
    PyException,
    "What a query or a session has refused, in the words of the shell."
);

/// The exception that says what `error` says.
pub fn exception(error: &DataFusionError) -> PyErr {
    SimilarityError::new_err(error.strip_backtrace())
}
