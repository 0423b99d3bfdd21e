//! DataFusion's shell, with similarity joins.
//!
//! Everything that datafusion-cli's library offers is used as it is: sessions, object stores, output formats, the
//! backslash commands. This crate adds what the library keeps to itself (arguments, reading of scripts, the
//! prompt) and what similarity joins need: the SIMILARITY JOIN keyword and progress of long queries.

mod args;
#[cfg(feature = "cluster")]
mod cluster;
mod helper;
mod interrupt;
mod progress;
mod repl;
mod script;
mod session;
mod shell;
mod task;
mod watch;

use std::ffi::OsString;
use std::io::{self, BufReader, IsTerminal};

use clap::Parser;
use datafusion::common::{DataFusionError, Result, plan_err};
use tokio::runtime::Builder;

use args::Args;
use shell::Shell;
use task::Task;

/// The stack of a thread: plans nest deeply, and so do their messages to a cluster.
const STACK_BYTES: usize = 32 << 20;

/// Runs the shell with the arguments of a command line, its name first, and returns whether everything succeeded.
///
/// Arguments that it does not know, `--help` and `--version` end the process.
pub fn run_shell(arguments: Vec<OsString>) -> bool {
    let args = Args::parse_from(arguments);
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    let done = runtime.map_err(DataFusionError::from).and_then(|runtime| runtime.block_on(run(args)));
    done.unwrap_or_else(|error| {
        shell::report(&error);
        false
    })
}

/// Does what the arguments ask for and returns whether every statement succeeded.
async fn run(args: Args) -> Result<bool> {
    if let Some(path) = &args.data_path {
        std::env::set_current_dir(path)?;
    }
    let mut shell = session::shell(&args).await?;
    if let Some(task) = &args.task {
        return run_task(&mut shell, &args, task).await;
    }
    shell.greet();
    if args.reads_commands_from_stdin() {
        let rc_succeeded = script::run_files(&mut shell, &args.startup_files()).await?;
        let succeeded = if io::stdin().is_terminal() {
            repl::run(&mut shell).await?;
            true
        } else {
            script::run_lines(&mut shell, &mut BufReader::new(io::stdin()), "standard input").await?
        };
        return Ok(rc_succeeded && succeeded);
    }
    #[cfg(feature = "cluster")]
    if args.scheduler.is_some() {
        let interrupted = interrupt::interrupted()?;
        let status = tokio::select! {
            done = run_arguments(&mut shell, &args) => return done,
            Ok(status) = interrupted => status,
        };
        cluster::let_cancel().await;
        std::process::exit(status)
    }
    run_arguments(&mut shell, &args).await
}

/// Runs the statements of `-f` and `-c`.
async fn run_arguments(shell: &mut Shell, args: &Args) -> Result<bool> {
    let succeeded = script::run_files(shell, &args.file).await?;
    for command in &args.command {
        script::run_command(shell, command).await?;
    }
    Ok(succeeded)
}

/// Runs a task, until Ctrl-C, and returns whether it succeeded.
async fn run_task(shell: &mut Shell, args: &Args, task: &Task) -> Result<bool> {
    if !args.command.is_empty() || !args.file.is_empty() {
        return plan_err!("-c and -f run statements instead of a command; -r runs files before it");
    }
    if !script::run_files(shell, args.rc.as_deref().unwrap_or_default()).await? {
        return Ok(false);
    }
    #[cfg(feature = "cluster")]
    if let Task::Scheduler(_) | Task::Executor(_) = task {
        // an executor that is asked to end tells the scheduler
        return task::run(shell, task).await.map(|()| true);
    }
    let interrupted = interrupt::interrupted()?;
    tokio::select! {
        done = task::run(shell, task) => done.map(|()| true),
        Ok(status) = interrupted => {
            if let Some(progress) = &shell.progress {
                progress.clear();
            }
            eprintln!("interrupted");
            // files that were begun are gone with the task; its threads are not waited for
            std::process::exit(status)
        }
    }
}
