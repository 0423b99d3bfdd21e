//! Progress of long queries, on the terminal's standard error.
//!
//! A thread of its own reads the metrics of the running plan, so that it also draws while every worker of the
//! runtime computes. Nothing is drawn in the first two seconds, and nothing is left when the query ends.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion_similarity::exec::{JoinInputs, JoinSpec, MatchingDependencyBlockExec, SimilarityJoinExec};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A query shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);
const REDRAW: Duration = Duration::from_millis(100);

/// Shows the progress of one query at a time.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    current: Arc<Mutex<Weak<Watch>>>,
}

impl Progress {
    /// Progress on standard error, if that is a terminal.
    pub fn on_terminal() -> Option<Self> {
        io::stderr().is_terminal().then(Self::default)
    }

    /// Shows the progress of `plan` as long as the watch is held by somebody.
    pub fn watch(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<Watch> {
        let mut current = lock(&self.current);
        // the partitions of one plan share a watch
        if let Some(watch) = current.upgrade() {
            return watch;
        }
        let watch = Arc::new(Watch::start(Arc::clone(plan)));
        *current = Arc::downgrade(&watch);
        watch
    }

    /// Removes what is shown, without waiting for an interrupted query to wind up.
    pub fn clear(&self) {
        let watch = lock(&self.current).upgrade();
        if let Some(watch) = watch {
            watch.stop();
        }
    }
}

/// A query under watch. Once it is stopped or dropped, nothing is on the terminal any more.
#[derive(Debug)]
pub struct Watch {
    drawing: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl Watch {
    fn start(plan: Arc<dyn ExecutionPlan>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let draw = move || {
            let start = Instant::now();
            if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let mut shown = None;
            while stopped.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
                draw(&bar, &mut shown, Figures::of(plan.as_ref()), start.elapsed());
            }
            bar.finish_and_clear();
        };
        // without a thread there is no progress to see, and nothing worse
        let thread = thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Self { drawing: Mutex::new(thread.map(|thread| (stop, thread))) }
    }

    fn stop(&self) {
        if let Some((stop, thread)) = lock(&self.drawing).take() {
            drop(stop);
            // a panic while drawing concerns nobody
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw(bar: &ProgressBar, known: &mut Option<bool>, figures: Figures, elapsed: Duration) {
    let total = figures.known.filter(|&known| known >= figures.probed && known > 0);
    if *known != Some(total.is_some()) {
        bar.set_style(style(total.is_some()));
        *known = Some(total.is_some());
    }
    if let Some(total) = total {
        bar.set_length(total as u64);
        bar.set_position(figures.probed as u64);
    }
    bar.set_message(format!("{} s  {}", elapsed.as_secs(), figures.text(total)));
}

fn style(bounded: bool) -> ProgressStyle {
    let template = if bounded { "[{bar:24}] {wide_msg}" } else { "{wide_msg}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// What the similarity joins of a plan have done so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    joins: usize,
    built: usize,
    probed: usize,
    known: Option<usize>,
    candidates: usize,
    matched: usize,
    /// Rows that the leaves of the plan have read.
    read: usize,
}

impl Figures {
    fn of(plan: &dyn ExecutionPlan) -> Self {
        let mut figures = Self { known: Some(0), ..Self::default() };
        figures.add(plan);
        figures.known = figures.known.filter(|_| figures.joins > 0);
        figures
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        let metrics = plan.metrics();
        let count = |name: &str| {
            metrics.as_ref().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize())
        };
        let children = plan.children();
        if let Some(join) = known_join(plan) {
            self.joins += 1;
            self.known = self.known.zip(join.rows(count("build_rows"))).map(|(all, rows)| all + rows);
            self.built += count("build_rows");
            self.probed += count("probe_rows");
            self.candidates += count("candidates");
            self.matched += count("matched");
        } else if children.is_empty() {
            self.read += metrics.as_ref().and_then(MetricsSet::output_rows).unwrap_or(0);
        }
        children.into_iter().for_each(|child| self.add(child.as_ref()));
    }

    fn text(&self, total: Option<usize>) -> String {
        if self.joins == 0 || (self.built == 0 && self.probed == 0) {
            return if self.read == 0 { "running".into() } else { format!("{} rows read", thousands(self.read)) };
        }
        let of = total.map_or(String::new(), |total| format!(" of {}", thousands(total)));
        format!(
            "{}{of} rows probed, {} candidates, {} matches",
            thousands(self.probed),
            thousands(self.candidates),
            thousands(self.matched)
        )
    }
}

/// What progress needs of a join.
struct KnownJoin<'a> {
    inputs: &'a JoinInputs,
    spec: &'a JoinSpec,
}

fn known_join(plan: &dyn ExecutionPlan) -> Option<KnownJoin<'_>> {
    if let Some(join) = plan.downcast_ref::<SimilarityJoinExec>() {
        return Some(KnownJoin { inputs: join.inputs(), spec: join.spec() });
    }
    let join = plan.downcast_ref::<MatchingDependencyBlockExec>()?;
    Some(KnownJoin { inputs: join.inputs(), spec: join.spec() })
}

impl KnownJoin<'_> {
    /// The rows that a join is going to probe: in a self-join those it has built from, else what statistics know.
    fn rows(&self, built: usize) -> Option<usize> {
        match self.inputs {
            JoinInputs::SelfJoin { .. } | JoinInputs::PartitionedSelfJoin { .. } => Some(built),
            JoinInputs::Two { .. } | JoinInputs::Partitioned { .. } => self.spec.probe_rows,
        }
    }
}

fn thousands(count: usize) -> HumanCount {
    HumanCount(count as u64)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    #[test]
    fn figures_read_well() {
        let join =
            Figures { joins: 1, built: 5, probed: 1234, candidates: 1_000_000, matched: 7, ..Figures::default() };
        assert_eq!(join.text(None), "1,234 rows probed, 1,000,000 candidates, 7 matches");
        assert_eq!(join.text(Some(5000)), "1,234 of 5,000 rows probed, 1,000,000 candidates, 7 matches");
        let before = Figures { joins: 1, read: 4321, ..Figures::default() };
        assert_eq!(before.text(Some(5000)), "4,321 rows read");
        assert_eq!(Figures::default().text(None), "running");
    }

    #[test]
    fn partitions_share_a_watch_until_it_ends() {
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        assert_eq!(Figures::of(plan.as_ref()), Figures::default());
        let progress = Progress::default();
        let first = progress.watch(&plan);
        assert!(Arc::ptr_eq(&first, &progress.watch(&plan)));
        progress.clear();
        drop(first);
        assert_eq!(Arc::strong_count(&progress.watch(&plan)), 1);
    }
}
