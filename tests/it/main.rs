//! The integration tests: one binary, one module per subject.

mod approximate;
mod architecture;
mod chunks;
mod components;
mod cuda;
mod data_frames;
mod devices;
mod dml;
mod duplicates;
mod epsilon;
mod estimate;
mod functions_page;
mod hyperblocker;
mod independent;
mod index_file;
mod kept;
mod keys_only;
mod limits;
#[allow(dead_code, reason = "the tests of the shell use the rest")]
mod markdown;
mod modules;
mod nearest;
mod nearest_in_chunks;
mod nested_loops;
mod oracle;
mod ordered;
mod partly_counted;
mod peers;
mod plans;
mod quickstart;
mod recall;
mod reference;
mod registration;
mod replay;
mod rewritten;
mod rows;
mod rules;
mod rustdoc_words;
mod self_joins;
mod service;
mod sql;
mod subqueries;
mod weighted;
mod words;
mod worst_cases;

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::SimilarityStateBuilder;

/// How many random cases are tried, where `SIMILARITY_CASES` does not ask for more.
fn cases(default: usize) -> usize {
    std::env::var("SIMILARITY_CASES").map_or(default, |cases| cases.parse().unwrap())
}

/// A session with similarity joins, on the engine that the environment names.
fn session(batch_size: usize, partitions: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_batch_size(batch_size)
        .with_target_partitions(partitions)
        .with_information_schema(true);
    session_of(SessionStateBuilder::new().with_config(config))
}

/// A metric, over the whole plan.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| metric(child, name)).sum::<usize>()
}

/// The same of a state that is begun.
fn session_of(state: SessionStateBuilder) -> SessionContext {
    let mut state = state.with_default_features().with_similarity().build();
    if let Ok(engine) = std::env::var(cuda::ENGINE) {
        state.config_mut().options_mut().set("similarity.engine", &engine).unwrap();
        state.config_mut().options_mut().set("similarity.overrides", "little_work=on").unwrap();
    }
    if let Ok(devices) = std::env::var(cuda::DEVICES) {
        state.config_mut().options_mut().set("similarity.device", &devices).unwrap();
    }
    if let Some(fraction) = cuda::memory_fraction() {
        let fraction = format!("{fraction:.12}");
        state.config_mut().options_mut().set("similarity.device_memory_fraction", &fraction).unwrap();
    }
    SessionContext::new_with_state(state)
}
