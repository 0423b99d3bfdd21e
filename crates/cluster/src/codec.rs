//! Which codec takes what: similarity joins first, tables in memory, and what Ballista has of its own.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use similarity_codec::{SimilarityLogicalCodec, SimilarityPhysicalCodec};

use crate::tables::MemoryTableCodec;

/// The codec of logical plans, from a client to the scheduler.
pub fn logical() -> Arc<dyn LogicalExtensionCodec> {
    Arc::new(SimilarityLogicalCodec::new(Arc::new(MemoryTableCodec::default())))
}

/// The codec of operators, from the scheduler to executors.
pub fn physical() -> Arc<dyn PhysicalExtensionCodec> {
    Arc::new(SimilarityPhysicalCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default())))
}
