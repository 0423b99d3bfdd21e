//! Which modules of a crate use which others, and the circles among them.
//!
//! Paths are read as the compiler reads them: `crate::`, `self::` and `super::`, names that a module has brought in by
//! `use`, and what a module exports again. What only tests use does not count, nor does a name that is exported again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, UseTree, Visibility};

type Name = Vec<String>;

/// A crate's modules.
#[derive(Default)]
pub struct Modules {
    /// What each module brings in, by the name that it has there.
    imports: HashMap<Name, HashMap<String, Name>>,
    /// Paths that each module uses.
    paths: HashMap<Name, Vec<Name>>,
    /// The module whose file each module stands in.
    files: BTreeMap<Name, Name>,
}

impl Modules {
    /// Reads a crate from its `lib.rs` or `main.rs`.
    pub fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.file(root, root.parent().unwrap(), Vec::new());
        modules
    }

    fn file(&mut self, path: &Path, folder: &Path, name: Name) {
        self.files.insert(name.clone(), name.clone());
        let text = fs::read_to_string(path).unwrap();
        let file: File = syn::parse_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.module(&file.items, folder, name);
    }

    fn module(&mut self, items: &[Item], folder: &Path, name: Name) {
        let mut reader = Reader::default();
        for item in items {
            match item {
                Item::Mod(child) if is_for_tests(&child.attrs) => {}
                Item::Mod(child) => {
                    let ident = child.ident.to_string();
                    let folder = folder.join(&ident);
                    let child_name: Name = name.iter().cloned().chain([ident.clone()]).collect();
                    match &child.content {
                        Some((_, items)) => {
                            self.files.insert(child_name.clone(), self.files[&name].clone());
                            self.module(items, &folder, child_name);
                        }
                        None => {
                            let file = folder.with_extension("rs");
                            let file = if file.exists() { file } else { folder.join("mod.rs") };
                            self.file(&file, &folder, child_name);
                        }
                    }
                }
                item => reader.visit_item(item),
            }
        }
        self.imports.insert(name.clone(), reader.imports);
        self.paths.insert(name, reader.paths);
    }

    /// The module in which a path, read in `module`, ends.
    fn resolve(&self, module: &Name, path: &[String], depth: usize) -> Option<Name> {
        if depth > 16 {
            return None;
        }
        let mut at = module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {}
            first => {
                let known = self.is_child(&at, first) || self.imports[&at].contains_key(first);
                if !known {
                    return None;
                }
            }
        }
        while let Some(segment) = rest.first() {
            if segment == "super" {
                at.pop()?;
            } else if self.is_child(&at, segment) {
                at.push(segment.clone());
            } else if let Some(target) = self.imports[&at].get(segment) {
                let path: Name = target.iter().cloned().chain(rest[1..].iter().cloned()).collect();
                return self.resolve(&at, &path, depth + 1);
            } else {
                return Some(at);
            }
            rest = &rest[1..];
        }
        Some(at)
    }

    fn is_child(&self, module: &Name, name: &str) -> bool {
        let child: Name = module.iter().cloned().chain([name.to_owned()]).collect();
        self.files.contains_key(&child)
    }

    /// The files that each one uses, by their modules.
    fn uses(&self) -> BTreeMap<Name, BTreeSet<Name>> {
        let mut uses: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for (module, file) in &self.files {
            let used = self.paths[module].iter().filter_map(|path| self.resolve(module, path, 0));
            let used = used.map(|used| self.files[&used].clone()).filter(|used| used != file);
            uses.entry(file.clone()).or_default().extend(used);
        }
        uses
    }

    /// Files that use each other, directly or through others.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let uses = self.uses();
        let reach: BTreeMap<&Name, BTreeSet<&Name>> = uses.keys().map(|from| (from, reachable(&uses, from))).collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in &reach {
            let circle: Vec<String> =
                reached.iter().filter(|other| reach[**other].contains(module)).map(|m| shown(m)).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

fn shown(module: &Name) -> String {
    if module.is_empty() { "crate".into() } else { module.join("::") }
}

fn reachable<'a>(uses: &'a BTreeMap<Name, BTreeSet<Name>>, from: &'a Name) -> BTreeSet<&'a Name> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Name> = vec![from];
    while let Some(module) = open.pop() {
        for used in &uses[module] {
            if found.insert(used) {
                open.push(used);
            }
        }
    }
    found
}

/// What a module brings in and which paths it uses, without those of its tests.
#[derive(Default)]
struct Reader {
    imports: HashMap<String, Name>,
    paths: Vec<Name>,
}

impl Reader {
    fn import(&mut self, tree: &UseTree, mut path: Name, is_exported: bool) {
        match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.import(&inner.tree, path, is_exported);
            }
            UseTree::Name(name) if name.ident == "self" => {
                let last = path.last().cloned().unwrap_or_default();
                self.imported(last, path, is_exported);
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.imported(name.ident.to_string(), path, is_exported);
            }
            UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.imported(name.rename.to_string(), path, is_exported);
            }
            UseTree::Glob(_) => self.imported("*".into(), path, is_exported),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, path.clone(), is_exported)),
        }
    }

    fn imported(&mut self, name: String, path: Name, is_exported: bool) {
        if !is_exported {
            self.paths.push(path.clone());
        }
        self.imports.insert(name, path);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.import(&item.tree, Vec::new(), !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|a| a.path().is_ident("cfg") && a.meta.require_list().is_ok_and(|l| l.tokens.to_string().contains("test")))
}
