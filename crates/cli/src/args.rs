//! The command line, as datafusion-cli's.

use std::path::{Path, PathBuf};

use clap::Parser;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreMode;
use datafusion_cli::object_storage::is_stdin_location;
use datafusion_cli::pool_type::PoolType;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;

use crate::task::Task;

/// The heading of options that commands take too.
const GENERAL: &str = "General options";

/// SQL with similarity joins, on Apache DataFusion.
///
/// Without a command this is a shell: it runs statements from -c, -f, a pipe or the prompt.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Args {
    #[command(subcommand)]
    pub task: Option<Task>,

    /// Directory that relative paths in statements start from
    #[arg(short = 'p', long, global = true, help_heading = GENERAL, value_name = "DIRECTORY", value_parser = directory)]
    pub data_path: Option<PathBuf>,

    /// Rows in a batch
    #[arg(short, long, global = true, help_heading = GENERAL, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub batch_size: Option<u64>,

    /// Run queries on the cluster of this scheduler
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT", env = "SIMILARITY_SCHEDULER", value_parser = crate::cluster::host_and_port)]
    pub scheduler: Option<(String, u16)>,

    /// Run these statements, then exit; the first that fails ends the run
    #[arg(short, long, num_args = 1.., value_name = "SQL")]
    pub command: Vec<String>,

    /// Memory for queries, such as 512m or 10g
    #[arg(short, long, global = true, help_heading = GENERAL, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<usize>,

    /// Run the statements of these files, then exit
    #[arg(short, long, num_args = 1.., value_name = "FILE", value_parser = file)]
    pub file: Vec<PathBuf>,

    /// Run these files first, instead of ~/.datafusionrc
    #[arg(short, long, num_args = 0.., value_name = "FILE", value_parser = file, conflicts_with = "file")]
    pub rc: Option<Vec<PathBuf>>,

    /// How results are printed
    #[arg(long, global = true, help_heading = GENERAL, value_enum, default_value_t = PrintFormat::Automatic)]
    pub format: PrintFormat,

    /// Print results only: no version, row counts, times or progress
    #[arg(short, long, global = true, help_heading = GENERAL)]
    pub quiet: bool,

    /// How memory is shared between operators: greedy or fair
    #[arg(long, global = true, help_heading = GENERAL, value_name = "POOL", default_value_t = PoolType::Greedy)]
    pub mem_pool_type: PoolType,

    /// How many of the largest memory consumers an out-of-memory error names
    #[arg(long, global = true, help_heading = GENERAL, value_name = "COUNT", default_value_t = 3)]
    pub top_memory_consumers: usize,

    /// Rows that a table shows: a number, or inf for all
    #[arg(long, global = true, help_heading = GENERAL, value_name = "ROWS", default_value = "40")]
    pub maxrows: MaxRows,

    /// Highlight the syntax of what is typed
    #[arg(long)]
    pub color: bool,

    /// Disk space that queries may spill to, such as 100g
    #[arg(short, long, global = true, help_heading = GENERAL, value_name = "SIZE", value_parser = size)]
    pub disk_limit: Option<usize>,

    /// What to tell about requests to object stores: disabled, summary or trace
    #[arg(long, value_name = "MODE", default_value_t = InstrumentedObjectStoreMode::Disabled)]
    pub object_store_profiling: InstrumentedObjectStoreMode,
}

impl Args {
    /// Whether the statements come from standard input, typed or piped.
    pub fn reads_commands_from_stdin(&self) -> bool {
        self.command.is_empty() && self.file.is_empty()
    }

    /// Whether standard input holds statements, so that no table can be read from it.
    pub fn stdin_is_taken(&self) -> bool {
        let is_stdin = |file: &PathBuf| file.to_str().is_some_and(is_stdin_location);
        self.task.is_none() && self.reads_commands_from_stdin() || self.file.iter().any(is_stdin)
    }

    /// The files to run before the statements from standard input.
    pub fn startup_files(&self) -> Vec<PathBuf> {
        match &self.rc {
            Some(files) => files.clone(),
            None => std::env::home_dir()
                .map(|home| home.join(".datafusionrc"))
                .filter(|rc| rc.exists())
                .into_iter()
                .collect(),
        }
    }
}

fn directory(path: &str) -> Result<PathBuf, String> {
    if Path::new(path).is_dir() { Ok(path.into()) } else { Err("no such directory".into()) }
}

fn file(path: &str) -> Result<PathBuf, String> {
    let path = Path::new(path);
    if path.exists() && !path.is_dir() { Ok(path.into()) } else { Err("no such file".into()) }
}

/// A number of bytes, with an optional unit: b, k, kb, m, mb, g, gb, t, tb.
fn size(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return Err("the unit is one of b, k, m, g, t".into()),
    };
    let number: usize = digits.parse().map_err(|_| "write a size as 512m or 10g".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more bytes than can be addressed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("5"), Ok(5));
        assert_eq!(size("5b"), Ok(5));
        assert_eq!(size("4K"), Ok(4 << 10));
        assert_eq!(size("20mb"), Ok(20 << 20));
        assert_eq!(size("2G"), Ok(2 << 30));
        assert_eq!(size("3tb"), Ok(3 << 40));
        for wrong in ["", "g", "-1g", "1.5g", "1x", "99999999999t", "1 g"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_options_of_datafusion_cli_are_known() {
        let args = Args::parse_from(
            "cli -b 10 -c a b -m 1g -q --mem-pool-type fair --maxrows inf -d 2g --format csv --color".split(' '),
        );
        assert_eq!(args.command, ["a", "b"]);
        assert_eq!((args.memory_limit, args.disk_limit, args.batch_size), (Some(1 << 30), Some(2 << 30), Some(10)));
        assert!(!args.reads_commands_from_stdin());
        assert!(Args::try_parse_from(["cli", "-b", "0"]).is_err());
        assert!(Args::try_parse_from(["cli", "-f", "/no/such/file"]).is_err());
        assert!(Args::parse_from(["cli"]).stdin_is_taken());
    }

    #[test]
    fn general_options_stand_before_a_command_or_behind_it() {
        for line in ["cli -q -m 1g dedupe a.csv --on true", "cli dedupe a.csv --on true --memory-limit 1g --quiet"] {
            let args = Args::parse_from(line.split(' '));
            assert!(args.quiet && args.memory_limit == Some(1 << 30) && args.task.is_some(), "{line}");
        }
        let args = Args::parse_from("cli -c a dedupe".split(' '));
        assert!(args.task.is_none() && args.command == ["a", "dedupe"]);
        for wrong in [
            "dedupe a.csv",
            "dedupe a.csv --on x --rule y",
            "dedupe a.csv --on x --method split",
            "dedupe a.csv --on x --rule-name r",
            "link a.csv --on x",
            "link a.csv b.csv --on x --which first",
            "dedupe a.csv --on x --show-values",
        ] {
            assert!(Args::try_parse_from(["cli"].into_iter().chain(wrong.split(' '))).is_err(), "{wrong}");
        }
    }
}
