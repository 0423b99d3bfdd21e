//! The figures of a report, from the tables that a task has made.

use std::collections::BTreeSet;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use indicatif::HumanCount;
use similarity_report::{
    Clause as ClauseFigures, Column, Explanation, Fact, Group, Histogram, Measures, Members, Part, Report, Step,
};

use datafusion_similarity::sql::ClauseText;

use super::input::Input;
use super::query::{Rows, column, frame, literal, query};
use super::rule::Rule;

/// Ranges of the histogram of scores.
const RANGES: usize = 20;
/// Clusters whose rows are shown.
const LARGEST: usize = 10;
/// Clauses of which a pair is explained.
const EXPLAINED: usize = 10;
/// Rows of a cluster that are shown.
const SHOWN: u64 = 20;

/// A table and the rows of a rule that come from it.
#[derive(Debug)]
pub struct Side<'a> {
    input: &'a Input,
    left: bool,
    right: bool,
}

impl<'a> Side<'a> {
    pub fn left(input: &'a Input) -> Self {
        Self { input, left: true, right: false }
    }

    pub fn right(input: &'a Input) -> Self {
        Self { input, left: false, right: true }
    }

    pub fn both(input: &'a Input) -> Self {
        Self { input, left: true, right: true }
    }

    /// The columns that a clause reads, one set for each row of the rule that comes from this table.
    fn columns<'c>(&self, clause: &'c ClauseText) -> Vec<&'c BTreeSet<String>> {
        let sides = [(self.left, &clause.left), (self.right, &clause.right)];
        sides.into_iter().filter(|(reads, _)| *reads).map(|(_, columns)| columns).collect()
    }
}

/// A count with commas between thousands.
pub fn number(count: u64) -> String {
    HumanCount(count).to_string()
}

/// A count and what is counted.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", number(count), if count == 1 { "" } else { "s" })
}

/// Lines of a table of two columns.
pub fn facts<'a>(lines: impl IntoIterator<Item = (&'a str, String)>) -> Vec<Fact> {
    lines.into_iter().map(|(name, value)| Fact { name: name.to_owned(), value }).collect()
}

/// Columns of pairs that only a report needs.
#[derive(Debug)]
pub struct Extra<'a> {
    clauses: &'a [ClauseText],
    shown: Option<Shown>,
}

/// What the histogram counts.
#[derive(Debug)]
struct Shown {
    /// The words of users for it.
    of: String,
    /// The column of `pairs`.
    column: &'static str,
    /// The expression over a and b, if the column is an extra one.
    expression: Option<String>,
}

impl<'a> Extra<'a> {
    /// No extra columns.
    pub const NONE: Self = Self { clauses: &[], shown: None };

    /// The columns for a rule between two tables. Without a score the histogram counts the values of the only measure
    /// that the rule compares, if there is one.
    pub async fn of(ctx: &SessionContext, rule: &'a Rule, tables: [&str; 2], score: Option<&str>) -> Result<Self> {
        let shown = match score {
            Some(score) => Some(Shown { of: score.to_owned(), column: "score", expression: None }),
            None => only_measure(ctx, rule, tables).await?,
        };
        Ok(Self { clauses: &rule.clauses, shown })
    }

    /// The columns over rows a and b, with a comma before each.
    pub fn columns(&self) -> String {
        let clause = |(at, clause): (usize, &ClauseText)| format!(", ({}) AS c{at}", clause.sql);
        let clauses: String = self.clauses.iter().enumerate().map(clause).collect();
        let measure = self.shown.as_ref().and_then(|shown| shown.expression.as_ref());
        clauses + &measure.map(|measure| format!(", CAST({measure} AS DOUBLE) AS measure")).unwrap_or_default()
    }

    /// The columns where pairs that differ in their order only become one, with a comma before each.
    pub fn merged(&self) -> String {
        let clauses: String = (0..self.clauses.len()).map(|at| format!(", bool_or(c{at}) AS c{at}")).collect();
        let measure = self.shown.as_ref().and_then(|shown| shown.expression.as_ref());
        clauses + measure.map(|_| ", max(measure) AS measure").unwrap_or_default()
    }
}

