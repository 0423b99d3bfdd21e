//! `dedupe` and `link`: from files to clusters and links, without writing SQL; and the roles of a cluster.
//!
//! A task puts queries together from its options and runs them in the session of the shell. So general options, rules,
//! functions and progress are those of the shell.

mod dedupe;
mod estimate;
mod figures;
mod input;
mod job;
mod link;
mod options;
mod output;
mod query;
mod rule;

use datafusion::common::Result;

pub use options::Task;

use crate::shell::Shell;

/// Does what a task asks for.
///
/// # Errors
/// Input that cannot be used, output that cannot be written, and whatever a query is refused for.
pub async fn run(shell: &Shell, task: &Task) -> Result<()> {
    match task {
        Task::Dedupe(options) => dedupe::run(shell, options).await,
        Task::Link(options) => link::run(shell, options).await,
        #[cfg(feature = "cluster")]
        Task::Scheduler(options) => crate::cluster::schedule(options).await,
        #[cfg(feature = "cluster")]
        Task::Executor(options) => crate::cluster::execute(options, &shell.ctx).await,
    }
}
