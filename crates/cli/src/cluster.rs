//! The roles of a cluster: a scheduler, and executors.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::prelude::SessionContext;
use similarity_cluster::{Executor, ExecutorOptions, Scheduler};

/// Options of a scheduler.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Address that it listens at; name one that executors of other machines reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    bind: SocketAddr,
}

/// Options of an executor.
#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// Scheduler whose tasks it runs
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_and_port)]
    scheduler: (String, u16),

    /// Address that it listens at; 0.0.0.0 listens to other machines
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: String,

    /// Name under which other machines reach it, where that is not the address the scheduler sees
    #[arg(long, value_name = "HOST")]
    host: Option<String>,

    /// Port at which others fetch rows; tasks come at the next one
    #[arg(long, value_name = "PORT", default_value_t = 50051, value_parser = clap::value_parser!(u16).range(1..u16::MAX as i64))]
    port: u16,

    /// Tasks that run at a time; without it, as many as the machine has cores
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=4096))]
    cores: Option<u64>,

    /// Folder for rows on their way, instead of a temporary one
    #[arg(long, value_name = "FOLDER")]
    work_folder: Option<PathBuf>,
}

/// Runs a scheduler until the process ends.
///
/// # Errors
/// An address that cannot be listened at.
pub async fn schedule(args: &SchedulerArgs) -> Result<()> {
    env_logger::init();
    let scheduler = Scheduler::bind(args.bind).await?;
    println!("scheduler: listens at {}", scheduler.address()?);
    scheduler.serve().await
}

/// Runs the tasks of a scheduler, in the memory of the session, until the process is asked to end.
///
/// # Errors
/// A scheduler that cannot be reached, and a port that is taken.
pub async fn execute(args: &ExecutorArgs, session: &SessionContext) -> Result<()> {
    env_logger::init();
    let cores = match args.cores {
        Some(cores) => cores as usize,
        None => std::thread::available_parallelism()?.get(),
    };
    let (scheduler_host, scheduler_port) = args.scheduler.clone();
    let executor = Executor::new(ExecutorOptions {
        scheduler_host,
        scheduler_port,
        bind_host: args.bind.clone(),
        external_host: args.host.clone(),
        port: args.port,
        task_port: args.port + 1,
        cores,
        memory: match session.runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes as u64),
            MemoryLimit::Infinite | MemoryLimit::Unknown => None,
        },
        work_folder: args.work_folder.clone(),
    })?;
    println!("executor: runs tasks of {}:{} (cores: {cores})", args.scheduler.0, args.scheduler.1);
    executor.run().await
}

/// A host and a port.
pub fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("write a host and a port, as in 10.0.0.1:50050")?;
    let port = port.parse().map_err(|_| format!("'{port}' is no port"))?;
    if host.is_empty() { Err("write a host before the port".into()) } else { Ok((host.to_owned(), port)) }
}

/// Waits until the scheduler knows that a query is given up whose rows have just been let go.
pub async fn let_cancel() {
    tokio::time::sleep(CANCELLING).await;
}

/// How long the message of a cancelled query may take.
const CANCELLING: Duration = Duration::from_millis(500);
