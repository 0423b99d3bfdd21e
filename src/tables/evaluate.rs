//! `evaluate_pairs(..)`, `evaluate_clusters(..)` and `threshold_sweep(..)`: what was found against what is true.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, plan_err};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::Expr;

use super::arguments::Argument;
use super::links::link_query;
use super::query::{Query, session};

/// Names of the functions.
pub(super) const EVALUATE_PAIRS: &str = "evaluate_pairs";
pub(super) const EVALUATE_CLUSTERS: &str = "evaluate_clusters";
pub(super) const THRESHOLD_SWEEP: &str = "threshold_sweep";

/// What the pairs of a truth are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// All pairs of one table that are the same thing, either way round.
    Duplicates,
    /// All pairs of a row of the left table and one of the right that are the same thing, left id first.
    Links,
    /// Some of the [`Duplicates`](Self::Duplicates); a pair that is not among them may be one.
    KnownDuplicates,
    /// Some of the [`Links`](Self::Links); a pair that is not among them may be one.
    KnownLinks,
}

impl Truth {
    /// The word for it in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Duplicates => "duplicates",
            Self::Links => "links",
            Self::KnownDuplicates => "known duplicates",
            Self::KnownLinks => "known links",
        }
    }

    /// Whether the two ids of a pair are of two tables, so that (1, 2) is not (2, 1).
    fn is_of_two_tables(self) -> bool {
        matches!(self, Self::Links | Self::KnownLinks)
    }

    /// Whether a pair that is not among them is false.
    fn is_complete(self) -> bool {
        matches!(self, Self::Duplicates | Self::Links)
    }
}

/// Each truth by its word.
fn kinds() -> [(&'static str, Truth); 4] {
    [Truth::Duplicates, Truth::Links, Truth::KnownDuplicates, Truth::KnownLinks].map(|truth| (truth.name(), truth))
}

/// `evaluate_pairs(found, truth [, kind [, rows [, right rows]]])`: one row of measures of the pairs that were found.
///
/// `found` and `truth` are tables, views or queries whose first two columns are ids. The kind says what the truth is:
///
/// | kind | pairs | pairs that are not in it |
/// |---|---|---|
/// | `'duplicates'` (default) | of one table, either way round | are false |
/// | `'links'` | of two tables, left id first | are false |
/// | `'known duplicates'`, `'known links'` | as above | may be true |
///
/// Columns: `tp`, `fp`, `fn`, `precision`, `recall`, `f1`, `pairs`, `reduction_ratio` (the share of all pairs that were
/// not looked at) and `candidate_ratio` (pairs found for each possible one). The last two are NULL without the numbers
/// of rows, and `fp`, `precision` and `f1` where the truth knows only some pairs. A pair counts once, a pair with a
/// NULL or of an id with itself does not count.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct EvaluatePairsFunction;

impl TableFunctionImpl for EvaluatePairsFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), EVALUATE_PAIRS)?;
        let argument = |place, what| Argument { function: EVALUATE_PAIRS, place, what };
        let [found, truth, more @ ..] = args.exprs() else {
            return plan_err!(
                "{EVALUATE_PAIRS} takes the pairs that were found and those that are true, as in \
                 {EVALUATE_PAIRS}('pairs', 'truth'); a kind and numbers of rows may follow"
            );
        };
        let kind = match more.first() {
            Some(kind) => argument(3, "the kind of truth").one_of(kind, &kinds())?,
            None => Truth::Duplicates,
        };
        let rows = |place: usize| match more.get(place - 3) {
            Some(rows) => argument(place, "a number of rows").positive(rows).map(Some),
            None => Ok(None),
        };
        let possible = match (rows(4)?, rows(5)?, kind.is_of_two_tables()) {
            (None, _, _) => "CAST(NULL AS DOUBLE)".to_owned(),
            (Some(rows), None, false) => format!("{:?}", rows as f64 * (rows as f64 - 1.0) / 2.0),
            (Some(left), Some(right), true) => format!("{:?}", left as f64 * right as f64),
            (Some(_), _, two) => {
                let rows =
                    if two { "two numbers of rows, of the left table and the right" } else { "one number of rows" };
                return plan_err!("{EVALUATE_PAIRS} takes {rows} for this kind of truth");
            }
        };
        if more.len() > 3 {
            return plan_err!("{EVALUATE_PAIRS} takes 2 to 5 arguments, not {}", 2 + more.len());
        }
        let found = pairs(found, &argument(1, "the pairs found"), kind, state)?;
        let truth = pairs(truth, &argument(2, "the true pairs"), kind, state)?;
        let known = if kind.is_complete() { "" } else { "CAST(NULL AS BIGINT) * " };
        let text = format!(
            "SELECT tp, {known}fp AS fp, fn, {precision} AS precision, {recall} AS recall, {f1} AS f1, tp + fp AS \
            pairs, \
             1.0 - (tp + fp) / {possible} AS reduction_ratio, (tp + fp) / {possible} AS candidate_ratio \
             FROM (SELECT count(f.l) FILTER (WHERE t.l IS NOT NULL) AS tp, count(f.l) FILTER (WHERE t.l IS NULL) AS \
             fp, \
             count(t.l) FILTER (WHERE f.l IS NULL) AS fn \
             FROM (SELECT DISTINCT l, r FROM {found}) AS f FULL JOIN (SELECT DISTINCT l, r FROM {truth}) AS t \
             ON f.l = t.l AND f.r = t.r)",
            precision = of_kind(kind, ratio("tp", "tp + fp")),
            recall = ratio("tp", "tp + fn"),
            f1 = of_kind(kind, ratio("2 * tp", "2 * tp + fp + fn")),
        );
        Query { function: EVALUATE_PAIRS, text }.view(state)
    }
}

