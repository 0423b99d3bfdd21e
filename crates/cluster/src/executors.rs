//! The executors that a scheduler knows, and what it means to lose one.
//!
//! Ballista would run the tasks of a lost executor again. It then may give rows twice, and it never hands the cores
//! back that other tasks of the same query have held. So all queries are cancelled before Ballista hears of the loss.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::scheduler_server::SchedulerServer;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use datafusion_similarity::optimizer::Processes;

pub type Server = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Ballista's executors in memory, counted.
#[derive(Default)]
pub struct Executors {
    known: InMemoryClusterState,
    count: AtomicUsize,
    cores: AtomicUsize,
    server: OnceLock<Weak<Server>>,
}

impl Executors {
    /// Cancels the queries of `server` when an executor is lost.
    pub fn watch_over(&self, server: &Arc<Server>) {
        self.server.get_or_init(|| Arc::downgrade(server));
    }

    /// The configuration of a query that all cores work on.
    pub fn config_of_query(&self, config: SessionConfig) -> SessionConfig {
        let (executors, cores) = (self.count.load(Ordering::Relaxed), self.cores.load(Ordering::Relaxed));
        let partitions = config.target_partitions().max(cores);
        config.with_target_partitions(partitions).with_extension(Arc::new(Processes(executors)))
    }

    async fn count(&self) {
        let executors = self.known.registered_executor_metadata().await;
        let cores = executors.iter().map(|executor| executor.specification.vcores as usize).sum();
        self.count.store(executors.len(), Ordering::Relaxed);
        self.cores.store(cores, Ordering::Relaxed);
    }

    async fn cancel_queries(&self) -> Result<()> {
        if let Some(server) = self.server.get().and_then(Weak::upgrade) {
            for id in server.state.task_manager.get_running_job_cache().keys() {
                server.cancel_job(id.clone()).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl ClusterState for Executors {
    async fn register_executor(&self, metadata: ExecutorMetadata, spec: ExecutorData) -> Result<()> {
        self.known.register_executor(metadata, spec).await?;
        self.count().await;
        Ok(())
    }

    async fn remove_executor(&self, executor_id: &str) -> Result<()> {
        // several tasks may report the same loss; queries that have come since the first have none of its rows
        if self.known.get_executor_metadata(executor_id).await.is_ok() {
            self.cancel_queries().await?;
        }
        self.known.remove_executor(executor_id).await?;
        self.count().await;
        Ok(())
    }

    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        active_jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        self.known.bind_schedulable_tasks(distribution, active_jobs, executors).await
    }

    async fn unbind_tasks(&self, executor_slots: Vec<ExecutorSlot>) -> Result<()> {
        self.known.unbind_tasks(executor_slots).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.known.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor_id: &str) -> Result<ExecutorMetadata> {
        self.known.get_executor_metadata(executor_id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.known.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.known.save_executor_heartbeat(heartbeat).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.known.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor_id: &str) -> Option<ExecutorHeartbeat> {
        self.known.get_executor_heartbeat(executor_id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.known.cluster_state_events().await
    }
}
