//! Tests that a run of `cargo test` skips for lack of data or of a device: how many, and why.
//!
//! [`skip`] notes each in a file beside the executables of the tests, and the test target `sum` prints what it holds.
//! Cargo runs the tests of packages in the order of their names, and this one has the last name. Cargo is the parent of
//! all executables of a run, so that the notes of a run that ended early are told apart.

#![deny(missing_docs)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::{env, thread};

/// Notes that the test which calls it is skipped, and prints it on standard error past the capture of test output.
///
/// # Panics
/// Where the note cannot be written.
pub fn skip(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let note = |file: PathBuf| {
        io::stderr().write_all(format!("skipped {test}: {reason}\n").as_bytes())?;
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(format!("{} {reason}\n", parent_id()).as_bytes())
    };
    notes().and_then(note).unwrap_or_else(|error| panic!("a skipped test cannot be noted: {error}"));
}

/// Sum of what this run skipped so far, as a line without its end. It removes all notes.
///
/// # Errors
/// Where the notes cannot be read or removed.
pub fn sum() -> io::Result<String> {
    let file = notes()?;
    let notes = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        notes => {
            fs::remove_file(&file)?;
            notes?
        }
    };
    Ok(sum_of(&notes, parent_id()))
}

/// The file that all test executables of a target directory share.
fn notes() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name("skipped-tests"))
}

fn sum_of(notes: &str, run: u32) -> String {
    let run = format!("{run} ");
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in notes.lines().filter_map(|note| note.strip_prefix(&run)) {
        *reasons.entry(reason).or_default() += 1;
    }
    let reasons_said: Vec<String> = reasons.iter().map(|(reason, tests)| format!("{tests}: {reason}")).collect();
    match reasons.values().sum() {
        0 => "no test was skipped".to_owned(),
        tests => format!("skipped tests: {tests} ({})", reasons_said.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn reasons_of_a_run_are_counted() {
        let notes = "41 no data\n7 no data\n41 no device\n411 no data\n41 no data\n";
        assert_eq!(sum_of(notes, 41), "skipped tests: 3 (2: no data; 1: no device)");
        assert_eq!(sum_of(notes, 4), "no test was skipped");
    }

    #[test]
    fn this_package_has_the_last_name() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifests = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("Cargo.toml"));
        let manifests = manifests.chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml")]);
        let name = |manifest: PathBuf| {
            let text = fs::read_to_string(manifest).unwrap();
            text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().to_owned()
        };
        assert_eq!(manifests.map(name).max().unwrap(), "\"skipped-tests\"");
    }
}
