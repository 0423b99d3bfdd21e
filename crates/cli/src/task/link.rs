//! `link`: the pairs of rows of two files.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;
use similarity_report::Report;

use super::estimate;
use super::figures::{self, Extra, Side};
use super::input::{Input, read_truth, unknown_ids};
use super::job::{Job, Measured};
use super::options::{Link, Which};
use super::query::{collect, count, frame, keep, literal, query};
use super::rule::{Rule, score_in_sql};
use crate::shell::Shell;

/// Finds the links and writes what the options ask for.
pub async fn run(shell: &Shell, options: &Link) -> Result<()> {
    let job = Job::begin(shell, &options.outputs)?;
    let ctx = &shell.ctx;
    let left = Input::read(ctx, &options.left, "left_input", options.left_id.as_deref()).await?;
    let right = Input::read(ctx, &options.right, "right_input", options.right_id.as_deref()).await?;
    let rule = Rule::read(ctx, &options.condition).await?;
    if options.condition.estimate {
        return estimate::show(shell, &[&left, &right], &rule).await;
    }
    let score = options.condition.score.as_deref();
    let extra = match options.outputs.reports() {
        true => Extra::of(ctx, &rule, [left.table, right.table], score).await?,
        false => Extra::NONE,
    };
    let pairs = find_pairs(ctx, [&left, &right], &rule, &extra, score).await?;
    if options.which != Which::All {
        job.note_unscored().await?;
    }
    find_links(ctx, options.which).await?;
    let measures = match &options.outputs.truth {
        Some(path) => {
            read_truth(ctx, path, "true_pairs", [left.id_type()?, right.id_type()?], false).await?;
            job.note_unknown(unknown_ids(ctx, "true_pairs", &["l"], &left).await?, &left);
            job.note_unknown(unknown_ids(ctx, "true_pairs", &["r"], &right).await?, &right);
            measure(ctx, &left, &right).await?
        }
        None => Vec::new(),
    };

    let text = "SELECT l AS left_id, r AS right_id, score, clause FROM links ORDER BY l, score DESC, r";
    let result = frame(ctx, text).await?;
    let links = count(ctx, "SELECT count(*) FROM links").await?;
    let linked = count(ctx, "SELECT count(DISTINCT l) FROM links").await?;
    let report = if options.outputs.reports() {
        let facts = [
            ("Left rows", figures::number(left.rows)),
            ("Right rows", figures::number(right.rows)),
            ("Pairs", figures::number(pairs)),
            ("Links", figures::number(links)),
            ("Left rows with a link", figures::number(linked)),
        ];
        let settings = [
            ("Left file", left.file.clone()),
            ("Left id", left.id_name.clone()),
            ("Right file", right.file.clone()),
            ("Right id", right.id_name.clone()),
            ("Links", options.which.name().to_owned()),
        ];
        let mut report = Report {
            title: format!("Links between {} and {}", left.name, right.name),
            facts: figures::facts(facts),
            scores: figures::scores(ctx, &extra).await?,
            measures: measures.iter().map(|(title, rows)| figures::measures(title, rows)).collect::<Result<_>>()?,
            groups_are: "left rows".into(),
            members_are: "links".into(),
            groups: figures::groups(&sizes(ctx, left.rows - linked).await?),
            explanations: figures::explanations(ctx, &[&left, &right], &rule, options.outputs.show_values).await?,
            settings: figures::facts(settings),
            ..Report::default()
        };
        figures::sweep(ctx, &extra, options.outputs.truth.as_ref().map(|_| "links"), &mut report).await?;
        figures::rule(ctx, &rule, &[Side::left(&left), Side::right(&right)], &mut report).await?;
        Some(report)
    } else {
        None
    };
    let summary = format!(
        "{}, {}, {}, {} with a link",
        figures::counted(left.rows, "left row"),
        figures::counted(right.rows, "right row"),
        figures::counted(links, "link"),
        figures::counted(linked, "left row")
    );
    job.finish(result, &measures, report, &summary).await
}

/// Makes the table `pairs` of `l`, `r`, `score`, `clause` and the extra columns, and returns how many there are.
async fn find_pairs(
    ctx: &SessionContext,
    [left, right]: [&Input; 2],
    rule: &Rule,
    extra: &Extra<'_>,
    score: Option<&str>,
) -> Result<u64> {
    let score = score_in_sql(ctx, score)?;
    let text = format!(
        "SELECT a.{} AS l, b.{} AS r, {score} AS score, matched_clause({name}, a, b) AS clause{} \
         FROM {} AS a JOIN {} AS b ON match_rule({name}, a, b)",
        left.id,
        right.id,
        extra.columns(),
        left.table,
        right.table,
        name = rule.name,
    );
    keep(ctx, "pairs", frame(ctx, &text).await?).await?;
    count(ctx, "SELECT count(*) FROM pairs").await
}

/// Makes the table `links` of the pairs that are wanted.
async fn find_links(ctx: &SessionContext, which: Which) -> Result<()> {
    let pairs = literal("SELECT l, r, score FROM pairs");
    let chosen = match which {
        Which::All => None,
        Which::Best => Some(format!("best_matches({pairs}, 'left')")),
        Which::Mutual => Some(format!("best_matches({pairs}, 'both')")),
        Which::OneToOne => Some(format!("one_to_one({pairs}, 'greedy')")),
        Which::Optimal => Some(format!("one_to_one({pairs}, 'optimal')")),
    };
    let text = match chosen {
        None => "SELECT l, r, score, clause FROM pairs".to_owned(),
        Some(chosen) => format!(
            "SELECT p.l, p.r, p.score, p.clause FROM pairs AS p JOIN {chosen} AS c (l, r, score) ON c.l = p.l AND c.r = p.r"
        ),
    };
    keep(ctx, "links", frame(ctx, &text).await?).await
}

async fn measure(ctx: &SessionContext, left: &Input, right: &Input) -> Result<Measured> {
    let rows = match (left.rows, right.rows) {
        (0, _) | (_, 0) => String::new(),
        (left, right) => format!(", {left}, {right}"),
    };
    let text = format!("SELECT * FROM evaluate_pairs('SELECT l, r FROM links', 'true_pairs', 'links'{rows})");
    Ok(vec![("Links".to_owned(), collect(frame(ctx, &text).await?).await?)])
}

/// How many left rows have so many links.
async fn sizes(ctx: &SessionContext, without: u64) -> Result<Vec<(u64, u64)>> {
    let text = "SELECT n, count(*) FROM (SELECT count(*) AS n FROM links GROUP BY l) GROUP BY n ORDER BY n";
    let rows = query(ctx, text).await?;
    let with = (0..rows.len()).map(|row| Ok((rows.count(0, row)?, rows.count(1, row)?)));
    [Ok((0, without))].into_iter().chain(with).collect()
}
