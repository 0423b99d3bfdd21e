//! Runs the scripts of `tests/slt`: what every function and every form of join returns, as sqllogictest records.
//!
//! Each script gets a session of its own. A script's header says which other system its values come from, so a
//! difference is a finding and no reason to bend the script. Arguments select scripts by a part of their name:
//! `cargo test --test slt -- jaccard`.

#[path = "slt/runner.rs"]
mod runner;

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_similarity::SimilarityStateBuilder;

/// Names the engine of all sessions.
const ENGINE: &str = "SIMILARITY_ENGINE";

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let folder = std::env::var_os("SIMILARITY_SCRIPTS").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slt").into());
    let label = std::env::var_os(ENGINE).map(|_| "engine");
    let mut failed = runner::run_all(&folder, session, label).await?;
    if label.is_none() && std::env::args().len() == 1 {
        println!("on a device:");
        let mut child = Command::new(std::env::current_exe()?);
        if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none() {
            child.env("LD_LIBRARY_PATH", emulated_cuda::folder());
        }
        failed += usize::from(!child.env(ENGINE, "cuda").status()?.success());
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn session() -> Result<SessionContext> {
    let config = SessionConfig::new().with_information_schema(true);
    let mut state = SessionStateBuilder::new().with_config(config).with_default_features().with_similarity().build();
    if let Ok(engine) = std::env::var(ENGINE) {
        state.config_mut().options_mut().set("similarity.engine", &engine)?;
    }
    Ok(SessionContext::new_with_state(state))
}
