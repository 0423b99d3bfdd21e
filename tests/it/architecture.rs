//! The layers of the house: a module uses only those below its own. Between crates the compiler sees to it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::modules::Modules;

const LAYERS: [(&str, u8); 10] = [
    ("config", 1),
    ("functions", 2),
    ("predicate", 3),
    ("program", 4),
    ("exec", 6),
    ("optimizer", 7),
    ("sql", 8),
    ("tables", 9),
    ("session", 10),
    ("dataframe", 10),
];
const FRONT_DOOR: u8 = 10;

#[test]
fn modules_use_only_lower_layers() {
    let mut wrong = Vec::new();
    for (path, text) in sources(&[root().join("src")]) {
        let own = module_of(&path);
        for used in text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(used_modules) {
            let allowed = used == own || layer(&used) < layer(&own) || layer(&own) == FRONT_DOOR;
            if !allowed {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let folders = crates.chain([root().join("src")]);
    let roots = folders.flat_map(|folder| ["lib.rs", "main.rs"].map(|name| folder.join(name)));
    let roots: Vec<PathBuf> = roots.filter(|path| path.exists()).collect();
    assert!(roots.len() > 5, "the crates were not found");
    let circles = |path: &PathBuf| {
        let circles = Modules::read(path).circles();
        circles.into_iter().map(|circle| format!("{}: {}", path.display(), circle.join(", "))).collect::<Vec<_>>()
    };
    let circles: Vec<String> = roots.iter().flat_map(circles).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn every_module_says_what_it_is_for_and_is_short() {
    let mut wrong = Vec::new();
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let folders: Vec<PathBuf> = crates.chain([root().join("src")]).collect();
    for (path, text) in sources(&folders) {
        if !text.starts_with("//!") && !text.starts_with("#![doc = include_str!") {
            wrong.push(format!("{} does not begin with //!", path.display()));
        }
        let code = text.split("#[cfg(test)]").next().map_or(0, |before| before.lines().count());
        if code > 600 {
            wrong.push(format!("{} has {code} lines before its tests", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folders: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    folders.iter().for_each(|folder| visit(folder, &mut found));
    assert!(found.len() > 20, "the sources were not found");
    found
}

fn visit(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

fn module_of(path: &Path) -> String {
    let first = path.strip_prefix(root().join("src")).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// The names after `crate::` in a line, also in the braces of `use crate::{..}`.
fn used_modules(line: &str) -> Vec<String> {
    let after = line.split("crate::").skip(1);
    let heads = after.flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => group.split(',').map(str::to_owned).collect(),
        None => vec![rest.to_owned()],
    });
    let name = |head: String| head.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    heads.map(name).filter(|name| LAYERS.iter().any(|(module, _)| module == name)).collect()
}

fn layer(module: &str) -> u8 {
    LAYERS.iter().find(|(name, _)| *name == module).map_or(FRONT_DOOR, |(_, layer)| *layer)
}