/// `threshold_sweep(scored, truth [, kind [, steps]])`: a row of measures for each of some thresholds, from one pass
/// over the scored pairs.
///
/// `scored` has two ids and a score; kinds are those of [`EvaluatePairsFunction`]. Thresholds are the scores from 0 to
/// 1 in so many steps, 20 without a number: a pair is found at a threshold where its score is at least that. Columns:
/// `threshold`, `pairs`, `tp`, `fp`, `fn`, `precision`, `recall`, `f1`. A pair with several scores has the best of
/// them.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct ThresholdSweepFunction;

impl TableFunctionImpl for ThresholdSweepFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), THRESHOLD_SWEEP)?;
        let argument = |place, what| Argument { function: THRESHOLD_SWEEP, place, what };
        let [scored, truth, more @ ..] = args.exprs() else {
            return plan_err!(
                "{THRESHOLD_SWEEP} takes scored pairs and the true pairs, as in {THRESHOLD_SWEEP}('pairs', 'truth'); a \
                 kind and a number of steps may follow"
            );
        };
        let (kind, steps) = match more {
            [] => (Truth::Duplicates, 20),
            [kind] => (argument(3, "the kind of truth").one_of(kind, &kinds())?, 20),
            [kind, steps] => (
                argument(3, "the kind of truth").one_of(kind, &kinds())?,
                argument(4, "the number of steps").positive(steps)?,
            ),
            _ => return plan_err!("{THRESHOLD_SWEEP} takes 2 to 4 arguments, not {}", 2 + more.len()),
        };
        if steps > 100_000 {
            return plan_err!("{} is at most 100000", argument(4, "the number of steps"));
        }
        let scored = scored_pairs(scored, &argument(1, "the scored pairs"), kind, state)?;
        let truth = pairs(truth, &argument(2, "the true pairs"), kind, state)?;
        let known = if kind.is_complete() { "" } else { "CAST(NULL AS BIGINT) * " };
        let text = format!(
            "WITH truth AS (SELECT DISTINCT l, r FROM {truth}), \
             scored AS (SELECT l, r, max(score) AS score FROM {scored} GROUP BY l, r), \
             steps AS (SELECT value AS step, CAST(value AS DOUBLE) / {steps}.0 AS threshold FROM generate_series(0, \
             {steps})), \
             judged AS (SELECT {step} AS step, count(*) AS pairs, count(t.l) AS tp \
             FROM scored AS f LEFT JOIN truth AS t ON f.l = t.l AND f.r = t.r WHERE f.score >= 0.0 GROUP BY 1), \
             summed AS (SELECT s.step, s.threshold, \
             coalesce(sum(j.pairs) OVER (ORDER BY s.step DESC), 0) AS pairs, \
             coalesce(sum(j.tp) OVER (ORDER BY s.step DESC), 0) AS tp \
             FROM steps AS s LEFT JOIN judged AS j ON j.step = s.step), \
             counted AS (SELECT threshold, pairs, tp, pairs - tp AS fp, (SELECT count(*) FROM truth) - tp AS fn FROM \
             summed) \
             SELECT threshold, pairs, tp, {known}fp AS fp, fn, {precision} AS precision, {recall} AS recall, {f1} AS \
             f1 \
             FROM counted",
            step = step_of("f.score", steps),
            precision = of_kind(kind, ratio("tp", "tp + fp")),
            recall = ratio("tp", "tp + fn"),
            f1 = of_kind(kind, ratio("2 * tp", "2 * tp + fp + fn")),
        );
        Query { function: THRESHOLD_SWEEP, text }.view(state)
    }
}