async fn only_measure(ctx: &SessionContext, rule: &Rule, [left, right]: [&str; 2]) -> Result<Option<Shown>> {
    let text = format!("SELECT match_scores({}, a, b) AS s FROM {left} AS a, {right} AS b", rule.name);
    let plan = frame(ctx, &text).await?;
    let DataType::Struct(fields) = plan.schema().field(0).data_type() else { return Ok(None) };
    let mut numbers = fields.iter().filter(|field| field.data_type().is_numeric());
    Ok(match (numbers.next(), numbers.next()) {
        (Some(only), None) => Some(Shown {
            of: only.name().clone(),
            column: "measure",
            expression: Some(format!("match_scores({}, a, b)[{}]", rule.name, literal(only.name()))),
        }),
        _ => None,
    })
}

/// The histogram of the scores of `pairs`, none where no score is known.
pub async fn scores(ctx: &SessionContext, extra: &Extra<'_>) -> Result<Option<Histogram>> {
    let Some(Shown { of, column, .. }) = &extra.shown else { return Ok(None) };
    let scored = format!("{column} IS NOT NULL AND NOT isnan({column}) AND abs({column}) < 1e300");
    let text = format!("SELECT count(*) FILTER (WHERE {scored}), count(*) FROM pairs");
    let counted = query(ctx, &text).await?;
    let (known, all) = (counted.count(0, 0)?, counted.count(1, 0)?);
    if known == 0 {
        return Ok(None);
    }
    let ends = query(ctx, &format!("SELECT min({column}), max({column}) FROM pairs WHERE {scored}")).await?;
    let (low, high) = (ends.number(0, 0)?, ends.number(1, 0)?);
    let width = (high - low) / RANGES as f64;
    let mut histogram = Histogram { of: of.clone(), low, high, counts: vec![known], missing: all - known };
    if width > 0.0 {
        let last = RANGES - 1;
        let text = format!(
            "SELECT least(floor(({column} - ({low:?})) / {width:?}), {last}.0), count(*) FROM pairs WHERE {scored} GROUP BY 1"
        );
        let rows = query(ctx, &text).await?;
        histogram.counts = vec![0; RANGES];
        for row in 0..rows.len() {
            histogram.counts[(rows.number(0, row)? as usize).min(last)] += rows.count(1, row)?;
        }
    }
    Ok(Some(histogram))
}

/// Adds measures by threshold to a report with a truth of this kind and with scores from 0 to 1.
pub async fn sweep(ctx: &SessionContext, extra: &Extra<'_>, kind: Option<&str>, report: &mut Report) -> Result<()> {
    let is_score = extra.shown.as_ref().is_some_and(|shown| shown.expression.is_none());
    let (Some(kind), Some(scores), true) = (kind, &report.scores, is_score) else { return Ok(()) };
    if scores.low < 0.0 || scores.high > 1.0 {
        return Ok(());
    }
    let text = format!(
        "SELECT threshold, pairs, precision, recall, f1 FROM threshold_sweep('SELECT l, r, score FROM pairs', \
         'true_pairs', '{kind}', {RANGES}) ORDER BY threshold"
    );
    let rows = query(ctx, &text).await?;
    let step = |row| {
        Ok(Step {
            threshold: rows.number(0, row)?,
            pairs: rows.count(1, row)?,
            precision: rows.number(2, row)?,
            recall: rows.number(3, row)?,
            f1: rows.number(4, row)?,
        })
    };
    report.sweep = (0..rows.len()).map(step).collect::<Result<_>>()?;
    Ok(())
}

/// The measures of one comparison.
pub fn measures(title: &str, batches: &[RecordBatch]) -> Result<Measures> {
    let rows = Rows::of(batches)?;
    let mut values = Vec::new();
    for (at, name) in rows.names().into_iter().enumerate() {
        let value = match rows.text(at, 0)? {
            Some(value) if rows.is_fraction(at) => format!("{:.4}", value.parse::<f64>().unwrap_or(f64::NAN)),
            Some(value) => value,
            None => "unknown".into(),
        };
        values.push(Fact { name, value });
    }
    Ok(Measures { title: title.to_owned(), values })
}

/// Groups by size; large sizes share a line.
pub fn groups(sizes: &[(u64, u64)]) -> Vec<Group> {
    const RANGES: [(u64, u64); 5] = [(11, 20), (21, 50), (51, 100), (101, 1000), (1001, u64::MAX)];
    let mut groups: Vec<Group> = Vec::new();
    for &(members, count) in sizes {
        let name = match RANGES.iter().find(|(from, to)| (*from..=*to).contains(&members)) {
            None => members.to_string(),
            Some((from, u64::MAX)) => format!("{from} or more"),
            Some((from, to)) => format!("{from}–{to}"),
        };
        match groups.last_mut() {
            Some(last) if last.members == name => last.groups += count,
            _ => groups.push(Group { members: name, groups: count }),
        }
    }
    groups
}

