//! The emulated driver of `kernels/emulator`, for processes that have no device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the emulated driver, which is built for the first one that asks.
pub fn driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("emulated-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/emulator/build.sh");
        assert!(Command::new("sh").arg(script).arg(folder.join("libcuda.so")).status().unwrap().success());
        folder
    })
}
