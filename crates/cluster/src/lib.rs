//! Similarity joins on a cluster of machines, with Apache DataFusion Ballista.
//!
//! ```text
//!   shell or service                    scheduler                          executors
//!   [`connect`]  --logical plan-->  plans and divides  --task plans-->  run, exchange rows
//!        ^------------------------------ rows -----------------------------'
//! ```
//! All three are of one release: `session` says what each of them knows, and `similarity_codec` says what
//! travels between them. The scheduler divides joins so that each task runs in a process of its own
//! (`similarity.independent_partitions`).

#![deny(missing_docs)]

mod client;
mod codec;
mod executor;
mod executors;
mod failure;
mod remote;
mod scheduler;
pub mod session;
mod tables;
mod tasks;
mod windows;

use std::io;

use tokio::runtime::{Builder, Runtime};

pub use client::connect;
pub use executor::{Executor, ExecutorOptions};
pub use scheduler::Scheduler;

/// The stack of a thread: messages of plans nest as deeply as the plans.
const STACK_BYTES: usize = 32 << 20;

/// A runtime for a scheduler, an executor or a client.
///
/// # Errors
/// Where the operating system gives no threads.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()
}
