//! `dedupe`: the rows of a file with their clusters.

use datafusion::common::{Result, plan_err};
use datafusion::prelude::SessionContext;
use similarity_report::Report;

use super::estimate;
use super::figures::{self, Extra, Side};
use super::input::{Input, read_truth, unknown_ids};
use super::job::{Job, Measured};
use super::options::{Dedupe, Method};
use super::query::{self, collect, count, frame, keep, query};
use super::rule::{Rule, score_in_sql};
use crate::shell::Shell;

/// The column of clusters.
const CLUSTER_ID: &str = "cluster_id";

/// Finds the clusters and writes what the options ask for.
pub async fn run(shell: &Shell, options: &Dedupe) -> Result<()> {
    if options.largest.is_some() && options.method != Method::Split {
        return plan_err!("--largest is for --method split");
    }
    if options.method == Method::Split && options.condition.score.is_none() {
        return plan_err!("--method split cuts clusters at their weakest pairs, so it needs a --score");
    }
    let job = Job::begin(shell, &options.outputs)?;
    let ctx = &shell.ctx;
    let input = Input::read(ctx, &options.input, "input", options.id.as_deref()).await?;
    if input.schema.column_with_name(CLUSTER_ID).is_some() {
        return plan_err!("{} has a column {CLUSTER_ID} already; leave it out or rename it", input.file);
    }
    job.check(&input.schema)?;
    let rule = Rule::read(ctx, &options.condition).await?;
    if options.condition.estimate {
        return estimate::show(shell, &[&input], &rule).await;
    }
    let score = options.condition.score.as_deref();
    let extra = match options.outputs.reports() {
        true => Extra::of(ctx, &rule, [input.table; 2], score).await?,
        false => Extra::NONE,
    };
    let pairs = find_pairs(ctx, &input, &rule, &extra, options).await?;
    if ranks(options) {
        job.note_unscored().await?;
    }
    find_members(ctx, &input, options).await?;
    let measures = match &options.outputs.truth {
        Some(path) => {
            let kind = input.id_type()?;
            let clusters = read_truth(ctx, path, "truth", [kind.clone(), kind], true).await?;
            job.note_unknown(
                unknown_ids(ctx, "truth", if clusters { &["l"] } else { &["l", "r"] }, &input).await?,
                &input,
            );
            prepare_truth(ctx, &input, clusters).await?;
            measure(ctx, &input).await?
        }
        None => Vec::new(),
    };

    let Input { table, id, .. } = &input;
    let text = format!(
        "SELECT t.*, m.cluster_id FROM {table} AS t JOIN members AS m ON m.id = t.{id} ORDER BY m.cluster_id, t.{id}"
    );
    let result = frame(ctx, &text).await?;
    let sizes = query(
        ctx,
        "SELECT n, count(*) FROM (SELECT count(*) AS n FROM members GROUP BY cluster_id) GROUP BY n ORDER BY n",
    )
    .await?;
    let sizes: Vec<(u64, u64)> =
        (0..sizes.len()).map(|row| Ok((sizes.count(0, row)?, sizes.count(1, row)?))).collect::<Result<_>>()?;
    let clusters: u64 = sizes.iter().map(|(_, clusters)| clusters).sum();
    let together: u64 = sizes.iter().filter(|(n, _)| *n > 1).map(|(n, clusters)| n * clusters).sum();
    let report = if options.outputs.reports() {
        let facts = [
            ("Rows", figures::number(input.rows)),
            ("Pairs", figures::number(pairs)),
            ("Clusters", figures::number(clusters)),
            ("Rows in clusters of more than one", figures::number(together)),
        ];
        let mut settings = vec![("File", input.file.clone()), ("Id", input.id_name.clone())];
        settings.push(("Method", options.method.name().to_owned()));
        settings.extend(options.largest.map(|largest| ("Largest cluster", figures::number(largest))));
        let kind = options.outputs.truth.as_ref().map(|_| "duplicates");
        let mut report = Report {
            title: format!("Duplicates in {}", input.name),
            facts: figures::facts(facts),
            scores: figures::scores(ctx, &extra).await?,
            measures: measures.iter().map(|(title, rows)| figures::measures(title, rows)).collect::<Result<_>>()?,
            groups_are: "clusters".into(),
            members_are: "rows".into(),
            groups: figures::groups(&sizes),
            largest: figures::largest(ctx, &input, options.outputs.show_values).await?,
            explanations: figures::explanations(ctx, &[&input], &rule, options.outputs.show_values).await?,
            settings: figures::facts(settings),
            ..Report::default()
        };
        figures::sweep(ctx, &extra, kind, &mut report).await?;
        figures::rule(ctx, &rule, &[Side::both(&input)], &mut report).await?;
        Some(report)
    } else {
        None
    };
    let summary = format!(
        "{}, {}, {}, {} in clusters of more than one",
        figures::counted(input.rows, "row"),
        figures::counted(pairs, "pair"),
        figures::counted(clusters, "cluster"),
        figures::counted(together, "row")
    );
    job.finish(result, &measures, report, &summary).await
}

