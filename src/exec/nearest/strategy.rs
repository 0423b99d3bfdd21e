//! What a nearest join looks for.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{JoinSide, Result};
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::counted::CountedExprs;
use super::found::FoundByRules;
use crate::exec::engine::EngineResult;
use crate::exec::equality;
use crate::exec::spec::{EqualityExprs, of_build};
use crate::functions::nearest::Direction;
use crate::predicate::Condition;
use similarity_engine::BuildContext;
use similarity_engine::choice::EngineSpec;
use similarity_engine::equality::{Groups, Numberer};
use similarity_engine::match_count::MatchCount;
use similarity_engine::nearest::{Wanted, float_key, float_of_key};
use similarity_engine::ranking::Ranking;
use similarity_engine::recall::Recall;

/// The best rows of the right side by a score, within the groups of equality keys.
#[derive(Debug, Clone)]
pub struct NearestStrategy {
    /// How many, at least 1.
    pub rows: usize,
    /// Whether those that tie with the last one come too.
    pub ties: bool,
    /// Which scores are the best ones.
    pub direction: Direction,
    /// The score of a pair.
    pub score: JoinFilter,
    /// Sort keys over the right input that decide between equal scores.
    pub then_by: Vec<PhysicalSortExpr>,
    /// Equalities: only rows that agree in them are ranked.
    pub equalities: Vec<EqualityExprs>,
    /// Conditions: only pairs that satisfy them are ranked.
    pub residual: Vec<JoinFilter>,
    /// The equality of which `residual` is the opposite, and nothing else.
    pub unequal: Option<EqualityExprs>,
    /// Form of the score that an index knows, where there is one.
    pub indexed: Option<IndexedScore>,
    /// What makes the index.
    pub engine: EngineSpec,
}

/// A score that an index ranks by.
#[derive(Debug, Clone)]
pub enum IndexedScore {
    /// The score of a similarity condition.
    Similarity {
        /// Test that computes the score of the left and the right key; its bounds are ignored.
        condition: Condition,
        /// The key of the left side.
        left: PhysicalExprRef,
        /// The key of the right side.
        right: PhysicalExprRef,
    },
    /// How many conditions hold, or the sum of their weights.
    MatchCount {
        /// The conditions, in order.
        conditions: Vec<CountedExprs>,
        /// The weight of each, where they have any.
        weights: Option<Arc<[f64]>>,
        /// Greatest excess of the score over what these conditions add up to. `None` where both are the same.
        excess: Option<f64>,
        /// What finds the pairs of other conditions, where an index serves some.
        found: Option<FoundByRules>,
    },
}

impl IndexedScore {
    /// What an engine ranks the right side by.
    pub fn ranking(&self) -> Ranking {
        match self {
            Self::Similarity { condition, .. } => Ranking::Score(of_build(*condition, JoinSide::Right)),
            Self::MatchCount { conditions, weights, .. } => {
                Ranking::MatchCount(MatchCount { conditions: conditions.len(), weights: weights.clone() })
            }
        }
    }

    /// Greatest excess of a score over what the index says, where scores have to be computed for what is found.
    pub(super) fn excess(&self) -> Option<f64> {
        match self {
            Self::Similarity { .. } => None,
            Self::MatchCount { excess, .. } => *excess,
        }
    }

    /// What finds the pairs of conditions that the index does not count.
    pub(super) fn found(&self) -> Option<&FoundByRules> {
        match self {
            Self::Similarity { .. } => None,
            Self::MatchCount { found, .. } => found.as_ref(),
        }
    }

    /// The best score, as an integer, of a row for which the index has this score, and that exceeds it by no more.
    pub(super) fn best_possible(&self, score: i64, excess: f64) -> i64 {
        match self {
            Self::MatchCount { weights: Some(_), .. } => !float_key(float_of_key(!score) + excess),
            Self::Similarity { .. } | Self::MatchCount { weights: None, .. } => score.saturating_sub(excess as i64),
        }
    }

