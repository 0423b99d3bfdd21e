//! The session behind the shell, with everything that a datafusion-cli session has.

use std::env;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::{ListFilesCacheFunc, MetadataCacheFunc, ParquetMetadataFunc, StatisticsCacheFunc};
use datafusion_cli::object_storage::StdinCarriesCommands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_options::PrintOptions;
use datafusion_similarity::SimilarityStateBuilder;

use crate::args::Args;
use crate::progress::Progress;
use crate::shell::Shell;
use crate::watch::WatchingPlanner;

/// A shell as `args` ask for it.
pub async fn shell(args: &Args) -> Result<Shell> {
    let stores = InstrumentedObjectStoreRegistry::new().with_profile_mode(args.object_store_profiling);
    let stores = Arc::new(stores);
    let progress = (!args.quiet).then(Progress::on_terminal).flatten();
    let ctx = session(args, Arc::clone(&stores), progress.clone())?;
    ctx.refresh_catalogs().await?;
    let catalogs = DynamicObjectStoreCatalog::new(Arc::clone(ctx.state().catalog_list()), ctx.state_weak_ref());
    ctx.register_catalog_list(Arc::new(catalogs));
    register_table_functions(&ctx);
    let print = PrintOptions {
        format: args.format,
        quiet: args.quiet,
        maxrows: args.maxrows,
        color: args.color,
        instrumented_registry: stores,
    };
    Ok(Shell { ctx, print, progress })
}

fn session(
    args: &Args,
    stores: Arc<InstrumentedObjectStoreRegistry>,
    progress: Option<Progress>,
) -> Result<SessionContext> {
    let mut runtime = RuntimeEnvBuilder::new().with_object_store_registry(stores);
    if let Some(limit) = args.memory_limit {
        runtime = runtime.with_memory_pool(memory_pool(args, limit));
    }
    if let Some(limit) = args.disk_limit {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
        runtime = runtime.with_disk_manager_builder(disk.with_max_temp_directory_size(limit as u64));
    }
    let mut state = SessionStateBuilder::new()
        .with_config(config(args)?)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        .with_similarity()
        .build();
    #[cfg(feature = "cluster")]
    if let Some((host, port)) = &args.scheduler {
        state = similarity_cluster::connect(state, &format!("{host}:{port}"))?;
    }
    if let Some(progress) = progress {
        let planner = Arc::new(WatchingPlanner::new(Arc::clone(state.query_planner()), progress));
        state = SessionStateBuilder::new_from_existing(state).with_query_planner(planner).build();
    }
    Ok(SessionContext::new_with_state(state).enable_url_table())
}

fn config(args: &Args) -> Result<SessionConfig> {
    let mut options = ConfigOptions::from_env()?;
    if let Some(rows) = args.batch_size {
        options.set("datafusion.execution.batch_size", &rows.to_string())?;
    }
    // what reads best on a screen, unless the environment says otherwise
    if env::var_os("DATAFUSION_EXPLAIN_FORMAT").is_none() {
        options.explain.format = ExplainFormat::Tree;
    }
    if env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        options.format.null = "NULL".into();
    }
    let config = SessionConfig::from(options).with_information_schema(true);
    Ok(if args.stdin_is_taken() { config.with_extension(Arc::new(StdinCarriesCommands)) } else { config })
}

fn memory_pool(args: &Args, limit: usize) -> Arc<dyn MemoryPool> {
    match (&args.mem_pool_type, NonZeroUsize::new(args.top_memory_consumers)) {
        (PoolType::Greedy, Some(top)) => Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(limit), top)),
        (PoolType::Greedy, None) => Arc::new(GreedyMemoryPool::new(limit)),
        (PoolType::Fair, Some(top)) => Arc::new(TrackConsumersPool::new(FairSpillPool::new(limit), top)),
        (PoolType::Fair, None) => Arc::new(FairSpillPool::new(limit)),
    }
}

fn register_table_functions(ctx: &SessionContext) {
    let caches = Arc::clone(&ctx.runtime_env().cache_manager);
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    ctx.register_udtf("metadata_cache", Arc::new(MetadataCacheFunc::new(Arc::clone(&caches))));
    ctx.register_udtf("statistics_cache", Arc::new(StatisticsCacheFunc::new(Arc::clone(&caches))));
    ctx.register_udtf("list_files_cache", Arc::new(ListFilesCacheFunc::new(caches)));
}
