//! What is forced in place of what the data would decide, to find out which part of a join is wrong.

use std::fmt;
use std::str::FromStr;

use crate::access_path::AccessPath;

/// Access paths that can be forced.
const PATHS: [AccessPath; 5] = [
    AccessPath::HashBands,
    AccessPath::InvertedIndex,
    AccessPath::PrefixIndex,
    AccessPath::SegmentIndex,
    AccessPath::SignatureTiles,
];

/// Choices that are not left to the data. By default all are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrides {
    /// The access path of indexes that have this one and others.
    pub access_path: Option<AccessPath>,
    /// Whether rows of small groups may be paired without an index.
    pub small_groups: bool,
    /// Whether keys that repeat may be ranked, and strings that repeat compared, once.
    pub repeated: bool,
    /// Whether rows of semi and anti joins may leave the index once they have a partner.
    pub settled: bool,
    /// Whether each of several processes may have an index of all rows, where a join can be divided otherwise.
    pub replicated: bool,
    /// Whether devices do what is too little work to pay: several share every join, and decide the few pairs of an
    /// index.
    pub little_work: bool,
}

impl Overrides {
    /// No override.
    pub const NONE: Self = Self {
        access_path: None,
        small_groups: true,
        repeated: true,
        settled: true,
        replicated: true,
        little_work: false,
    };

    /// The path out of these that is forced, if one is.
    pub fn path<T, const N: usize>(&self, paths: [(AccessPath, T); N]) -> Option<T> {
        paths.into_iter().find(|(path, _)| Some(*path) == self.access_path).map(|(_, path)| path)
    }
}

impl Default for Overrides {
    fn default() -> Self {
        Self::NONE
    }
}

/// Items such as `access_path=prefix index, small_groups=off`.
impl FromStr for Overrides {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut overrides = Self::NONE;
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let unknown = || {
                let paths = PATHS.map(|path| path.to_string()).join(", ");
                format!(
                    "'{item}' is no override; there are access_path=(one of {paths}), small_groups=off, repeated=off, \
                     settled=off, replicated=off and little_work=on"
                )
            };
            match item.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("access_path", value)) => {
                    let path = PATHS.into_iter().find(|path| path.to_string() == value);
                    overrides.access_path = Some(path.ok_or_else(unknown)?);
                }
                Some(("small_groups", "off")) => overrides.small_groups = false,
                Some(("repeated", "off")) => overrides.repeated = false,
                Some(("settled", "off")) => overrides.settled = false,
                Some(("replicated", "off")) => overrides.replicated = false,
                Some(("little_work", "on")) => overrides.little_work = true,
                _ => return Err(unknown()),
            }
        }
        Ok(overrides)
    }
}

impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = |is_on: bool, name: &str| (!is_on).then(|| format!("{name}=off"));
        let path = self.access_path.map(|path| format!("access_path={path}"));
        let decorators = [
            off(self.small_groups, "small_groups"),
            off(self.repeated, "repeated"),
            off(self.settled, "settled"),
            off(self.replicated, "replicated"),
            self.little_work.then(|| "little_work=on".into()),
        ];
        let items: Vec<String> = path.into_iter().chain(decorators.into_iter().flatten()).collect();
        f.write_str(&items.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_they_are_shown() {
        for text in [
            "",
            "access_path=inverted index",
            "access_path=signature tiles, small_groups=off, repeated=off",
            "little_work=on",
        ] {
            assert_eq!(text.parse::<Overrides>().unwrap().to_string(), text);
        }
        assert!(!"replicated=off".parse::<Overrides>().unwrap().replicated);
        assert_eq!(" settled = off ,".parse::<Overrides>().unwrap(), Overrides { settled: false, ..Overrides::NONE });
        for text in ["small_groups", "small_groups=on", "access_path=b-tree", "nothing=off"] {
            assert!(text.parse::<Overrides>().unwrap_err().contains("is no override"), "{text}");
        }
    }
}