/// Makes the table `pairs` of `l`, `r` and `score`, for a report also `clause` and the extra columns, and returns how
/// many there are.
///
/// A condition may hold for two rows one way round only, so both ways are asked, and a pair is kept once.
async fn find_pairs(
    ctx: &SessionContext,
    input: &Input,
    rule: &Rule,
    extra: &Extra<'_>,
    options: &Dedupe,
) -> Result<u64> {
    let Input { table, id, .. } = input;
    let score = score_in_sql(ctx, options.condition.score.as_deref())?;
    let (mut columns, mut merged) = (extra.columns(), extra.merged());
    if options.outputs.reports() {
        columns += &format!(", matched_clause({}, a, b) AS clause", rule.name);
        merged += ", min(clause) AS clause";
    }
    let text = format!(
        "SELECT least(l, r) AS l, greatest(l, r) AS r, max(score) AS score{merged} FROM \
         (SELECT a.{id} AS l, b.{id} AS r, {score} AS score{columns} \
         FROM {table} AS a JOIN {table} AS b ON match_rule({name}, a, b) AND a.{id} <> b.{id}) GROUP BY 1, 2",
        name = rule.name,
    );
    keep(ctx, "pairs", frame(ctx, &text).await?).await?;
    count(ctx, "SELECT count(*) FROM pairs").await
}

/// Whether the method looks at scores, so that a pair without one links nothing.
fn ranks(options: &Dedupe) -> bool {
    options.condition.score.is_some() && options.method != Method::Components
}

/// Makes the table `members` of every `id` and its `cluster_id`.
async fn find_members(ctx: &SessionContext, input: &Input, options: &Dedupe) -> Result<()> {
    let Input { table, id, .. } = input;
    let links = if ranks(options) { "SELECT l, r, score FROM pairs" } else { "SELECT l, r FROM pairs" };
    let method = match (options.method, options.largest) {
        (Method::Split, Some(largest)) => format!("'split', {largest}"),
        (method, _) => query::literal(method.name()),
    };
    let text = format!(
        "SELECT t.{id} AS id, coalesce(c.cluster_id, t.{id}) AS cluster_id FROM clusters({}, {method}) AS c \
         RIGHT JOIN {table} AS t ON c.id = t.{id}",
        query::literal(links)
    );
    keep(ctx, "members", frame(ctx, &text).await?).await
}

/// Makes pairs and clusters of the truth, whichever of both it has.
async fn prepare_truth(ctx: &SessionContext, input: &Input, clusters: bool) -> Result<()> {
    let Input { table, id, .. } = input;
    let (pairs, members) = if clusters {
        let pairs = "SELECT x.l AS l, y.l AS r FROM truth AS x JOIN truth AS y ON x.r = y.r AND x.l < y.l";
        (pairs.to_owned(), "SELECT l AS id, r AS cluster_id FROM truth".to_owned())
    } else {
        let members = format!(
            "SELECT t.{id} AS id, coalesce(c.cluster_id, t.{id}) AS cluster_id \
             FROM clusters('SELECT l, r FROM truth') AS c RIGHT JOIN {table} AS t ON c.id = t.{id}"
        );
        ("SELECT l, r FROM truth".to_owned(), members)
    };
    keep(ctx, "true_pairs", frame(ctx, &pairs).await?).await?;
    keep(ctx, "true_members", frame(ctx, &members).await?).await
}

async fn measure(ctx: &SessionContext, input: &Input) -> Result<Measured> {
    let rows = if input.rows > 0 { format!(", {}", input.rows) } else { String::new() };
    let pairs = format!("SELECT * FROM evaluate_pairs('SELECT l, r FROM pairs', 'true_pairs', 'duplicates'{rows})");
    let clusters = "SELECT * FROM evaluate_clusters('SELECT id, cluster_id FROM members', 'true_members')";
    Ok(vec![
        ("Pairs of the rule".to_owned(), collect(frame(ctx, &pairs).await?).await?),
        ("Clusters".to_owned(), collect(frame(ctx, clusters).await?).await?),
    ])
}
