//! Reads one rule file in the format of HyperBlocker.
//!
//! ```yaml
//! Preconditions:
//!   Relations:                  # two tables, and the columns of each that the rule may look at
//!     - [0, 0, 1, 2, 3, 4]      # table 0: columns 0 to 4
//!     - [1, 0, 1, 2, 3, 4]      # table 1: columns 0 to 4
//!   Equalities:
//!     - [0, 1, 4, 4]            # tables 0 and 1: column 4 = column 4
//!   Sim:
//!     - [0, 1, 1, 1, 2, 2]      # tables 0 and 1: column 1 is similar to column 1, column 2 to column 2
//!   Threshold:
//!     - [0, 1, 0.89, 0.85]      # how similar, for each pair of Sim
//! Conseq:                       # which columns identify the entity; not part of the condition
//!   Option: Equality
//!   Equality: [0, 1, 0, 0]
//! ```
//!
//! The format: <https://github.com/SICS-Fundamental-Research-Center/HyperBlocker>, "Representation of Rules". Its
//! reader takes the first entry of each list and skips the rest. Here a second entry, an unknown key and a missing
//! threshold are errors, because a predicate that is lost silently makes another rule. `Sim` names no measure: it
//! becomes `jaro_winkler_similarity`, the nearest one to the variant that HyperBlocker's released kernels compute.

use saphyr::{LoadableYamlNode, MarkedYaml};

/// A pair of columns that a rule compares, by their places in the tables.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Predicate {
    /// The line in the file.
    pub line: usize,
    pub left: usize,
    pub right: usize,
    /// How similar the columns have to be; they have to be equal if there is none.
    pub threshold: Option<f64>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    pub line: usize,
    pub message: String,
}

type Node<'a> = MarkedYaml<'a>;
type Parsed<T> = Result<T, Fault>;

/// The predicates of a rule, all of which have to hold: equalities first.
pub(super) fn predicates(text: &str) -> Parsed<Vec<Predicate>> {
    let documents = Node::load_from_str(text).map_err(|error| Fault {
        line: error.marker().line(),
        message: format!("this is no YAML: {}", error.info()),
    })?;
    let [rule] = documents.as_slice() else {
        let message = format!("a rule file holds one YAML document, this one holds {}", documents.len());
        return Err(Fault { line: 1, message });
    };
    let root = Mapping::of(rule, "a rule file", &["Preconditions", "Conseq"])?;
    let conditions = root.required("Preconditions")?;
    let conditions = Mapping::of(conditions, "Preconditions", &["Relations", "Equalities", "Sim", "Threshold"])?;
    let tables = Tables::of(conditions.required("Relations")?)?;
    let mut predicates = match conditions.get("Equalities") {
        Some(list) => tables.columns(list, "Equalities")?,
        None => vec![],
    };
    predicates.extend(tables.similar(conditions.get("Sim"), conditions.get("Threshold"))?);
    if predicates.is_empty() {
        return conditions.fault("Preconditions compare no columns; write at least one pair under Equalities or Sim");
    }
    Ok(predicates)
}

fn fault<T>(node: &Node, message: impl Into<String>) -> Parsed<T> {
    Err(Fault { line: node.span.start.line(), message: message.into() })
}

/// A mapping with known keys.
struct Mapping<'a, 'y> {
    node: &'a Node<'y>,
    name: &'static str,
}

impl<'a, 'y> Mapping<'a, 'y> {
    fn of(node: &'a Node<'y>, name: &'static str, keys: &[&str]) -> Parsed<Self> {
        let Some(mapping) = node.data.as_mapping() else {
            return fault(node, format!("{name} has to be a mapping with the keys {}", keys.join(", ")));
        };
        for key in mapping.keys() {
            if !key.data.as_str().is_some_and(|key| keys.contains(&key)) {
                return fault(key, format!("{name} has no such key; it takes {}", keys.join(", ")));
            }
        }
        Ok(Self { node, name })
    }

