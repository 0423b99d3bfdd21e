//! Pairs of conditions of a match count that are not counted, as rules find them.
//!
//! For a row that is not found here the score exceeds what is counted by what conditions without an index may add, and
//! by nothing where there are none. The best rows are then among the best by what is counted and those found here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use similarity_engine::{BuildContext, Cursor, Limit, Pairs, PrepareContext, Probe};

use crate::exec::engine::{in_turn, is_about_values};
use crate::exec::kept::KeptPart;
use crate::exec::rules::RuleStrategy;
use crate::exec::strategy::{BuildRows, DynBuiltJoin, JoinStrategy, Run};

/// Pairs of a batch at most; where there are more, the index is asked for more rows instead.
const MOST_PAIRS: usize = 1 << 21;

/// Parts of a batch for each thread.
const PARTS: usize = 8;

/// Pairs that a part has at most, and about how many a call of the rules looks at.
const LIMIT: Limit = Limit { pairs: MOST_PAIRS + 1, work: 1 << 20 };

/// Conditions that are not counted, as rules whose pairs are all that satisfy one of them, and maybe others.
#[derive(Debug, Clone)]
pub struct FoundByRules {
    /// The rules.
    pub rules: Arc<RuleStrategy>,
    /// Greatest excess of the score over what is counted, for pairs that the rules do not find.
    pub excess: f64,
}

impl FoundByRules {
    /// What the rules make of the right side; `None` where a key of it cannot be evaluated.
    pub(super) fn build(&self, rows: BuildRows<'_>, context: &BuildContext<'_>) -> Result<Option<KeptPart>> {
        let of_rules = BuildRows { sent: None, kept: None, ranks: None, ..rows };
        match self.rules.build(of_rules, &BuildContext { recall: None, ..*context }) {
            Ok(built) => Ok(built.kept()),
            Err(error) if is_about_values(&error) && !context.cancel.is_cancelled() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The rules over the same rows, of which `kept` was made.
    pub(super) fn reuse(
        &self,
        rows: BuildRows<'_>,
        kept: &KeptPart,
        context: &BuildContext<'_>,
    ) -> Result<Box<DynBuiltJoin>> {
        self.rules.build(BuildRows { sent: None, kept: Some(kept), ranks: None, ..rows }, context)
    }
}

/// The right rows of each left row of a batch.
#[derive(Debug)]
pub(super) struct FoundRows {
    /// Where those of each left row begin, and the end of the last ones.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl FoundRows {
    /// The pairs of `left`; `None` where they are too many, or where a key cannot be evaluated.
    ///
    /// # Errors
    /// A device that fails, a cancelled query.
    pub(super) fn of(rules: &DynBuiltJoin, left: &RecordBatch, context: &PrepareContext<'_>) -> Result<Option<Self>> {
        match Self::pairs(rules, left, context) {
            Ok(parts) => Ok(parts.map(|parts| Self::by_left_row(left.num_rows(), &parts))),
            Err(error) if is_about_values(&error) && !context.cancel.is_cancelled() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn pairs(rules: &DynBuiltJoin, left: &RecordBatch, context: &PrepareContext<'_>) -> Result<Option<Vec<Pairs>>> {
        let prepared = rules.prepare(left, context)?;
        let (parts, found) = ((PARTS * context.threads).max(1), AtomicUsize::new(0));
        let run = Run { limit: LIMIT, cancel: context.cancel, counters: &[] };
        let part = |part: usize| {
            let mut cursor = Cursor { next: prepared.len * part / parts, end: prepared.len * (part + 1) / parts };
            let mut pairs = Pairs::default();
            while !cursor.is_done() && !context.cancel.is_cancelled() && found.load(Ordering::Relaxed) <= MOST_PAIRS {
                let before = pairs.len();
                rules.probe(Probe::Batch(&prepared.batch), &mut cursor, &run, &mut pairs)?;
                found.fetch_add(pairs.len() - before, Ordering::Relaxed);
            }
            Ok(pairs)
        };
        let pairs = in_turn(parts, context.threads, part)?;
        Ok((found.into_inner() <= MOST_PAIRS).then_some(pairs))
    }

    fn by_left_row(left_rows: usize, parts: &[Pairs]) -> Self {
        let mut starts = vec![0; left_rows + 1];
        parts.iter().flat_map(|part| &part.probe).for_each(|&left| starts[left as usize + 1] += 1);
        (0..left_rows).for_each(|row| starts[row + 1] += starts[row]);
        let (mut next, mut rows) = (starts.clone(), vec![0; starts[left_rows] as usize]);
        for (&left, &right) in parts.iter().flat_map(|part| part.probe.iter().zip(&part.build)) {
            let place = &mut next[left as usize];
            rows[*place as usize] = right;
            *place += 1;
        }
        Self { starts, rows }
    }

    /// The right rows of a left row.
    pub(super) fn of_row(&self, left: u32) -> &[u32] {
        &self.rows[self.starts[left as usize] as usize..self.starts[left as usize + 1] as usize]
    }
}
