//! `similarity-cli`: DataFusion's shell, with similarity joins.
//!
//! Everything that datafusion-cli's library offers is used as it is: sessions, object stores, output formats, the
//! backslash commands. This binary adds what the library keeps to itself (arguments, reading of scripts, the
//! prompt) and what similarity joins need: the SIMILARITY JOIN keyword and progress of long queries.

mod args;
mod helper;
mod progress;
mod repl;
mod script;
mod session;
mod shell;
mod watch;

use std::io::{self, BufReader, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use datafusion::common::Result;
use mimalloc::MiMalloc;

use args::Args;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            shell::report(&error);
            ExitCode::FAILURE
        }
    }
}

/// Does what the arguments ask for and returns whether every statement succeeded.
async fn run(args: Args) -> Result<bool> {
    if let Some(path) = &args.data_path {
        std::env::set_current_dir(path)?;
    }
    let mut shell = session::shell(&args).await?;
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
    let succeeded = script::run_files(&mut shell, &args.file).await?;
    for command in &args.command {
        script::run_command(&mut shell, command).await?;
    }
    Ok(succeeded)
}
