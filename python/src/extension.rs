//! Similarity joins for a session of the package `datafusion`, across the border between two libraries.
//!
//! ```text
//! datafusion: SQL -> logical plan -bytes-> this library: optimizer rule, operators -bytes-> datafusion: runs the plan
//! ```
//! Each library builds what the other one owns through a codec that the other one lends it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ffi::execution::FFI_TaskContextProvider;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::proto::physical_extension_codec::FFI_PhysicalExtensionCodec;
use datafusion_ffi::query_planner::FFI_QueryPlanner;
use datafusion_ffi::udf::FFI_ScalarUDF;
use datafusion_similarity::functions;
use datafusion_similarity::optimizer::SimilarityJoinRule;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use similarity_codec::SimilarityLogicalCodec;

use crate::error::exception;
use crate::exported_function::ExportedFunction;
use crate::in_process::{Lent, Tables};
use crate::runtime;
use crate::session;

const TASK_CONTEXT: &CStr = c"datafusion_task_context_provider";
const LOGICAL_CODEC: &CStr = c"datafusion_logical_extension_codec";
const PHYSICAL_CODEC: &CStr = c"datafusion_physical_extension_codec";
const PLANNER: &CStr = c"datafusion_query_planner";
const FUNCTION: &CStr = c"datafusion_scalar_udf";

/// What the session `context` lends under `method`, as a `T`.
fn lent<T: Clone>(context: &Bound<'_, PyAny>, method: &str, name: &CStr) -> PyResult<T> {
    let capsule = context.call_method0(method)?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: a capsule of this name holds a `T`, and lives until it has been cloned.
    Ok(unsafe { pointer.as_ref() }.clone())
}

/// A capsule of the codec for nodes of logical plans.
#[pyfunction]
pub fn logical_codec<'py>(context: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let provider: FFI_TaskContextProvider = lent(context, "__datafusion_task_context_provider__", TASK_CONTEXT)?;
    let threads = runtime::threads()?.handle().clone();
    let codec = FFI_LogicalExtensionCodec::new(
        Arc::new(SimilarityLogicalCodec::new(Arc::new(Tables))),
        Some(threads),
        provider,
    );
    PyCapsule::new_with_value(context.py(), codec, LOGICAL_CODEC)
}

/// A capsule of the codec for operators.
#[pyfunction]
pub fn physical_codec<'py>(context: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let provider: FFI_TaskContextProvider = lent(context, "__datafusion_task_context_provider__", TASK_CONTEXT)?;
    let threads = runtime::threads()?.handle().clone();
    let codec = FFI_PhysicalExtensionCodec::new(Arc::new(Lent::new()), Some(threads), provider);
    PyCapsule::new_with_value(context.py(), codec, PHYSICAL_CODEC)
}

/// A capsule of the planner of queries with similarity joins.
#[pyfunction]
pub fn query_planner<'py>(
    context: &Bound<'py, PyAny>,
    settings: BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let logical: FFI_LogicalExtensionCodec = lent(context, "__datafusion_logical_extension_codec__", LOGICAL_CODEC)?;
    let physical: FFI_PhysicalExtensionCodec =
        lent(context, "__datafusion_physical_extension_codec__", PHYSICAL_CODEC)?;
    let own = session::context(settings).map_err(|error| exception(&error))?;
    let planner = FFI_QueryPlanner::new_with_ffi_codecs(Arc::new(Planner { own: own.state() }), logical, physical);
    PyCapsule::new_with_value(context.py(), planner, PLANNER)
}

/// Plans what another library has optimised.
#[derive(Debug)]
struct Planner {
    /// A session with this library's rules and settings.
    own: SessionState,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, _: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        // the rules of the other library have run, and leave a nested loop
        let rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![Arc::new(SimilarityJoinRule)];
        let plan = Optimizer::with_rules(rules).optimize(plan.clone(), &self.own, |_, _| {})?;
        self.own.query_planner().create_physical_plan(&plan, &self.own).await
    }
}

/// A function of SQL, for `SessionContext.register_udf`.
#[pyclass(frozen, module = "datafusion_similarity")]
pub struct ScalarFunction {
    function: Arc<ScalarUDF>,
}

#[pymethods]
impl ScalarFunction {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.function.name()
    }

    /// The function, as a capsule.
    fn __datafusion_scalar_udf__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(
            py,
            FFI_ScalarUDF::from(Arc::new(ScalarUDF::from(ExportedFunction(Arc::clone(&self.function))))),
            FUNCTION,
        )
    }
}

/// Every function of SQL that a condition may call. Stock DataFusion's own measures are among them: those of another
/// library could not be told from functions of somebody else.
#[pyfunction]
pub fn scalar_functions() -> Vec<ScalarFunction> {
    // the last one of a name is the one that counts, and ours is the faster `levenshtein`
    functions::stock_measures()
        .into_iter()
        .chain(functions::all())
        .map(|function| ScalarFunction { function })
        .collect()
}
