//! Joins with `similarity.engine = 'cuda'`: on a device where the machine has one, else on the emulated driver of
//! `kernels/emulator`.
//!
//! A process has one driver for all its sessions, so each test runs once more in a process of its own. With
//! `SIMILARITY_ENGINE=cuda` in the environment the whole test binary uses the device, and with `SIMILARITY_REQUIRE_CUDA=1`
//! a machine without one fails.

use std::path::PathBuf;
use std::process::Command;

use crate::oracle::{BANDS, Cases, RULES, TEXTS, check};

/// Names the engine of all sessions.
pub(crate) const ENGINE: &str = "SIMILARITY_ENGINE";

/// Runs a test in a process that has a device, unless this is one.
fn on_a_device(test: &str) -> bool {
    if std::env::var_os(ENGINE).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(ENGINE, "cuda");
    if std::env::var_os("SIMILARITY_REQUIRE_CUDA").is_none() {
        child.env("LD_LIBRARY_PATH", emulated_driver());
    }
    let output = child.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    false
}

/// The folder of an emulated driver that is built for this test.
fn emulated_driver() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("emulated-{}", std::process::id()));
    let library = folder.join("libcuda.so");
    if !library.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/emulator/build.sh");
        let built = folder.join(format!("{:?}.so", std::thread::current().id()));
        assert!(Command::new("sh").arg(script).arg(&built).status().unwrap().success());
        std::fs::rename(built, &library).unwrap();
    }
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_have_the_same_rows_as_stock() {
    if on_a_device("cuda::joins_have_the_same_rows_as_stock") {
        // of the measures, some have kernels
        let cases = Cases { operator: "engine=cuda:0", tenths: 1, ..TEXTS };
        check(5000..5030, cases).await;
        check(5100..5104, Cases { sizes: &[600], ..cases }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_have_the_same_rows_as_stock() {
    if on_a_device("cuda::rules_have_the_same_rows_as_stock") {
        check(6000..6020, Cases { operator: "engine=cuda:0", tenths: 4, ..RULES }).await;
        check(6100..6103, Cases { operator: "engine=cuda:0", tenths: 3, sizes: &[600], ..RULES }).await;
        check(6200..6208, Cases { operator: "engine=cuda:0", tenths: 3, ..BANDS }).await;
    }
}
