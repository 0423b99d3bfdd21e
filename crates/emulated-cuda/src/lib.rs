//! The emulated CUDA driver of `kernels/emulator`, for tests on machines without a GPU.
//!
//! It is built once for its sources, by the first process that asks; others wait for it. It needs a C++ compiler.

#![deny(missing_docs)]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder that holds the driver as `libcuda.so`, for a process's `LD_LIBRARY_PATH`.
///
/// # Panics
/// Where the driver cannot be built.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| build().unwrap_or_else(|error| panic!("the emulated CUDA driver cannot be built: {error}")))
}

/// The driver's file.
///
/// # Panics
/// Where the driver cannot be built.
pub fn library() -> PathBuf {
    folder().join(LIBRARY)
}

const LIBRARY: &str = "libcuda.so";

fn build() -> io::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    for folder in ["kernels", "kernels/layout", "kernels/measure", "kernels/emulator"] {
        files(&root.join(folder), &mut sources)?;
    }
    sources.sort();
    let mut hasher = DefaultHasher::new();
    std::env::var_os("CXX").hash(&mut hasher);
    for source in &sources {
        source.file_name().hash(&mut hasher);
        fs::read(source)?.hash(&mut hasher);
    }
    let folder = root.join(format!("target/emulated-cuda/{:016x}", hasher.finish()));
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    let library = folder.join(LIBRARY);
    if !library.exists() {
        let half_made = folder.join("half-made.so");
        let status = Command::new("sh").arg(root.join("kernels/emulator/build.sh")).arg(&half_made).status()?;
        if !status.success() {
            return Err(io::Error::other("kernels/emulator/build.sh failed; it needs a C++ compiler, c++ or $CXX"));
        }
        fs::rename(half_made, library)?;
    }
    Ok(folder)
}

/// The sources in a folder, without those of folders in it.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_source = |extension: &std::ffi::OsStr| ["cu", "cuh", "cpp", "h", "sh"].iter().any(|e| extension == *e);
        if path.extension().is_some_and(is_source) {
            found.push(path);
        }
    }
    Ok(())
}