/// The largest clusters of `members`, with rows of the table if their values are to be shown.
pub async fn largest(ctx: &SessionContext, input: &Input, values: bool) -> Result<Vec<Members>> {
    let clusters = format!(
        "SELECT cluster_id, count(*) AS n FROM members GROUP BY cluster_id HAVING count(*) > 1 \
         ORDER BY n DESC, cluster_id LIMIT {LARGEST}"
    );
    let found = query(ctx, &clusters).await?;
    let mut largest: Vec<Members> = Vec::new();
    for row in 0..found.len() {
        largest.push(Members { count: found.count(1, row)?, ..Members::default() });
    }
    if !values {
        return Ok(largest);
    }
    let Input { table, id, .. } = input;
    // names that no file has
    let text = format!(
        "SELECT * FROM (SELECT c.__place, row_number() OVER (PARTITION BY m.cluster_id ORDER BY t.{id}) AS __member, t.* \
         FROM {table} AS t JOIN members AS m ON m.id = t.{id} \
         JOIN (SELECT cluster_id, row_number() OVER (ORDER BY n DESC, cluster_id) AS __place FROM ({clusters})) AS c \
         ON c.cluster_id = m.cluster_id) WHERE __member <= {SHOWN} ORDER BY __place, __member"
    );
    let rows = query(ctx, &text).await?;
    let names = rows.names();
    for row in 0..rows.len() {
        let values = (2..names.len()).map(|column| rows.text(column, row)).collect::<Result<_>>()?;
        let place = rows.count(0, row)? as usize;
        if let Some(group) = largest.get_mut(place.wrapping_sub(1)) {
            group.columns = names[2..].to_vec();
            group.rows.push(values);
        }
    }
    Ok(largest)
}

