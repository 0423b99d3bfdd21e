//! An executor: runs tasks and keeps what they have written for those that follow.

use std::path::PathBuf;
use std::sync::Arc;

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use datafusion::common::{Result, exec_datafusion_err};
use tempfile::TempDir;

use crate::scheduler::{HEARTBEAT_SECONDS, datafusion_error};
use crate::session::MOST_MESSAGE_BYTES;
use crate::tasks::Tasks;
use crate::{codec, session};

/// What an executor is started with.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The host of the scheduler.
    pub scheduler_host: String,
    /// The port of the scheduler.
    pub scheduler_port: u16,
    /// The address that it listens at.
    pub bind_host: String,
    /// The name under which other machines reach it; without it, the one that the scheduler sees.
    pub external_host: Option<String>,
    /// The port at which others fetch rows.
    pub port: u16,
    /// The port at which the scheduler sends tasks.
    pub task_port: u16,
    /// How many partitions run at a time.
    pub cores: usize,
    /// Bytes of memory for all of them; without it, 70 % of the machine's.
    pub memory: Option<u64>,
    /// The folder of rows on their way; without it, a temporary one.
    pub work_folder: Option<PathBuf>,
}

/// An executor.
pub struct Executor {
    config: Arc<ExecutorProcessConfig>,
    /// Removed with the executor.
    _temporary: Option<TempDir>,
}

impl Executor {
    /// An executor that is not started yet.
    ///
    /// # Errors
    /// Where there is no folder for its rows.
    pub fn new(options: ExecutorOptions) -> Result<Self> {
        let temporary = if options.work_folder.is_none() { Some(TempDir::new()?) } else { None };
        let folder = options.work_folder.or_else(|| temporary.as_ref().map(|folder| folder.path().to_owned()));
        let folder = folder.and_then(|folder| folder.to_str().map(str::to_owned));
        let config = ExecutorProcessConfig {
            scheduler_host: options.scheduler_host,
            scheduler_port: options.scheduler_port,
            scheduler_connect_timeout_seconds: 30,
            bind_host: options.bind_host,
            external_host: options.external_host,
            port: options.port,
            grpc_port: options.task_port,
            vcores: options.cores,
            memory_pool_size: options.memory,
            work_dir: Some(folder.ok_or_else(|| exec_datafusion_err!("the work folder has no name in UTF-8"))?),
            override_config_producer: Some(Arc::new(session::config)),
            override_function_registry: Some(session::functions()?),
            override_execution_engine: Some(Arc::new(Tasks::default())),
            override_logical_codec: Some(codec::logical()),
            override_physical_codec: Some(codec::physical()),
            // the scheduler takes an executor for lost that has not been heard of three times
            executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
            grpc_max_decoding_message_size: MOST_MESSAGE_BYTES,
            grpc_max_encoding_message_size: MOST_MESSAGE_BYTES,
            ..ExecutorProcessConfig::default()
        };
        Ok(Self { config: Arc::new(config), _temporary: temporary })
    }

    /// Runs tasks until the process is asked to stop.
    ///
    /// # Errors
    /// Where the scheduler cannot be reached, or a port is taken.
    pub async fn run(self) -> Result<()> {
        start_executor_process(Arc::clone(&self.config)).await.map_err(datafusion_error)
    }
}