/// The largest step whose threshold a score reaches, by the same division that gives the threshold.
fn step_of(score: &str, steps: u64) -> String {
    let guess = format!("CAST(least(floor({score} * {steps}.0), {steps}.0) AS BIGINT)");
    format!(
        "CASE WHEN {guess} < {steps} AND CAST({guess} + 1 AS DOUBLE) / {steps}.0 <= {score} THEN {guess} + 1 \
         WHEN CAST({guess} AS DOUBLE) / {steps}.0 > {score} THEN {guess} - 1 ELSE {guess} END"
    )
}

/// `evaluate_clusters(found, truth)`: one row of measures of clusters, pair by pair and row by row.
///
/// `found` and `truth` are tables, views or queries whose first two columns are an id and its cluster. Only ids that
/// both have count. Columns: `rows`, `found_clusters`, `true_clusters`, `pairwise_precision`, `pairwise_recall`,
/// `pairwise_f1`, `b_cubed_precision`, `b_cubed_recall`, `b_cubed_f1`. An id stands in each table once.
///
/// Source of B-cubed: Bagga and Baldwin, *Entity-based cross-document coreferencing*, 1998.
///
/// # Errors
/// A planning error that names the argument.
#[derive(Debug)]
pub struct EvaluateClustersFunction;

impl TableFunctionImpl for EvaluateClustersFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let state = session(args.session(), EVALUATE_CLUSTERS)?;
        let [found, truth] = args.exprs() else {
            return plan_err!(
                "{EVALUATE_CLUSTERS} takes clusters that were found and those that are true, each an id and a \
                cluster, as \
                 in {EVALUATE_CLUSTERS}('SELECT id, cluster_id FROM found', 'SELECT id, entity FROM truth')"
            );
        };
        let argument = |place, what| Argument { function: EVALUATE_CLUSTERS, place, what };
        let members = |expr: &Expr, argument: Argument| -> Result<String> {
            let (query, columns) = columns_by_place(expr, &argument, state)?;
            match columns.as_slice() {
                [id, cluster, ..] => Ok(format!(
                    "(SELECT {id} AS id, {cluster} AS c FROM {query} WHERE {id} IS NOT NULL AND {cluster} IS NOT NULL)"
                )),
                _ => plan_err!("{argument} have an id and a cluster, not {} columns", columns.len()),
            }
        };
        let found = members(found, argument(1, "the clusters found"))?;
        let truth = members(truth, argument(2, "the true clusters"))?;
        let pairs = |n: &str| format!("sum({n} * ({n} - 1.0) / 2.0)");
        let f1 = |p: &str, r: &str| format!("2.0 * {p} * {r} / nullif({p} + {r}, 0.0)");
        let text = format!(
            "WITH both AS (SELECT f.c AS f, t.c AS t FROM {found} AS f JOIN {truth} AS t ON f.id = t.id), \
             cells AS (SELECT f, t, CAST(count(*) AS DOUBLE) AS n FROM both GROUP BY f, t), \
             sized AS (SELECT f, t, n, sum(n) OVER (PARTITION BY f) AS of_f, sum(n) OVER (PARTITION BY t) AS of_t \
             FROM cells), \
             summed AS (SELECT CAST(sum(n) AS BIGINT) AS rows, count(DISTINCT f) AS found_clusters, \
             count(DISTINCT t) AS true_clusters, {same} AS same, sum(n * (of_f - 1.0) / 2.0) AS in_found, \
             sum(n * (of_t - 1.0) / 2.0) AS in_true, sum(n * n / of_f) / sum(n) AS bp, sum(n * n / of_t) / sum(n) AS \
             br \
             FROM sized), \
             judged AS (SELECT *, same / nullif(in_found, 0.0) AS p, same / nullif(in_true, 0.0) AS r FROM summed) \
             SELECT coalesce(rows, 0) AS rows, found_clusters, true_clusters, p AS pairwise_precision, r AS \
             pairwise_recall, \
             {pairwise} AS pairwise_f1, bp AS b_cubed_precision, br AS b_cubed_recall, {cubed} AS b_cubed_f1 FROM \
             judged",
            same = pairs("n"),
            pairwise = f1("p", "r"),
            cubed = f1("bp", "br"),
        );
        Query { function: EVALUATE_CLUSTERS, text }.view(state)
    }
}

