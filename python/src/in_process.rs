//! Codecs within one process: what has no message stays where it is, and its number travels.
//!
//! A table in memory belongs to the session that has it. Both libraries are in one process, so that a handle on it is
//! as good as its rows.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, not_impl_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use similarity_codec::{SimilarityLogicalCodec, SimilarityPhysicalCodec};

use crate::exported_function::ExportedFunction;

/// Stands before a number.
const MARK: &[u8; 8] = b"dfsimown";

/// How many things are held at most that nobody has asked for: those of plans that came to nothing go first.
const MOST: usize = 1 << 16;

static TABLES: Held<dyn TableProvider> = Held::new();
static PLANS: Held<dyn ExecutionPlan> = Held::new();

/// Things by number, each until it is asked for.
struct Held<T: ?Sized>(Mutex<(u64, BTreeMap<u64, Arc<T>>)>);

impl<T: ?Sized> Held<T> {
    const fn new() -> Self {
        Self(Mutex::new((0, BTreeMap::new())))
    }

    fn hold(&self, thing: Arc<T>, bytes: &mut Vec<u8>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, things) = &mut *held;
        *number += 1;
        things.insert(*number, thing);
        if things.len() > MOST {
            things.pop_first();
        }
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&process::id().to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn take(&self, bytes: &[u8]) -> Option<Arc<T>> {
        let (process, number) = bytes.strip_prefix(MARK)?.split_first_chunk()?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if u32::from_le_bytes(*process) == process::id() { held.1.remove(&number) } else { None }
    }
}

/// Tables of another library's session.
#[derive(Debug)]
pub struct Tables;

impl LogicalExtensionCodec for Tables {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        not_impl_err!("this node belongs to another library")
    }

    fn try_encode(&self, node: &Extension, _: &mut Vec<u8>) -> Result<()> {
        not_impl_err!("{} belongs to another library", node.node.name())
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        table: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match TABLES.take(bytes) {
            Some(provider) => Ok(provider),
            None => plan_err!("the table {table} is not one of this process, or its plan has been read before"),
        }
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        provider: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        TABLES.hold(provider, bytes);
        Ok(())
    }

    fn try_encode_udf(&self, node: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        match node.inner().downcast_ref::<ExportedFunction>() {
            Some(ExportedFunction(function)) => SimilarityLogicalCodec::default().try_encode_udf(function, bytes),
            None => Ok(()),
        }
    }
}

/// Operators of another library.
#[derive(Debug)]
struct Operators;

impl PhysicalExtensionCodec for Operators {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match PLANS.take(bytes) {
            Some(plan) => Ok(plan),
            None => plan_err!("an operator is not one of this process, or its plan has been read before"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        PLANS.hold(node, bytes);
        Ok(())
    }

    fn try_encode_udf(&self, node: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        Tables.try_encode_udf(node, bytes)
    }
}

/// Operators of similarity joins, and functions in the form in which another library calls them.
#[derive(Debug)]
pub struct Lent(SimilarityPhysicalCodec);

impl Lent {
    pub fn new() -> Self {
        Self(SimilarityPhysicalCodec::new(Arc::new(Operators)))
    }
}

impl PhysicalExtensionCodec for Lent {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.try_decode(bytes, inputs, context, converter)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        self.0.try_encode(node, bytes, converter)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        Ok(Arc::new(ScalarUDF::from(ExportedFunction(self.0.try_decode_udf(name, bytes)?))))
    }

    fn try_encode_udf(&self, node: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode_udf(node, bytes)
    }
}