    fn get(&self, key: &str) -> Option<&'a Node<'y>> {
        self.node.data.as_mapping_get(key)
    }

    fn required(&self, key: &str) -> Parsed<&'a Node<'y>> {
        self.get(key).map_or_else(|| self.fault(format!("the key {key} is missing in {}", self.name)), Ok)
    }

    fn fault<T>(&self, message: impl Into<String>) -> Parsed<T> {
        fault(self.node, message)
    }
}

/// The numbers that a file gives its left and its right table.
struct Tables {
    left: usize,
    right: usize,
}

impl Tables {
    fn of(relations: &Node) -> Parsed<Self> {
        let form = "Relations takes two lists, each of a table's number and the numbers of its columns, as in \
                    [0, 0, 1, 2]";
        let Some([left, right]) = relations.data.as_sequence().map(Vec::as_slice) else {
            return fault(relations, form);
        };
        let first = |list: &Node| {
            let items = list.data.as_sequence().filter(|items| items.iter().all(|item| index(item).is_some()));
            items.and_then(|items| index(items.first()?)).map_or_else(|| fault(list, form), Ok)
        };
        Ok(Self { left: first(left)?, right: first(right)? })
    }

    /// The pairs of columns in a list `- [left table, right table, column, column, ..]`.
    fn columns(&self, list: &Node, key: &str) -> Parsed<Vec<Predicate>> {
        let items = self.items(list, key)?;
        let (pairs, rest) = items.as_chunks::<2>();
        if let [alone] = rest {
            return fault(alone, format!("{key} lists columns in pairs, left and right; the last one has no partner"));
        }
        let column = |item: &Node| match index(item) {
            Some(column) => Ok(column),
            None => fault(item, format!("a column in {key} is its place in the table: 0, 1, ..")),
        };
        let predicate = |[left, right]: &[Node; 2]| {
            let line = left.span.start.line();
            Ok(Predicate { line, left: column(left)?, right: column(right)?, threshold: None })
        };
        pairs.iter().map(predicate).collect()
    }

    /// The pairs of columns under Sim with their thresholds.
    fn similar(&self, sim: Option<&Node>, thresholds: Option<&Node>) -> Parsed<Vec<Predicate>> {
        let mut predicates = sim.map_or(Ok(vec![]), |sim| self.columns(sim, "Sim"))?;
        let values = thresholds.map_or(Ok(&[][..]), |list| self.items(list, "Threshold"))?;
        if let Some(list) = thresholds.or(sim).filter(|_| values.len() != predicates.len()) {
            let message = "Threshold has to give each pair of Sim a threshold";
            return fault(list, format!("{message}: there are {} for {} pairs", values.len(), predicates.len()));
        }
        for (predicate, value) in predicates.iter_mut().zip(values) {
            let number = value.data.as_floating_point().or(value.data.as_integer().map(|number| number as f64));
            let Some(number) = number.filter(|number| number.is_finite()) else {
                return fault(value, "a threshold is a number, as in 0.85");
            };
            predicate.threshold = Some(number);
        }
        Ok(predicates)
    }

    /// What follows the numbers of the two tables in the only entry of a list.
    fn items<'a, 'y>(&self, list: &'a Node<'y>, key: &str) -> Parsed<&'a [Node<'y>]> {
        let form =
            format!("{key} takes one list that begins with the tables, as in - [{}, {}, ..]", self.left, self.right);
        let entries = list.data.as_sequence().map(Vec::as_slice);
        let items = match entries {
            Some([entry]) => entry.data.as_sequence().map(Vec::as_slice),
            Some([_, second, ..]) => return fault(second, form),
            _ => None,
        };
        match items {
            Some([left, right, items @ ..]) if index(left) == Some(self.left) && index(right) == Some(self.right) => {
                Ok(items)
            }
            _ => fault(list, form),
        }
    }
}

fn index(node: &Node) -> Option<usize> {
    node.data.as_integer().and_then(|number| usize::try_from(number).ok())
}
