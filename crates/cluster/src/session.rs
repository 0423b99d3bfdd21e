//! What a client, the scheduler and the executors know alike.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt;
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use datafusion_similarity::SimilarityStateBuilder;
use datafusion_similarity::config::SimilarityOptions;

use crate::codec;
use crate::windows::RefuseReversedWindows;

/// The longest message: a plan with the rows of tables in memory.
pub(crate) const MOST_MESSAGE_BYTES: u32 = 256 << 20;

/// The settings of Ballista and of similarity joins, at their defaults for a cluster.
pub fn config() -> SessionConfig {
    for_cluster(SessionConfig::new_with_ballista())
}

/// `config` as one whose plans run on a cluster.
pub(crate) fn for_cluster(config: SessionConfig) -> SessionConfig {
    let mut options = SimilarityOptions::of(config.options());
    options.independent_partitions = true;
    config
        // once: what has Ballista's settings keeps them
        .upgrade_for_ballista()
        .with_option_extension(options)
        // neither a dynamic filter nor the value of a sub-query crosses from one task to another
        .set_bool("datafusion.optimizer.enable_dynamic_filter_pushdown", false)
        .set_bool("datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery", false)
        .with_ballista_grpc_client_max_message_size(MOST_MESSAGE_BYTES as usize)
        // a client that asks knows the number of its job at once, and can cancel it
        .set_bool("ballista.client.pull", true)
        // a plan that changes while it runs does not survive the loss of an executor
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_logical_extension_codec(codec::logical())
        .with_ballista_physical_extension_codec(codec::physical())
}

/// A session of the scheduler.
///
/// # Errors
/// Where its runtime cannot be made.
pub(crate) fn state(config: SessionConfig) -> Result<SessionState> {
    let builder = SessionStateBuilder::new().with_config(for_cluster(config)).with_default_features();
    Ok(builder.with_physical_optimizer_rule(Arc::new(RefuseReversedWindows)).with_similarity().build())
}

/// The functions that an executor knows.
pub(crate) fn functions() -> Result<Arc<ballista_core::registry::BallistaFunctionRegistry>> {
    Ok(Arc::new((&state(config())?).into()))
}
