//! A cluster of processes: a scheduler, executors and a shell, each started as a user starts it.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_similarity-cli");

/// One cluster at a time, so that each has the cores for itself.
static CORES: Mutex<()> = Mutex::new(());

type TestResult = Result<(), Box<dyn Error>>;

/// Processes that end with the test.
struct Cluster {
    scheduler: String,
    processes: Vec<Child>,
    data: TempDir,
    _cores: MutexGuard<'static, ()>,
}

impl Cluster {
    /// A scheduler and so many executors of one core, over a Parquet file of so many rows.
    fn start(executors: usize, rows: usize) -> Result<Self, Box<dyn Error>> {
        let cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
        let data = TempDir::new()?;
        let mut scheduler = Command::new(PROGRAM)
            .args(["-q", "scheduler", "--bind", "127.0.0.1:0"])
            .env("RUST_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(File::create(data.path().join("scheduler.log"))?)
            .spawn()?;
        let said = first_line(&mut scheduler)?;
        let address = said.rsplit_once(' ').ok_or("no address")?.1.to_owned();
        let mut cluster = Self { scheduler: address, processes: vec![scheduler], data, _cores: cores };
        for _ in 0..executors {
            let port = free_ports()?.to_string();
            let arguments =
                ["-q", "-m", "1g", "executor", "--scheduler", &cluster.scheduler, "--port", &port, "--cores", "1"];
            let mut executor =
                Command::new(PROGRAM).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
            first_line(&mut executor)?;
            cluster.processes.push(executor);
        }
        let names = format!(
            "COPY (SELECT value AS id, concat(chr(97 + value % 26), md5(CAST(value / 3 AS VARCHAR))) AS name \
             FROM generate_series(1, {rows})) TO '{}' STORED AS PARQUET",
            cluster.data.path().join("names.parquet").display()
        );
        let made = Command::new(PROGRAM).args(["-q", "-c", &names]).output()?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(cluster)
    }

    /// A shell that has the file as a table and runs `query`, here or on the cluster.
    fn shell(&self, on_cluster: bool, query: &str) -> Command {
        let table = format!(
            "CREATE EXTERNAL TABLE names STORED AS PARQUET LOCATION '{}'",
            self.data.path().join("names.parquet").display()
        );
        let mut shell = Command::new(PROGRAM);
        if on_cluster {
            shell.args(["--scheduler", &self.scheduler]);
        }
        shell.args(["-q", "--format", "csv", "-c", &table, query]);
        shell
    }

    /// What a shell has printed, once it has ended.
    fn output(&self, shell: &mut Command) -> Result<Output, Box<dyn Error>> {
        self.ended(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    /// What a shell that runs has printed, once it has ended; a query that waits for ever is a failure.
    fn ended(&self, shell: Child) -> Result<Output, Box<dyn Error>> {
        let (ended, output) = channel();
        std::thread::spawn(move || ended.send(shell.wait_with_output()));
        match output.recv_timeout(Duration::from_secs(120)) {
            Ok(output) => Ok(output?),
            Err(_) => {
                let log = std::fs::read_to_string(self.data.path().join("scheduler.log"))?;
                panic!("a query has not ended; the scheduler says:\n{log}")
            }
        }
    }

    fn executor(&mut self, number: usize) -> &mut Child {
        &mut self.processes[1 + number]
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn first_line(process: &mut Child) -> Result<String, Box<dyn Error>> {
    let output = process.stdout.take().ok_or("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// A port that is free, as is the next one.
fn free_ports() -> Result<u16, Box<dyn Error>> {
    loop {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if first < u16::MAX && TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1)).is_ok() {
            return Ok(first);
        }
    }
}

/// The lines that a shell has printed, sorted.
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

const EDITS: &str = "SELECT a.id, b.id FROM names a SIMILARITY JOIN names b \
                     ON levenshtein(a.name, b.name) <= 1 AND a.id < b.id";

#[test]
fn a_cluster_answers_as_one_process_does() -> TestResult {
    let cluster = Cluster::start(3, 150_000)?;
    let both = |query: &str| -> Result<[Vec<String>; 2], Box<dyn Error>> {
        Ok([
            lines(&cluster.output(&mut cluster.shell(false, query))?),
            lines(&cluster.output(&mut cluster.shell(true, query))?),
        ])
    };
    for query in [
        EDITS,
        "SELECT a.id, b.id FROM names a SIMILARITY JOIN names b ON jaccard(qgrams(a.name, 3), qgrams(b.name, 3)) >= 0.8 \
         AND a.id <> b.id",
        "SELECT count(*), sum(b.id) FROM names a LEFT JOIN names b ON a.name = b.name \
         AND levenshtein(a.name, b.name) <= 1",
        "SELECT a.id, n.id FROM (SELECT * FROM names WHERE id <= 50) a JOIN names n \
         NEAREST 2 BY DISTANCE levenshtein(a.name, n.name)",
        "SELECT count(DISTINCT cluster_id), max(cluster_id) FROM duplicates('names', 'id', \
         'levenshtein(a.name, b.name) <= 1')",
    ] {
        let [here, there] = both(query)?;
        assert!(here.len() > 1, "{query}");
        assert_eq!(there, here, "{query}");
    }
    let explained = cluster.output(&mut cluster.shell(true, &format!("EXPLAIN {EDITS}")))?;
    let explained = lines(&explained).join("\n");
    assert!(explained.contains("slices of one input"), "{explained}");
    Ok(())
}

#[test]
fn a_lost_executor_gives_the_rows_or_an_error() -> TestResult {
    let mut cluster = Cluster::start(2, 150_000)?;
    let expected = lines(&cluster.output(&mut cluster.shell(false, EDITS))?);
    let running = cluster.shell(true, EDITS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    std::thread::sleep(Duration::from_millis(700));
    cluster.executor(0).kill()?;
    let ended = cluster.ended(running)?;
    match ended.status.success() {
        true => assert_eq!(lines(&ended), expected),
        false => {
            let error = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(error.contains("run it again"), "{error}");
        }
    }
    // the other one does all, once the scheduler knows; until then a query may be stopped like the first
    let lost = Instant::now();
    loop {
        let again = cluster.output(&mut cluster.shell(true, EDITS))?;
        if again.status.success() {
            assert_eq!(lines(&again), expected);
            return Ok(());
        }
        let error = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(error.contains("run it again") && lost.elapsed() < Duration::from_secs(60), "{error}");
    }
}

#[test]
fn a_shell_that_ends_stops_its_query() -> TestResult {
    let cluster = Cluster::start(1, 200_000)?;
    let slow = "SELECT count(*) FROM names a JOIN names b ON jaro_similarity(a.name, b.name) >= 0.3 AND a.id < b.id";
    let mut running = cluster.shell(true, slow).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let id = cluster.processes[1].id();
    let moment = Duration::from_millis(200);
    let begun = Instant::now();
    while cpu_seconds(id, moment)? < 0.1 {
        assert!(running.try_wait()?.is_none(), "the query is too fast to be stopped");
        assert!(begun.elapsed() < Duration::from_secs(60), "the executor has nothing to do");
    }
    Command::new("kill").args(["-INT", &running.id().to_string()]).status()?;
    let asked = Instant::now();
    // an executor that lives needs next to nothing
    while cpu_seconds(id, moment)? > 0.02 {
        assert!(asked.elapsed() < Duration::from_secs(20), "the executor still works");
    }
    running.wait()?;
    println!("at rest {:?} after it was asked, in steps of {moment:?}", asked.elapsed());
    Ok(())
}

/// How much processor time a process takes in a while.
fn cpu_seconds(process: u32, during: Duration) -> Result<f64, Box<dyn Error>> {
    let ticks = || -> Result<f64, Box<dyn Error>> {
        let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"))?;
        let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no process")?.1.split_whitespace().collect();
        Ok(fields[11].parse::<f64>()? + fields[12].parse::<f64>()?)
    };
    let before = ticks()?;
    std::thread::sleep(during);
    Ok((ticks()? - before) / 100.0)
}
