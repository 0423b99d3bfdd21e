//! `explain_match(..)`: why two rows match, part by part of a condition.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Expr;

use super::arguments::Argument;
use super::duplicates::read_condition;
use super::query::{Query, column_name, quoted, relation, session};

/// Name of the function.
pub(super) const EXPLAIN_MATCH: &str = "explain_match";

/// `explain_match(table, id, condition, first, second [, 'values'])`: a row for each part of a condition over two rows.
///
/// The rows are those of the table with these ids. For rows of two tables both tables and both ids come first:
/// `explain_match(left, right, left id, right id, condition, first, second [, 'values'])`. The condition is one over
/// `a` and `b`, or the name of a matching rule.
///
/// Columns: `clause`, the number of the alternative from 1; `part`, its text; `score`, the value of the measure that
/// the part compares, and `threshold`, the constant that it is compared with, if it is one; `holds`, NULL where a value
/// is missing; `clause_holds`. With `'values'` also `left_value` and `right_value`, what the part compares of either
/// row. No rows come out where an id is unknown.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct ExplainMatchFunction;

impl TableFunctionImpl for ExplainMatchFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), EXPLAIN_MATCH)?;
        let argument = |place, what| Argument { function: EXPLAIN_MATCH, place, what };
        let (tables, ids, condition, pair, more, place) = match args.exprs() {
            [table, id, condition, first, second, more @ ..] if more.len() < 2 => {
                ([table, table], [id, id], condition, [first, second], more, [1, 1, 2, 2, 3])
            }
            [left, right, left_id, right_id, condition, first, second, more @ ..] if more.len() < 2 => {
                ([left, right], [left_id, right_id], condition, [first, second], more, [1, 2, 3, 4, 5])
            }
            _ => {
                return plan_err!(
                    "{EXPLAIN_MATCH} takes a table, its id, a condition and two ids, as in {EXPLAIN_MATCH}('people', \
                    'id', \
                     'levenshtein(a.name, b.name) <= 1', 1, 2); 'values' may follow"
                );
            }
        };
        let with_values = match more {
            [] => false,
            [word, ..] => argument(place[4] + 3, "what else to show").one_of(word, &[("values", true)])?,
        };
        let table = |at: usize| -> Result<(String, String)> {
            let of_table = argument(place[at], "the table");
            let expected = "a table, or a query such as 'SELECT * FROM people'";
            let table = relation(of_table.text(tables[at], expected)?, &of_table, state)?;
            Ok((table, column_name(ids[at], &argument(place[at + 2], "the id"), state)?))
        };
        let ((left, left_id), (right, right_id)) = (table(0)?, table(1)?);
        let condition = read_condition(condition, &argument(place[4], "the condition"), state)?;
        let id = |at: usize| match pair[at] {
            Expr::Literal(id, _) if !id.is_null() => Ok(match id.try_as_str().flatten() {
                Some(text) => quoted(text),
                None => id.to_string(),
            }),
            _ => plan_err!("{} is a constant id", argument(place[4] + 1 + at, "an id")),
        };
        let mut parts = Vec::new();
        for (number, clause) in condition.clauses().into_iter().enumerate() {
            for part in clause.parts {
                let [score, threshold] = [part.score, part.threshold]
                    .map(|number| format!("CAST({} AS DOUBLE)", number.as_deref().unwrap_or("NULL")));
                let value = |value: Option<&String>| {
                    value.map_or("CAST(NULL AS VARCHAR)".into(), |value| format!("CAST({value} AS VARCHAR)"))
                };
                let values = match with_values {
                    true => {
                        let (left, right) = part.values.as_ref().map(|(left, right)| (left, right)).unzip();
                        format!(", 'left_value', {}, 'right_value', {}", value(left), value(right))
                    }
                    false => String::new(),
                };
                parts.push(format!(
                    "named_struct('clause', {}, 'part', {}, 'score', {score}, 'threshold', {threshold}, 'holds', CAST(({}) AS BOOLEAN), \
                     'clause_holds', CAST(({}) AS BOOLEAN){values})",
                    number + 1,
                    quoted(&part.sql),
                    part.sql,
                    clause.sql,
                ));
            }
        }
        let columns = ["clause", "part", "score", "threshold", "holds", "clause_holds", "left_value", "right_value"];
        let columns = &columns[..if with_values { 8 } else { 6 }];
        let fields: Vec<String> = columns.iter().map(|name| format!("p['{name}'] AS {name}")).collect();
        let text = format!(
            "SELECT {} FROM (SELECT unnest([{}]) AS p FROM {left} AS a CROSS JOIN {right} AS b \
             WHERE a.{left_id} = {} AND b.{right_id} = {})",
            fields.join(", "),
            parts.join(", "),
            id(0)?,
            id(1)?,
        );
        Query { function: EXPLAIN_MATCH, text }.view(state)
    }
}
