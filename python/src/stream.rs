//! Rows from and to other libraries, through the stream of Arrow's C data interface.

use std::ffi::CStr;
use std::sync::Arc;

use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tokio::sync::mpsc;

use crate::error::exception;
use crate::runtime;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// Batches that a query may be ahead of whoever reads it.
const AHEAD: usize = 4;

/// All rows of an object with `__arrow_c_stream__`; no value is copied.
///
/// # Errors
/// `TypeError` for another object, `ValueError` where its stream fails or has been read before.
pub fn read(data: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let name = "__arrow_c_stream__";
    if !data.hasattr(name)? {
        return Err(PyTypeError::new_err(format!(
            "{} has no {name}; pandas, polars, pyarrow and DuckDB frames have",
            data.get_type().name()?
        )));
    }
    let capsule = data.call_method0(name)?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    let failed = |error: ArrowError| PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"));
    // SAFETY: a capsule of this name holds a stream; `from_raw` leaves an empty one in its place.
    let mut reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(failed)?;
    let batches = data.py().detach(|| reader.by_ref().collect::<Result<Vec<_>, _>>()).map_err(failed)?;
    Ok((reader.schema(), batches))
}

/// A capsule of the stream of `reader`.
pub fn write<'py>(py: Python<'py>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// A capsule of `schema`.
pub fn write_schema<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref())
        .map_err(|error| PyValueError::new_err(format!("the columns have no Arrow schema: {error}")))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// The rows of a running query, which ends with it.
pub struct RunningQuery {
    schema: SchemaRef,
    batches: mpsc::Receiver<datafusion::common::Result<RecordBatch>>,
}

impl RunningQuery {
    /// Runs `stream` on the threads of this process.
    pub fn start(mut stream: SendableRecordBatchStream) -> PyResult<Self> {
        let schema = stream.schema();
        let (sender, batches) = mpsc::channel(AHEAD);
        runtime::threads()?.spawn(async move {
            loop {
                let next = tokio::select! {
                    next = stream.next() => next,
                    // whoever has read it is gone
                    () = sender.closed() => None,
                };
                let Some(batch) = next else { break };
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
        });
        Ok(Self { schema, batches })
    }

    fn next_batch(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        // the receiver goes to the threads and comes back
        let (_, nothing) = mpsc::channel(1);
        let mut batches = std::mem::replace(&mut self.batches, nothing);
        let (batch, batches) = runtime::wait(py, async move { (batches.recv().await, batches) })?;
        self.batches = batches;
        batch.transpose().map_err(|error| exception(&error))
    }
}

impl Iterator for RunningQuery {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::attach(|py| {
            self.next_batch(py).map_err(|error| {
                let text = error.value(py).to_string();
                if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
                    // whoever reads the stream only sees an error of it
                    interrupt_again();
                }
                ArrowError::ExternalError(text.into())
            })
        });
        next.transpose()
    }
}

impl RecordBatchReader for RunningQuery {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Has Python raise `KeyboardInterrupt` as soon as it runs again.
fn interrupt_again() {
    // SAFETY: it may be called at any time.
    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
}