/// Adds what a report tells about a rule and the columns that it reads.
pub async fn rule(ctx: &SessionContext, rule: &Rule, sides: &[Side<'_>], report: &mut Report) -> Result<()> {
    report.rule.clone_from(&rule.definition);
    report.clauses = clauses(ctx, &rule.clauses).await?;
    for side in sides {
        report.columns.extend(columns(ctx, side, &rule.clauses).await?);
        report.unmatchable.extend(unmatchable(ctx, side, &rule.clauses).await?);
    }
    Ok(())
}

/// One pair of each of the first clauses, part by part, with the values that the parts compare if they are to be shown.
/// The inputs are the tables of the row `a` and, if it is another one, of the row `b`.
pub async fn explanations(
    ctx: &SessionContext,
    inputs: &[&Input],
    rule: &Rule,
    values: bool,
) -> Result<Vec<Explanation>> {
    let pairs = format!(
        "SELECT clause, CAST(l AS VARCHAR), CAST(r AS VARCHAR) FROM \
         (SELECT clause, l, r, row_number() OVER (PARTITION BY clause ORDER BY l, r) AS place FROM pairs) \
         WHERE place = 1 AND clause <= {EXPLAINED} ORDER BY clause"
    );
    let pairs = query(ctx, &pairs).await?;
    let all = |of: fn(&Input) -> &str| inputs.iter().map(|input| literal(of(input))).collect::<Vec<_>>().join(", ");
    let (tables, ids) = (all(|input| input.table), all(|input| &input.id));
    let shown = if values { ", 'values'" } else { "" };
    let explain = async |clause: u64, a: &str, b: &str| {
        let text = format!(
            "SELECT part, score, threshold, CAST(holds AS INT){} FROM explain_match({tables}, {ids}, {}, {}, {}{shown}) \
             WHERE clause = {clause} AND clause_holds",
            if values { ", left_value, right_value" } else { "" },
            rule.name,
            literal(a),
            literal(b),
        );
        let rows = query(ctx, &text).await?;
        let part = |row| {
            let number = |column| Ok::<_, DataFusionError>(Some(rows.number(column, row)?).filter(|n| !n.is_nan()));
            Ok(Part {
                text: rows.text(0, row)?.unwrap_or_default(),
                score: number(1)?,
                threshold: number(2)?,
                holds: number(3)?.map(|holds| holds > 0.0),
                values: if values { Some([rows.text(4, row)?, rows.text(5, row)?]) } else { None },
            })
        };
        (0..rows.len()).map(part).collect::<Result<Vec<_>>>()
    };
    let mut explanations = Vec::new();
    for pair in 0..pairs.len() {
        let clause = pairs.count(0, pair)?;
        let (Some(left), Some(right)) = (pairs.text(1, pair)?, pairs.text(2, pair)?) else { continue };
        let mut parts = explain(clause, &left, &right).await?;
        // of one table a pair is kept by its smaller id, whichever way round it matches
        if parts.is_empty() {
            parts = explain(clause, &right, &left).await?;
        }
        if !parts.is_empty() {
            explanations.push(Explanation { clause, parts });
        }
    }
    Ok(explanations)
}

async fn clauses(ctx: &SessionContext, clauses: &[ClauseText]) -> Result<Vec<ClauseFigures>> {
    let each = |at: usize| {
        format!("count(*) FILTER (WHERE c{at}) AS x{at}, count(*) FILTER (WHERE clause = {}) AS y{at}", at + 1)
    };
    let counts: Vec<String> = (0..clauses.len()).map(each).collect();
    let rows = query(ctx, &format!("SELECT {} FROM pairs", counts.join(", "))).await?;
    let figures = |(at, clause): (usize, &ClauseText)| {
        Ok(ClauseFigures { text: clause.sql.clone(), alone: rows.count(2 * at, 0)?, added: rows.count(2 * at + 1, 0)? })
    };
    clauses.iter().enumerate().map(figures).collect()
}

async fn columns(ctx: &SessionContext, side: &Side<'_>, clauses: &[ClauseText]) -> Result<Vec<Column>> {
    let input = side.input;
    let read: BTreeSet<&String> = clauses.iter().flat_map(|clause| side.columns(clause)).flatten().collect();
    let known = |name: &&String| input.schema.column_with_name(name).is_some();
    let names: Vec<&String> = read.into_iter().filter(known).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let of = column(name);
        let is_text = input.schema.field_with_name(name)?.data_type().is_string();
        let blank = if is_text { format!("btrim({of}) = ''") } else { "false".to_owned() };
        counts.push(format!("count(*) FILTER (WHERE {of} IS NULL) AS n{at}, count(*) FILTER (WHERE {blank}) AS b{at}"));
    }
    let rows = query(ctx, &format!("SELECT {} FROM {}", counts.join(", "), input.table)).await?;
    let figures = |(at, name): (usize, &&String)| {
        Ok(Column {
            table: input.name.clone(),
            name: (*name).clone(),
            rows: input.rows,
            nulls: rows.count(2 * at, 0)?,
            blanks: rows.count(2 * at + 1, 0)?,
        })
    };
    names.iter().enumerate().map(figures).collect()
}

/// The rows that have a NULL in each clause, on whichever side they stand.
async fn unmatchable(ctx: &SessionContext, side: &Side<'_>, clauses: &[ClauseText]) -> Result<Option<Fact>> {
    let input = side.input;
    let mut conditions = Vec::new();
    for columns in clauses.iter().flat_map(|clause| side.columns(clause)) {
        let known = columns.iter().filter(|name| input.schema.column_with_name(name).is_some());
        let nulls: Vec<String> = known.map(|name| format!("{} IS NULL", column(name))).collect();
        if nulls.is_empty() {
            // a clause that reads nothing of a row may hold for every row
            return Ok(None);
        }
        conditions.push(format!("({})", nulls.join(" OR ")));
    }
    let text = format!("SELECT count(*) FROM {} WHERE {}", input.table, conditions.join(" AND "));
    let rows = query(ctx, &text).await?;
    Ok(Some(Fact { name: input.name.clone(), value: number(rows.count(0, 0)?) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_groups_share_a_line() {
        let sizes = [(1, 5), (2, 4), (10, 3), (11, 2), (20, 1), (1000, 1), (1001, 1), (5_000_000, 2)];
        let lines: Vec<String> =
            groups(&sizes).iter().map(|group| format!("{} {}", group.members, group.groups)).collect();
        assert_eq!(lines, ["1 5", "2 4", "10 3", "11–20 3", "101–1000 1", "1001 or more 3"]);
        assert!(groups(&[]).is_empty());
    }
}
