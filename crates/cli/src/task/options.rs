//! The options of `dedupe` and `link`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// What can be done with files without writing SQL.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Find the rows of a file that describe the same thing
    ///
    /// Writes the rows with a column cluster_id: rows with the same one are the same thing. Rows of a cluster stand
    /// together.
    ///
    /// Example: similarity-cli dedupe people.csv --id id
    /// --on 'a.born = b.born AND levenshtein(a.name, b.name) <= 2' --out clusters.csv
    Dedupe(Dedupe),
    /// Find the rows of two files that describe the same thing
    ///
    /// Writes the columns left_id, right_id, score and clause, the first clause of the rule that holds.
    ///
    /// Example: similarity-cli link a.csv b.csv --left-id id --right-id id
    /// --on 'jaro_winkler_similarity(a.name, b.name) >= 0.9' --out links.csv
    Link(Link),
    /// Plan queries of shells and hand out their tasks
    #[cfg(feature = "cluster")]
    Scheduler(crate::cluster::SchedulerArgs),
    /// Run tasks of a scheduler
    #[cfg(feature = "cluster")]
    Executor(crate::cluster::ExecutorArgs),
}

#[derive(Debug, Args)]
pub struct Dedupe {
    /// The rows: .csv, .tsv, .parquet or .json, text also as .gz, .bz2, .xz or .zst
    #[arg(value_name = "FILE")]
    pub input: PathBuf,

    #[command(flatten)]
    pub condition: Condition,

    /// Column whose values differ in every row; without it rows are numbered as row_id, from 1
    #[arg(long, value_name = "COLUMN")]
    pub id: Option<String>,

    /// How pairs become clusters
    #[arg(long, value_enum, default_value_t = Method::Components, requires_if("split", "largest"))]
    pub method: Method,

    /// The most members of a cluster, for the method split; pairs of one score are cut together or not at all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub largest: Option<u64>,

    #[command(flatten)]
    pub outputs: Outputs,
}

#[derive(Debug, Args)]
pub struct Link {
    /// The left rows, a in conditions: .csv, .tsv, .parquet or .json, text also compressed
    #[arg(value_name = "LEFT")]
    pub left: PathBuf,

    /// The right rows, b in conditions
    #[arg(value_name = "RIGHT")]
    pub right: PathBuf,

    #[command(flatten)]
    pub condition: Condition,

    /// Column of the left rows whose values differ; without it rows are numbered, from 1
    #[arg(long, value_name = "COLUMN")]
    pub left_id: Option<String>,

    /// Column of the right rows whose values differ; without it rows are numbered, from 1
    #[arg(long, value_name = "COLUMN")]
    pub right_id: Option<String>,

    /// Which of the pairs are links
    #[arg(long, value_enum, default_value_t = Which::All)]
    pub which: Which,

    #[command(flatten)]
    pub outputs: Outputs,
}

/// When two rows are the same thing, and how much so.
#[derive(Debug, Args)]
pub struct Condition {
    /// File with a CREATE MATCHING RULE statement
    #[arg(long, value_name = "FILE", required_unless_present = "on", conflicts_with = "on")]
    pub rule: Option<PathBuf>,

    /// Which rule, where the file has several
    #[arg(long, value_name = "NAME", conflicts_with = "on")]
    pub rule_name: Option<String>,

    /// Condition over two rows a and b, instead of a file
    #[arg(long, value_name = "CONDITION")]
    pub on: Option<String>,

    /// Score of two rows a and b: it ranks pairs, and is shown in the report
    #[arg(long, value_name = "EXPRESSION")]
    pub score: Option<String>,

    /// Say from a sample how many pairs each clause finds and how long it takes, and write nothing
    #[arg(long, conflicts_with_all = ["out", "truth", "report", "charts"])]
    pub estimate: bool,
}

/// What is written, and what it is compared with.
#[derive(Debug, Args)]
pub struct Outputs {
    /// File to write: .csv, .tsv, .parquet or .json; without it the table is printed
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// File of known pairs of ids, or of ids and their clusters, to measure the result by
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,

    /// HTML page to write about the result
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Folder to write the charts of the report to, as .svg and .vl.json
    #[arg(long, value_name = "FOLDER")]
    pub charts: Option<PathBuf>,

    /// Show rows of the largest clusters in the report
    #[arg(long, requires = "report")]
    pub show_values: bool,

    /// Replace files that exist
    #[arg(long)]
    pub overwrite: bool,
}

impl Outputs {
    /// Whether figures are needed that only a report shows.
    pub fn reports(&self) -> bool {
        self.report.is_some() || self.charts.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Rows that a chain of pairs connects
    Components,
    /// The best pair first, each cluster around one row
    Center,
    /// Rows of many pairs first, each with its partners
    Star,
    /// Components, cut at the pairs of the lowest score until clusters are small enough
    Split,
}

impl Method {
    /// The name that SQL knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Components => "components",
            Self::Center => "center",
            Self::Star => "star",
            Self::Split => "split",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Every pair
    All,
    /// The best right row of each left row
    Best,
    /// Pairs that are the best of both rows
    Mutual,
    /// One partner at most, best score first
    OneToOne,
    /// One partner at most, so that the sum of scores is largest
    Optimal,
}

impl Which {
    /// The name that SQL knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Best => "best",
            Self::Mutual => "mutual",
            Self::OneToOne => "one-to-one",
            Self::Optimal => "optimal",
        }
    }
}
