//! A plan of rules as EXPLAIN shows it.

use std::fmt;

use super::rule_plan::{AtomKind, Entry, EntryGroup, RulePlan};

/// A plan with the names of its atoms.
pub struct DisplayPlan<'a> {
    plan: &'a RulePlan,
    labels: &'a [String],
    indexes: &'a [String],
}

impl RulePlan {
    /// The plan with the atoms called by `labels`; of each entry, where they are known, what its index has chosen.
    pub fn display<'a>(&'a self, labels: &'a [String], indexes: &'a [String]) -> DisplayPlan<'a> {
        DisplayPlan { plan: self, labels, indexes }
    }
}

impl fmt::Display for DisplayPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, group) in self.plan.groups.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            f.write_str(&self.entry(at, group))?;
            Self::tree(group, f, |atom| self.step(group, atom, " "), "-> clause ")?;
        }
        Ok(())
    }
}

impl DisplayPlan<'_> {
    /// The entries and trees in as few words as there can be, with the numbers of the atoms.
    pub fn compact(&self) -> String {
        let numbers = |atoms: &[usize]| atoms.iter().map(|atom| format!("#{}", atom + 1)).collect::<Vec<_>>().join(" ");
        let entry = |group: &EntryGroup| match &group.entry {
            Entry::Hash(keys) => format!("hash [{}]", numbers(keys)),
            Entry::Band { atom, keys } => format!("band [{}]", numbers(&[&[*atom], keys.as_slice()].concat())),
            Entry::Index { atom, keys } => format!("index [{}]", numbers(&[&[*atom], keys.as_slice()].concat())),
        };
        let groups = self.plan.groups.iter().map(|group| {
            let mut text = entry(group);
            // writing to a string does not fail
            let _ = Self::tree(group, &mut text, |atom| numbers(&[atom]), ">");
            text
        });
        groups.collect::<Vec<_>>().join("; ")
    }

    /// The execution trees in the language of Graphviz: entries above, clauses below.
    pub fn graphviz(&self) -> String {
        let mut lines = vec!["digraph execution_trees {".to_owned(), "    node [shape=box]".to_owned()];
        for (number, group) in self.plan.groups.iter().enumerate() {
            lines.push(format!("    entry{number} [shape=cds label={}]", quoted(&self.entry(number, group))));
            let clause = |clause: usize| format!("clause{}", clause + 1);
            for &clause_number in &group.clauses {
                lines.push(format!(
                    "    {} [shape=oval label=\"clause {}\"]",
                    clause(clause_number),
                    clause_number + 1
                ));
            }
            if let Some(certain) = group.tree.certain {
                lines.push(format!("    entry{number} -> {}", clause(certain)));
            }
            // the steps above the next one
            let mut above: Vec<String> = Vec::new();
            for (at, step) in group.tree.steps.iter().enumerate() {
                let name = format!("step{number}_{at}");
                lines.push(format!("    {name} [label={}]", quoted(&self.step(group, step.atom, "\n"))));
                above.truncate(step.depth);
                let parent = above.last().cloned().unwrap_or_else(|| format!("entry{number}"));
                lines.push(format!("    {parent} -> {name}"));
                lines.extend(step.witness.map(|witness| format!("    {name} -> {}", clause(witness))));
                above.push(name);
            }
        }
        lines.push("}".to_owned());
        lines.join("\n")
    }

    fn entry(&self, number: usize, group: &EntryGroup) -> String {
        let (equalities, conditions): (Vec<usize>, Vec<usize>) =
            group.entry.keys().iter().partition(|&&key| self.plan.kinds[key] == AtomKind::Equality);
        let list = |before: &str, atoms: &[usize]| match atoms {
            [] => String::new(),
            atoms => {
                let names: Vec<_> = atoms.iter().map(|&atom| self.name(atom)).collect();
                format!("{before} [{}]", names.join(", "))
            }
        };
        let (within, of) = (list(" within", &equalities), list(" where", &conditions));
        let entry = match &group.entry {
            Entry::Hash(_) if equalities.is_empty() => format!("all pairs{of}"),
            Entry::Hash(_) => format!("{}{of}", list("hash", &equalities)),
            Entry::Band { atom, .. } => format!("band [{}]{within}{of}", self.name(*atom)),
            Entry::Index { atom, .. } => {
                let chosen = self.indexes.get(number).map(|chosen| format!(" ({chosen})")).unwrap_or_default();
                return format!("index [{}]{within}{of}{chosen}", self.name(*atom));
            }
        };
        let walked = self.indexes.get(number).filter(|walked| !walked.is_empty());
        let walked = walked.map(|walked| format!(" ({walked})")).unwrap_or_default();
        format!("{entry} {} partners a row{walked}", rounded(group.partners))
    }

    /// The tree on one line, its steps as `step` writes them, and clauses behind `arrow`.
    fn tree(group: &EntryGroup, f: &mut impl fmt::Write, step: impl Fn(usize) -> String, arrow: &str) -> fmt::Result {
        let witness = |clause: usize| format!(" {arrow}{}", clause + 1);
        if let Some(clause) = group.tree.certain {
            return f.write_str(&witness(clause));
        }
        f.write_str(" {")?;
        let mut depth = 0;
        for (at, node) in group.tree.steps.iter().enumerate() {
            f.write_str(&"}".repeat(depth - node.depth.min(depth)))?;
            if at > 0 {
                f.write_str(if node.depth > depth { " {" } else { " | " })?;
            }
            depth = node.depth;
            f.write_str(&step(node.atom))?;
            f.write_str(&node.witness.map(witness).unwrap_or_default())?;
        }
        f.write_str(&"}".repeat(depth + 1))
    }

    fn step(&self, group: &EntryGroup, atom: usize, separator: &str) -> String {
        let estimate = group.estimates[atom];
        let (cost, passes) = (rounded(estimate.cost), rounded(100.0 * estimate.passes));
        format!("{}{separator}[{cost} ns, {passes} %]", self.name(atom))
    }

    fn name(&self, atom: usize) -> String {
        format!("#{} {}", atom + 1, self.labels.get(atom).map_or("", String::as_str))
    }
}

/// Three significant digits.
fn rounded(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n => format!("{n:.3}"),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
