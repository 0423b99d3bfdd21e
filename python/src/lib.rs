//! `datafusion_similarity._core`: sessions, queries and the shell for Python.
//!
//! The package around it, in Python, has the functions over data frames. Here is what needs the engine.
//!
//! ```text
//! frame --__arrow_c_stream__--> table of a session --SQL--> query --__arrow_c_stream__--> frame
//! ```

mod error;
mod exported_function;
mod extension;
mod in_process;
mod query;
mod runtime;
mod session;
mod stream;

use std::ffi::OsString;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs the shell with the arguments of a command line, its name first, and returns its exit status.
#[pyfunction]
fn run_shell(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let succeeded = py.detach(|| similarity_cli::run_shell(arguments));
    u8::from(!succeeded)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DATAFUSION_VERSION", datafusion::DATAFUSION_VERSION)?;
    module.add("SimilarityError", module.py().get_type::<error::SimilarityError>())?;
    module.add_class::<session::Session>()?;
    module.add_class::<query::Query>()?;
    module.add_class::<extension::ScalarFunction>()?;
    module.add_function(wrap_pyfunction!(extension::logical_codec, module)?)?;
    module.add_function(wrap_pyfunction!(extension::physical_codec, module)?)?;
    module.add_function(wrap_pyfunction!(extension::query_planner, module)?)?;
    module.add_function(wrap_pyfunction!(extension::scalar_functions, module)?)?;
    module.add_function(wrap_pyfunction!(run_shell, module)?)
}
