//! The scheduler: plans queries and hands out their tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ballista_core::error::BallistaError;
use ballista_scheduler::cluster::{BallistaCluster, ClusterState, ClusterStateEvent};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::SchedulerServer;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use datafusion_similarity::optimizer::Processes;
use futures::StreamExt;
use tokio::net::TcpListener;

use crate::session::MOST_MESSAGE_BYTES;
use crate::{codec, session};

type Server = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// How often an executor says that it lives.
pub(crate) const HEARTBEAT_SECONDS: u64 = 5;

/// A scheduler that listens.
pub struct Scheduler {
    listener: TcpListener,
    server: Server,
    cluster: Arc<dyn ClusterState>,
    size: Arc<Size>,
}

/// What there is to run tasks.
#[derive(Debug, Default)]
struct Size {
    executors: AtomicUsize,
    cores: AtomicUsize,
}

impl Size {
    /// Counts the executors that are there.
    async fn measure(&self, cluster: &dyn ClusterState) {
        let executors = cluster.registered_executor_metadata().await;
        let cores = executors.iter().map(|executor| executor.specification.vcores as usize).sum();
        self.executors.store(executors.len(), Ordering::Relaxed);
        self.cores.store(cores, Ordering::Relaxed);
    }

    /// The configuration of a query that all cores work on.
    fn of_query(&self, config: SessionConfig) -> SessionConfig {
        let (executors, cores) = (self.executors.load(Ordering::Relaxed), self.cores.load(Ordering::Relaxed));
        let partitions = config.target_partitions().max(cores);
        config.with_target_partitions(partitions).with_extension(Arc::new(Processes(executors)))
    }
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
        let size = Arc::new(Size::default());
        let measured = Arc::clone(&size);
        let state = move |config| session::state(measured.of_query(config));
        let config = SchedulerConfig {
            external_host: address.ip().to_string(),
            bind_host: address.ip().to_string(),
            bind_port: address.port(),
            override_config_producer: Some(Arc::new(session::config)),
            override_session_builder: Some(Arc::new(state)),
            override_logical_codec: Some(codec::logical()),
            override_physical_codec: Some(codec::physical()),
            // Ballista's way back from the loss of an executor may give rows twice: the query fails instead
            stage_max_failures: 1,
            executor_timeout_seconds: 3 * HEARTBEAT_SECONDS,
            expire_dead_executor_interval_seconds: 1,
            no_executors_grace_period_seconds: 3 * HEARTBEAT_SECONDS,
            grpc_server_max_decoding_message_size: MOST_MESSAGE_BYTES,
            grpc_server_max_encoding_message_size: MOST_MESSAGE_BYTES,
            grpc_client_max_message_size: MOST_MESSAGE_BYTES,
            ..SchedulerConfig::default()
        };
        let cluster = BallistaCluster::new_from_config(&config).await.map_err(datafusion_error)?;
        let executors = cluster.cluster_state();
        let server = create_scheduler(cluster, Arc::new(config)).await.map_err(datafusion_error)?;
        Ok(Self { listener, server, cluster: executors, size })
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
        let lost = watch_executors(self.server.clone(), self.cluster, self.size);
        let served = start_grpc_service_with_listener(self.listener, self.server);
        tokio::select! {
            served = served => served.map_err(datafusion_error),
            lost = lost => lost.map_err(datafusion_error),
        }
    }
}

/// Counts the executors that come and go. When one is lost, whose rows some tasks may have read, all queries are
/// cancelled.
async fn watch_executors(server: Server, cluster: Arc<dyn ClusterState>, size: Arc<Size>) -> Result<(), BallistaError> {
    let mut events = server.cluster_state_events().await?;
    size.measure(cluster.as_ref()).await;
    while let Some(event) = events.next().await {
        if let ClusterStateEvent::RemovedExecutor { .. } = event {
            for id in server.state.task_manager.get_running_job_cache().keys() {
                server.cancel_job(id.clone()).await?;
            }
        }
        size.measure(cluster.as_ref()).await;
    }
    Ok(())
}

/// An error of Ballista as one of DataFusion.
pub(crate) fn datafusion_error(error: BallistaError) -> DataFusionError {
    match error {
        BallistaError::DataFusionError(error) => *error,
        other => DataFusionError::External(Box::new(other)),
    }
}
