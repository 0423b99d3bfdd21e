//! A scheduler and executors in this process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use datafusion::common::Result;
use similarity_cluster::{Executor, ExecutorOptions, Scheduler};

/// Where they can be reached.
pub struct LocalCluster {
    /// Host and port of the scheduler.
    pub scheduler: String,
}

impl LocalCluster {
    /// A scheduler and so many executors, each with so many cores.
    pub async fn start(executors: usize, cores: usize) -> Result<Self> {
        let scheduler = Scheduler::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = scheduler.address()?;
        tokio::spawn(scheduler.serve());
        for _ in 0..executors {
            let [port, task_port] = [free_port()?, free_port()?];
            let options = ExecutorOptions {
                scheduler_host: address.ip().to_string(),
                scheduler_port: address.port(),
                bind_host: Ipv4Addr::LOCALHOST.to_string(),
                external_host: None,
                port,
                task_port,
                cores,
                memory: Some(1 << 30),
                work_folder: None,
            };
            tokio::spawn(Executor::new(options)?.run());
        }
        Ok(Self { scheduler: address.to_string() })
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
