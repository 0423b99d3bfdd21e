//! How long a join over all rows would take, and how much memory, from joins over samples.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, displayable};

use super::interval::Rows;

/// Seconds of one core for a pair that an index gives.
const CANDIDATE: f64 = 4e-9;
/// Seconds of one core for a pair whose score is computed.
const VERIFIED: f64 = 15e-9;
/// Seconds of one core for a pair that comes out.
const FOUND: f64 = 60e-9;

/// A join over samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub rows: Rows,
    /// The rows of either side.
    pub joined: [usize; 2],
    pub seconds: f64,
    /// Pairs that its indexes gave, of which some were compared.
    pub candidates: f64,
    pub verified: f64,
    pub found: f64,
    /// Memory of its build sides.
    pub bytes: f64,
    /// Whether an index compares the signatures of all pairs, which no counter shows.
    pub compares_all: bool,
}

impl Run {
    /// What the operators of a plan have counted.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut run = Self {
            rows: Rows::OneTable { all: 0, sampled: 0 },
            joined: [0; 2],
            seconds: 0.0,
            candidates: 0.0,
            verified: 0.0,
            found: 0.0,
            bytes: 0.0,
            compares_all: displayable(plan.as_ref()).indent(false).to_string().contains("signature tiles"),
        };
        let mut ahead = vec![plan];
        while let Some(plan) = ahead.pop() {
            if let Some(metrics) = plan.metrics() {
                let of = |name| metrics.sum_by_name(name).map_or(0.0, |value| value.as_usize() as f64);
                run.candidates += of("candidates");
                run.verified += of("verified");
                run.bytes += of("build_mem_used");
            }
            ahead.extend(plan.children());
        }
        run
    }
}

/// What a join would take over all rows, in seconds and bytes, on so many cores. `half` is the join of half the rows.
pub(super) fn of_all(run: Run, half: Option<Run>, cores: usize) -> (f64, f64) {
    let (all, pairs) = match run.rows {
        Rows::OneTable { all, .. } => ([all as f64; 2], run.rows.pairs()),
        Rows::TwoTables { all, .. } => (all.map(|n| n as f64), run.rows.pairs()),
    };
    let joined = run.joined.map(|n| n as f64);
    // what grows with pairs: by their numbers, or by the time of half of the rows
    let counted = run.candidates * CANDIDATE + run.verified * VERIFIED + run.found * FOUND;
    let counted = (counted / cores.max(1) as f64).min(run.seconds);
    let grown = half.filter(|_| run.compares_all).map_or(0.0, |half| 2.0 * run.seconds - 4.0 * half.seconds);
    let of_pairs = grown.min(run.seconds).max(counted);
    let of_rows = run.seconds - of_pairs;
    let rows = (all[0] + all[1]).max(1.0) / (joined[0] + joined[1]).max(1.0);
    let seconds = of_rows * rows + of_pairs * pairs / run.rows.sampled_pairs().max(1.0);
    // the smaller side is indexed
    let indexed = usize::from(all[1] < all[0]);
    (seconds, run.bytes * (all[indexed] / joined[indexed].max(1.0)).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_grows_with_rows_or_with_pairs() {
        let run = |rows: u64, seconds| Run {
            rows: Rows::OneTable { all: 1000, sampled: rows },
            joined: [rows as usize; 2],
            seconds,
            candidates: 0.0,
            verified: 0.0,
            found: 0.0,
            bytes: 7.0,
            compares_all: true,
        };
        let near = |found: (f64, f64), wanted: f64| assert!((found.0 / wanted - 1.0).abs() < 0.05, "{found:?}");
        near(of_all(run(100, 0.1), Some(run(50, 0.05)), 2), 1.0);
        near(of_all(run(100, 0.1), Some(run(50, 0.025)), 2), 10.0);
        near(of_all(run(100, 0.1), None, 2), 1.0);
        near(of_all(Run { compares_all: false, ..run(100, 0.1) }, Some(run(50, 0.025)), 2), 1.0);
        // a million pairs that were compared count, also where no time shows it
        let compared = Run { verified: 1e6, ..run(100, 0.1) };
        near(of_all(compared, Some(run(50, 0.05)), 2), 0.0925 * 10.0 + 0.0075 * 101.0);
        assert_eq!(of_all(run(100, 0.1), None, 2).1, 70.0);
        assert_eq!(of_all(run(0, 0.0), None, 2).0, 0.0);
    }
}
