//! `similarity-cli`: the shell as a program.

use std::env;
use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match similarity_cli::run_shell(env::args_os().collect()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
