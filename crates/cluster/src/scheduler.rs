//! The scheduler: plans queries and hands out their tasks.

use std::net::SocketAddr;
use std::sync::Arc;

use ballista_core::error::BallistaError;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion::common::{DataFusionError, Result, plan_err};
use tokio::net::TcpListener;

use crate::executors::{Executors, Server};
use crate::session::MOST_MESSAGE_BYTES;
use crate::{codec, session};

/// How often an executor says that it lives.
pub(crate) const HEARTBEAT_SECONDS: u64 = 5;

/// A scheduler that listens.
pub struct Scheduler {
    listener: TcpListener,
    server: Arc<Server>,
}

impl Scheduler {
    /// A scheduler at `address`, which executors report to; port 0 takes one that is free.
    ///
    /// # Errors
    /// An address that cannot be listened at, and one that stands for all of a machine.
    pub async fn bind(address: SocketAddr) -> Result<Self> {
        if address.ip().is_unspecified() {
            return plan_err!(
                "executors report to the address of the scheduler; name one of this machine instead of {}",
                address.ip()
            );
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let executors = Arc::new(Executors::default());
        let counted = Arc::clone(&executors);
        let state = move |config| session::state(counted.config_of_query(config));
        let config = SchedulerConfig {
            external_host: address.ip().to_string(),
            bind_host: address.ip().to_string(),
            bind_port: address.port(),
            override_config_producer: Some(Arc::new(session::config)),
            override_session_builder: Some(Arc::new(state)),
            override_logical_codec: Some(codec::logical()),
            override_physical_codec: Some(codec::physical()),
            // a task that cannot fetch its rows ends the query, as the loss of an executor does
            stage_max_failures: 1,
            executor_timeout_seconds: 3 * HEARTBEAT_SECONDS,
            expire_dead_executor_interval_seconds: 1,
            no_executors_grace_period_seconds: 3 * HEARTBEAT_SECONDS,
            grpc_server_max_decoding_message_size: MOST_MESSAGE_BYTES,
            grpc_server_max_encoding_message_size: MOST_MESSAGE_BYTES,
            grpc_client_max_message_size: MOST_MESSAGE_BYTES,
            ..SchedulerConfig::default()
        };
        let jobs = BallistaCluster::new_from_config(&config).await.map_err(datafusion_error)?.job_state();
        let cluster = BallistaCluster::new(Arc::clone(&executors) as _, jobs);
        let server = Arc::new(create_scheduler(cluster, Arc::new(config)).await.map_err(datafusion_error)?);
        executors.watch_over(&server);
        Ok(Self { listener, server })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the operating system does not say.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves clients and executors until the future is dropped.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn serve(self) -> Result<()> {
        start_grpc_service_with_listener(self.listener, self.server.as_ref().clone()).await.map_err(datafusion_error)
    }
}

/// An error of Ballista as one of DataFusion.
pub(crate) fn datafusion_error(error: BallistaError) -> DataFusionError {
    match error {
        BallistaError::DataFusionError(error) => *error,
        other => DataFusionError::External(Box::new(other)),
    }
}
