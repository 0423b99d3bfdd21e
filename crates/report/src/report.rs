//! What a report tells, as plain numbers and texts, and the charts that it holds.

use crate::chart::{Chart, Form, Series};
use crate::number::decimal;

/// A line of a table of two columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What is told.
    pub name: String,
    /// What it is.
    pub value: String,
}

/// A clause of a rule and the pairs that it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// The condition.
    pub text: String,
    /// Pairs for which it holds, whatever other clauses say.
    pub alone: u64,
    /// Pairs for which it holds and no clause before it does.
    pub added: u64,
}

/// Counts of numbers in ranges of equal width.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The expression whose values are counted.
    pub of: String,
    /// The least number.
    pub low: f64,
    /// The greatest number.
    pub high: f64,
    /// The counts of the ranges, in ascending order.
    pub counts: Vec<u64>,
    /// Pairs that have no number.
    pub missing: u64,
}

/// Measures of the pairs whose score is at least a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The threshold.
    pub threshold: f64,
    /// How many pairs there are.
    pub pairs: u64,
    /// The share of these pairs that is true, NaN where there are none.
    pub precision: f64,
    /// The share of true pairs that is among them.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

/// One comparison with a truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measures {
    /// What was compared.
    pub title: String,
    /// The measures.
    pub values: Vec<Fact>,
}

/// How many groups have a number of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The number of members, or a range such as `11–20`.
    pub members: String,
    /// Groups of this size.
    pub groups: u64,
}

/// One group, its values where they may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    /// How many there are.
    pub count: u64,
    /// The names of the columns; none where no values are shown.
    pub columns: Vec<String>,
    /// The first members, `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// One part of a condition and what it says of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The part.
    pub text: String,
    /// The value of the measure that it compares, if it compares one.
    pub score: Option<f64>,
    /// The number that the value is compared with, if it is one.
    pub threshold: Option<f64>,
    /// Whether it holds; `None` where a value is missing.
    pub holds: Option<bool>,
    /// What it compares of either row, `None` for NULL; nothing where no values are shown.
    pub values: Option<[Option<String>; 2]>,
}

/// Why two rows match.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The clause that holds, from 1.
    pub clause: u64,
    /// The parts of the clause.
    pub parts: Vec<Part>,
}

/// A column that the rule reads, and its rows without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The table.
    pub table: String,
    /// The column.
    pub name: String,
    /// Rows of the table.
    pub rows: u64,
    /// Rows where it is NULL.
    pub nulls: u64,
    /// Rows where it holds nothing but blanks.
    pub blanks: u64,
}

/// Everything that a report tells. Parts without figures are left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// The main figures.
    pub facts: Vec<Fact>,
    /// The clauses of the rule, in order.
    pub clauses: Vec<Clause>,
    /// The scores of the pairs.
    pub scores: Option<Histogram>,
    /// Comparisons with a truth.
    pub measures: Vec<Measures>,
    /// Measures by threshold, in ascending order.
    pub sweep: Vec<Step>,
    /// What a group is, as in `clusters`.
    pub groups_are: String,
    /// What a member is, as in `rows`.
    pub members_are: String,
    /// Groups by size, in ascending order.
    pub groups: Vec<Group>,
    /// The largest groups, largest first.
    pub largest: Vec<Members>,
    /// One pair of each clause, in order.
    pub explanations: Vec<Explanation>,
    /// The columns of the rule.
    pub columns: Vec<Column>,
    /// Rows that have a NULL in each clause, by table.
    pub unmatchable: Vec<Fact>,
    /// Settings, versions and times.
    pub settings: Vec<Fact>,
    /// The text of the rule.
    pub rule: String,
}

impl Report {
    /// Draws the charts of all parts that have figures.
    pub fn charts(&self) -> Vec<Chart> {
        [self.clause_chart(), self.score_chart(), self.sweep_chart(), self.group_chart()]
            .into_iter()
            .flatten()
            .collect()
    }

    pub(crate) fn clause_chart(&self) -> Option<Chart> {
        let mut sum = 0;
        let mut cumulative = Vec::new();
        for clause in &self.clauses {
            sum += clause.added;
            cumulative.push(sum as f64);
        }
        let numbers = 1..=self.clauses.len();
        let series = |name: &str, values| Series { name: name.into(), values };
        (!self.clauses.is_empty()).then(|| Chart {
            name: "clauses",
            title: "Pairs by clause of the rule".into(),
            horizontal: "clause".into(),
            vertical: "pairs".into(),
            form: Form::Bars,
            places: numbers.map(|number| number.to_string()).collect(),
            series: vec![
                series("alone", self.clauses.iter().map(|clause| clause.alone as f64).collect()),
                series("added", self.clauses.iter().map(|clause| clause.added as f64).collect()),
                series("cumulative", cumulative),
            ],
        })
    }

    pub(crate) fn score_chart(&self) -> Option<Chart> {
        let scores = self.scores.as_ref().filter(|scores| !scores.counts.is_empty())?;
        let width = (scores.high - scores.low) / scores.counts.len() as f64;
        let place = |at: usize| {
            let from = scores.low + width * at as f64;
            // a chart names a range by its lower end, and needs decimals where ranges are narrow
            decimal(from, if width < 0.01 { 5 } else { 3 })
        };
        Some(Chart {
            name: "scores",
            title: "Pairs by score".into(),
            horizontal: "score from".into(),
            vertical: "pairs".into(),
            form: Form::Bars,
            places: (0..scores.counts.len()).map(place).collect(),
            series: vec![Series {
                name: "pairs".into(),
                values: scores.counts.iter().map(|&count| count as f64).collect(),
            }],
        })
    }

    pub(crate) fn sweep_chart(&self) -> Option<Chart> {
        let series = |name: &str, value: fn(&Step) -> f64| Series {
            name: name.into(),
            values: self.sweep.iter().map(value).collect(),
        };
        (!self.sweep.is_empty()).then(|| Chart {
            name: "thresholds",
            title: "Measures by threshold".into(),
            horizontal: "threshold".into(),
            vertical: "measure".into(),
            form: Form::Lines,
            places: self.sweep.iter().map(|step| decimal(step.threshold, 4)).collect(),
            series: vec![
                series("precision", |step| step.precision),
                series("recall", |step| step.recall),
                series("F1", |step| step.f1),
            ],
        })
    }

    pub(crate) fn group_chart(&self) -> Option<Chart> {
        (!self.groups.is_empty()).then(|| Chart {
            name: "groups",
            title: capitalised(&format!("{} by number of {}", self.groups_are, self.members_are)),
            horizontal: self.members_are.clone(),
            vertical: self.groups_are.clone(),
            form: Form::Bars,
            places: self.groups.iter().map(|group| group.members.clone()).collect(),
            series: vec![Series {
                name: self.groups_are.clone(),
                values: self.groups.iter().map(|group| group.groups as f64).collect(),
            }],
        })
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    first + characters.as_str()
}
