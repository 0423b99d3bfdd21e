//! A plan of rules as EXPLAIN shows it.

use std::fmt;

use super::plan::{Entry, EntryGroup, RulePlan};

/// A plan with the names of its atoms.
pub struct DisplayPlan<'a> {
    plan: &'a RulePlan,
    labels: &'a [String],
}

impl RulePlan {
    /// The plan with the atoms called by `labels`.
    pub fn display<'a>(&'a self, labels: &'a [String]) -> DisplayPlan<'a> {
        DisplayPlan { plan: self, labels }
    }
}

impl fmt::Display for DisplayPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, group) in self.plan.groups.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            self.group(group, f)?;
        }
        Ok(())
    }
}

impl DisplayPlan<'_> {
    fn group(&self, group: &EntryGroup, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |keys: &[usize]| keys.iter().map(|&key| self.name(key)).collect::<Vec<_>>().join(", ");
        match &group.entry {
            Entry::Hash(keys) if keys.is_empty() => f.write_str("all pairs")?,
            Entry::Hash(keys) => write!(f, "hash [{}]", names(keys))?,
            Entry::Band { atom, keys } if keys.is_empty() => write!(f, "band [{}]", self.name(*atom))?,
            Entry::Band { atom, keys } => write!(f, "band [{}] within [{}]", self.name(*atom), names(keys))?,
            Entry::Index { atom, keys } if keys.is_empty() => write!(f, "index [{}]", self.name(*atom))?,
            Entry::Index { atom, keys } => write!(f, "index [{}] within [{}]", self.name(*atom), names(keys))?,
        }
        if !matches!(group.entry, Entry::Index { .. }) {
            write!(f, " {} partners a row", rounded(group.partners))?;
        }
        if let Some(clause) = group.tree.certain {
            return write!(f, " -> clause {}", clause + 1);
        }
        f.write_str(" {")?;
        let mut depth = 0;
        for (at, step) in group.tree.steps.iter().enumerate() {
            for _ in step.depth..depth {
                f.write_str("}")?;
            }
            if at > 0 {
                f.write_str(if step.depth > group.tree.steps[at - 1].depth { " {" } else { " | " })?;
            }
            depth = step.depth;
            let estimate = group.estimates[step.atom];
            let (cost, passes) = (rounded(estimate.cost), rounded(100.0 * estimate.passes));
            write!(f, "{} [{cost} ns, {passes} %]", self.name(step.atom))?;
            if let Some(clause) = step.witness {
                write!(f, " -> clause {}", clause + 1)?;
            }
        }
        for _ in 0..=depth {
            f.write_str("}")?;
        }
        Ok(())
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
