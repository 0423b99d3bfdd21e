//! Pairs by ranking: the best rows of the right input for each row of the left one.
//!
//! The right side is collected. Each of its rows gets a rank (`ranks`), which decides between equal scores, and a group
//! by the equalities of the ON condition. Then either an index finds the best rows of a group and the rest of the
//! condition is checked on them (`indexed`), or every row of the group that satisfies the condition is scored
//! (`scored`).

mod indexed;
mod matcher;
mod ranks;
mod scored;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{DataFusionError, JoinSide, Result, internal_err};
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;

use self::indexed::Indexed;
use self::matcher::{NearestMatcher, PreparedRows, Ranker};
use self::scored::Scored;
use super::equality;
use super::rules::RuleStrategy;
use super::similarity::of_build;
use super::spec::EqualityExprs;
use super::strategy::{BuiltJoin, JoinStrategy};
use crate::exec::engine::{self, EngineResult};
use crate::functions::nearest::Direction;
use crate::predicate::Condition;
use similarity_engine::choice::EngineSpec;
use similarity_engine::cpu;
use similarity_engine::equality::{Groups, Numberer};
use similarity_engine::nearest::Wanted;
use similarity_engine::{BuildContext, KeyColumn};

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
    /// Form of the score that an index knows, where there is one.
    pub indexed: Option<IndexedScore>,
    /// What makes the index.
    pub engine: EngineSpec,
}

/// A score that an index ranks by.
#[derive(Debug, Clone)]
pub struct IndexedScore {
    /// Test that computes the score of the left and the right key; its bounds are ignored.
    pub condition: Condition,
    /// The key of the left side.
    pub left: PhysicalExprRef,
    /// The key of the right side.
    pub right: PhysicalExprRef,
}

/// Neighbours that a condition is checked on at least.
const FEWEST_CHECKED: usize = 16;

impl NearestStrategy {
    fn wanted(&self) -> Wanted {
        Wanted { rows: self.rows, ties: self.ties }
    }

    /// What is searched for first: more where a condition is checked on what is found.
    fn searched(&self) -> Wanted {
        let rows = if self.residual.is_empty() { self.rows } else { self.rows.saturating_mul(2).max(FEWEST_CHECKED) };
        Wanted { rows, ..self.wanted() }
    }

    fn equalities_of(&self, side: JoinSide, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let keys: Vec<_> = self.equalities.iter().map(|e| Arc::clone(e.of(side))).collect();
        equality::evaluate_all(&keys, batch)
    }
}

/// Whether some pair fails, if it is one that has to be scored, so that it is not for an index to fail.
fn is_about_values(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ArrowError(..) | DataFusionError::Execution(_))
}

impl JoinStrategy for NearestStrategy {
    const NAME: &'static str = "NearestJoinExec";
    const DIRECTED: bool = true;
    const IN_CHUNKS: bool = false;

    fn expressions(&self) -> Vec<&PhysicalExprRef> {
        let mut all = vec![self.score.expression()];
        all.extend(self.then_by.iter().map(|tie| &tie.expr));
        all.extend(self.equalities.iter().flat_map(|e| [&e.left, &e.right]));
        all.extend(self.residual.iter().map(JoinFilter::expression));
        all.extend(self.indexed.iter().flat_map(|score| [&score.left, &score.right]));
        all
    }

    fn explain(&self, found: Option<&str>) -> Vec<(&'static str, String)> {
        let direction = self.direction.to_string().to_uppercase();
        let mut items = vec![("k", self.rows.to_string()), ("by", format!("{} {direction}", self.score.expression()))];
        let mut list = |name, items_of: Vec<String>, separator: &str| {
            if !items_of.is_empty() {
                items.push((name, items_of.join(separator)));
            }
        };
        let in_brackets = |all: Vec<String>| if all.is_empty() { all } else { vec![format!("[{}]", all.join(", "))] };
        list("then_by", in_brackets(self.then_by.iter().map(ToString::to_string).collect()), "");
        list("keys", in_brackets(self.equalities.iter().map(ToString::to_string).collect()), "");
        list("filter", self.residual.iter().map(|r| r.expression().to_string()).collect(), " AND ");
        items.push(("ties", self.ties.to_string()));
        let path =
            self.indexed.as_ref().map_or(scored::ACCESS_PATH, |score| cpu::nearest_access_paths(score.condition));
        items.push(("access_path", found.unwrap_or(path).into()));
        items
    }

    fn engine(&self) -> String {
        match &self.indexed {
            Some(score) => self.engine.explain_ranking(engine::platform(), score.condition, self.searched()),
            None => "cpu".into(),
        }
    }

    /// A pair that would not be ranked, were its key evaluated, may stand in the way of others.
    fn equalities_only(&self) -> Option<RuleStrategy> {
        None
    }

    fn build(&self, side: JoinSide, batch: &RecordBatch, context: &BuildContext<'_>) -> Result<Box<dyn BuiltJoin>> {
        if side != JoinSide::Right {
            return internal_err!("a nearest join ranks the rows of its right side");
        }
        let ranks = ranks::ranks(&self.then_by, batch, context)?;
        let (groups, ids) = match self.equalities.as_slice() {
            [] => (None, None),
            equalities => {
                let nulls = equalities.iter().map(|e| e.null_equals_null).collect();
                let by = Numberer { threads: context.threads, self_join: false, device: None };
                let (groups, ids) = Groups::build(&self.equalities_of(side, batch)?, nulls, by).or_datafusion()?;
                let ids = ids.into_vec().or_datafusion()?;
                (context.reserve)(groups.memory() + ids.capacity() * size_of::<u32>()).or_datafusion()?;
                (Some(groups), Some(ids))
            }
        };
        let own_ids = if context.self_join { ids.clone() } else { None };
        let few = ids.as_deref().is_some_and(scored::leave_few_candidates);
        let ranker = match &self.indexed {
            Some(score) if !few => {
                let values = score.right.evaluate(batch).and_then(|values| values.into_array(batch.num_rows()));
                let index = values.and_then(|values| {
                    let keys = KeyColumn { values, groups: ids.clone() };
                    let engine = engine::open(self.engine)?;
                    engine
                        .build_nearest(
                            of_build(score.condition, side),
                            &keys,
                            (ranks.clone(), self.searched()),
                            context,
                        )
                        .or_datafusion()
                });
                match index {
                    Ok(index) => Ranker::Indexed(Indexed::new(index, &score.left, ids, ranks)),
                    Err(error) if is_about_values(&error) && !context.cancel.is_cancelled() => {
                        Ranker::Scored(Scored::of_batch((self, batch), ids, ranks, context)?)
                    }
                    Err(error) => return Err(error),
                }
            }
            // few candidates are scored sooner than compared with each other
            Some(_) => Ranker::Scored(Scored::new(ids.as_deref(), ranks)),
            None => Ranker::Scored(Scored::of_batch((self, batch), ids, ranks, context)?),
        };
        let self_join = match context.self_join {
            true => Some(PreparedRows::self_join(batch, &ranker, own_ids)?),
            false => None,
        };
        Ok(Box::new(NearestMatcher { keys: self.clone(), batch: batch.clone(), groups, ranker, self_join }))
    }
}