fn ratio(part: &str, whole: &str) -> String {
    format!("CAST({part} AS DOUBLE) / nullif({whole}, 0)")
}

/// A measure that needs to know which pairs are false.
fn of_kind(kind: Truth, measure: String) -> String {
    if kind.is_complete() { measure } else { "CAST(NULL AS DOUBLE)".into() }
}

/// A query as it can stand in FROM, with names for its columns that differ whatever their own names are.
fn columns_by_place(expr: &Expr, argument: &Argument, state: &SessionState) -> Result<(String, Vec<String>)> {
    let (query, columns) = link_query(expr, argument, state)?;
    let columns: Vec<String> = (1..=columns.len()).map(|place| format!("column_{place}")).collect();
    Ok((format!("{query} AS given({})", columns.join(", ")), columns))
}

/// Pairs `l` and `r` of the first two columns, as they can stand in FROM.
fn pairs(expr: &Expr, argument: &Argument, kind: Truth, state: &SessionState) -> Result<String> {
    let (query, columns) = columns_by_place(expr, argument, state)?;
    match columns.as_slice() {
        [left, right, ..] => Ok(of_pairs(&query, left, right, None, kind)),
        _ => plan_err!("{argument} have two ids, not {} columns", columns.len()),
    }
}

/// Pairs `l`, `r` and `score` of three columns, as they can stand in FROM.
fn scored_pairs(expr: &Expr, argument: &Argument, kind: Truth, state: &SessionState) -> Result<String> {
    let (query, columns) = columns_by_place(expr, argument, state)?;
    match columns.as_slice() {
        [left, right, score] => Ok(of_pairs(&query, left, right, Some(score), kind)),
        _ => plan_err!("{argument} have two ids and a score, not {} columns", columns.len()),
    }
}

fn of_pairs(query: &str, left: &str, right: &str, score: Option<&str>, kind: Truth) -> String {
    let score = score.map(|score| format!(", CAST({score} AS DOUBLE) AS score")).unwrap_or_default();
    if kind.is_of_two_tables() {
        return format!(
            "(SELECT {left} AS l, {right} AS r{score} FROM {query} WHERE {left} IS NOT NULL AND {right} IS NOT NULL)"
        );
    }
    // a comparison with NULL is not true
    let turned = |less: &str, more: &str| format!("CASE WHEN {left} < {right} THEN {less} ELSE {more} END");
    format!(
        "(SELECT {} AS l, {} AS r{score} FROM {query} WHERE {left} <> {right})",
        turned(left, right),
        turned(right, left)
    )
}
