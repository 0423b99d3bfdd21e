//! `--estimate`: what a rule would find and take, from a sample.

use datafusion::common::Result;

use super::input::Input;
use super::query::{collect, frame, literal};
use super::rule::Rule;
use crate::shell::Shell;

/// Prints the estimates for pairs of one input or of two, clause by clause.
pub async fn show(shell: &Shell, inputs: &[&Input], rule: &Rule) -> Result<()> {
    let tables: Vec<String> = inputs.iter().map(|input| literal(input.table)).collect();
    let unmatchable = match inputs {
        [_] => "left_unmatchable AS unmatchable",
        _ => "left_unmatchable, right_unmatchable",
    };
    let text = format!(
        "SELECT coalesce(CAST(clause AS VARCHAR), 'all') AS clause, candidates, matches, matches_low, matches_high, \
         {unmatchable}, round(seconds, 2) AS seconds, round(bytes / 1e6, 1) AS megabytes \
         FROM estimate_join({}, {})",
        tables.join(", "),
        rule.name
    );
    let result = frame(&shell.ctx, &text).await?;
    let schema = result.schema().inner().clone();
    shell.show(schema, &collect(result).await?)
}