    /// The expressions.
    pub(super) fn expressions(&self) -> Vec<&PhysicalExprRef> {
        match self {
            Self::Similarity { left, right, .. } => vec![left, right],
            Self::MatchCount { conditions, .. } => conditions.iter().flat_map(CountedExprs::expressions).collect(),
        }
    }
}

/// Neighbours that a condition is checked on at least.
const FEWEST_CHECKED: usize = 16;

/// Neighbours whose scores are computed at least, where an index knows only a part of the score.
const FEWEST_SCORED: usize = 512;

/// Neighbours that are asked for at most where some of them are dropped: fewer than any group has that is divided into
/// clusters, so that there are as many.
const MOST_ASKED: usize = 1024;

impl NearestStrategy {
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { rows: self.rows, ties: self.ties }
    }

    /// What is searched for first at the least.
    pub(super) fn searched(&self) -> Wanted {
        let excess = self.indexed.as_ref().and_then(|score| score.found().map_or(score.excess(), |of| Some(of.excess)));
        self.searched_for(excess)
    }

    /// What is searched for first: more where a condition is checked on what is found, or where scores may exceed by so
    /// much what the index says.
    pub(super) fn searched_for(&self, excess: Option<f64>) -> Wanted {
        let fewest = match excess {
            Some(excess) if excess > 0.0 => FEWEST_SCORED,
            _ if self.residual.is_empty() => return self.wanted(),
            _ => FEWEST_CHECKED,
        };
        Wanted { rows: self.rows.saturating_mul(2).max(fewest), ..self.wanted() }
    }

    /// Whether the neighbours that an index finds are those of the query.
    pub(super) fn is_settled_by_index(&self) -> bool {
        self.residual.is_empty() && self.indexed.as_ref().is_none_or(|score| score.excess().is_none())
    }

    /// What an index of `batch` is asked for, and the recall of it that has to be reached for the recall of the query.
    ///
    /// The condition that two values differ drops no more neighbours of a row than there are rows with one value. As
    /// many more have to be found, where they are few.
    pub(super) fn asked(&self, batch: &RecordBatch, context: &BuildContext<'_>) -> Result<(Wanted, Option<Recall>)> {
        let (Some(recall), Some(unequal)) = (context.recall, &self.unequal) else {
            return Ok((self.searched(), context.recall));
        };
        let Values { nulls, most_equal } = values_of(unequal, batch, context)?;
        let dropped = nulls + most_equal;
        let rows = self.rows.saturating_add(dropped);
        let is_few = dropped <= self.rows.max(FEWEST_CHECKED) && rows <= MOST_ASKED;
        // rows that tie may be any number; a left row with NULL has no neighbour that a sample could tell about
        Ok(match is_few && !self.ties && !(context.self_join && nulls > 0) {
            true => (Wanted { rows, ..self.wanted() }, Some(recall.with_dropped(self.rows, dropped))),
            false => (self.searched(), None),
        })
    }

    pub(super) fn equalities_of(&self, side: JoinSide, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let keys: Vec<_> = self.equalities.iter().map(|e| Arc::clone(e.of(side))).collect();
        equality::evaluate_all(&keys, batch)
    }
}

/// What is known of the values that are to differ.
struct Values {
    /// Rows with NULL.
    nulls: usize,
    /// The most rows with the same value.
    most_equal: usize,
}

fn values_of(unequal: &EqualityExprs, batch: &RecordBatch, context: &BuildContext<'_>) -> Result<Values> {
    let values = equality::evaluate_all(std::slice::from_ref(&unequal.right), batch)?;
    let by = Numberer { threads: context.threads, self_join: false, device: None };
    let (_, codes) = Groups::build(&values, vec![unequal.null_equals_null], by).or_datafusion()?;
    let (mut rows, mut nulls) = (vec![0; batch.num_rows()], 0);
    for code in codes.into_vec().or_datafusion()? {
        *rows.get_mut(code as usize).unwrap_or(&mut nulls) += 1;
    }
    Ok(Values { nulls, most_equal: rows.into_iter().max().unwrap_or(0) })
}
