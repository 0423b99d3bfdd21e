//! Pairs by ranking: the best rows of the right input for each row of the left one.
//!
//! The right side is collected. Each of its rows gets a rank (`ranks`), which decides between equal scores, and a group
//! by the equalities of the ON condition. Then either an index finds the best rows of a group and the rest of the
//! condition is checked on them (`indexed`), or every row of the group that satisfies the condition is scored
//! (`scored`). Of a match count the index knows places of values (`counted`). Rules find other conditions (`found`).

mod counted;
mod found;
mod indexed;
mod matcher;
mod ranks;
mod scored;
mod strategy;

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;

pub use self::counted::CountedExprs;
pub use self::found::FoundByRules;
use self::indexed::{Indexed, right_keys};
use self::matcher::{NearestMatcher, PreparedRows, RankedSide, Ranker};
use self::scored::Scored;
pub use self::strategy::{IndexedScore, NearestStrategy};
use super::explain::Explained;
use super::kept::{KeptKey, KeptPart, kept_as};
use super::residual::RowPairs;
use super::same_rows::own_functions;
use super::spec::{EqualityExprs, of_build};
use super::strategy::{BuildRows, DynBuiltJoin, JoinStrategy, PartRanking, StrategyInfo};
use crate::exec::engine::{self, EngineResult, is_about_values};
use crate::predicate::Condition;
use similarity_engine::choice::{Asked, EngineSpec};
use similarity_engine::equality::{Groups, Numberer};
use similarity_engine::nearest::Wanted;
use similarity_engine::recall::Recall;
use similarity_engine::stored::Source;
use similarity_engine::{BuildContext, Erased, KeyColumn};

impl JoinStrategy for NearestStrategy {
    fn info(&self) -> StrategyInfo {
        StrategyInfo { name: "NearestJoinExec", directed: true, divisible: false, is_cheap: false }
    }

    fn expressions(&self) -> Vec<&PhysicalExprRef> {
        let mut all = vec![self.score.expression()];
        all.extend(self.then_by.iter().map(|tie| &tie.expr));
        all.extend(self.equalities.iter().flat_map(|e| [&e.left, &e.right]));
        all.extend(self.residual.iter().map(JoinFilter::expression));
        all.extend(self.indexed.iter().flat_map(IndexedScore::expressions));
        all
    }

    fn explained(&self) -> Explained<'_> {
        Explained::Nearest {
            wanted: self.wanted(),
            searched: self.searched(),
            score: &self.score,
            direction: self.direction,
            then_by: &self.then_by,
            equalities: &self.equalities,
            residual: &self.residual,
            ranking: self.indexed.as_ref().map(IndexedScore::ranking),
            found_by: self.indexed.as_ref().and_then(|score| Some(score.found()?.rules.clauses.len())),
        }
    }

    fn engine(&self) -> EngineSpec {
        self.engine
    }

    fn needs_engine(&self) -> bool {
        self.indexed.is_some()
    }

    /// A pair that would not be ranked, were its key evaluated, may stand in the way of others.
    fn equalities(&self) -> Option<Vec<EqualityExprs>> {
        None
    }

    fn part_ranking(self: Arc<Self>) -> Option<Arc<dyn PartRanking>> {
        Some(self)
    }

    fn kept_key(&self, side: JoinSide, recall: Option<Recall>) -> Option<KeptKey> {
        let (score, name, keys) = match self.indexed.as_ref()? {
            IndexedScore::Similarity { condition, right, .. } => {
                let name = match condition {
                    Condition::Set { measure, .. } => measure.name(),
                    Condition::Edit { measure, .. } => measure.name(),
                    Condition::Vector(condition) => condition.measure.name(),
                };
                (format!("{:?} of {right:?}", of_build(*condition, side)), name, vec![right])
            }
            IndexedScore::MatchCount { conditions, weights, found, .. } => {
                let keys = conditions.iter().flat_map(CountedExprs::expressions).collect();
                let conditions: Vec<_> = conditions.iter().map(CountedExprs::of_right).collect();
                let found = found.as_ref().and_then(|found| found.rules.kept_key(side, None)).map(|key| key.text);
                (format!("{conditions:?} {weights:?} {found:?}"), "match_count", keys)
            }
        };
        let equalities: Vec<_> = self.equalities.iter().map(|e| (&e.right, e.null_equals_null)).collect();
        // a device may rank so many rows and no more, and a recall is reached for so many
        let on_device = self.engine.asked != Asked::Cpu && engine::platform().is_some_and(|kind| kind.has_driver());
        let wanted = (on_device || recall.is_some()).then(|| (self.rows, self.searched()));
        let dropped = recall.and(self.unequal.as_ref()).map(|unequal| &unequal.right);
        let then_by = &self.then_by;
        let text = format!("{score}, then by {then_by:?}, within {equalities:?}, {wanted:?}, {dropped:?}");
        let unequal = self.unequal.iter().map(|unequal| &unequal.right);
        let of_rows = self.then_by.iter().map(|tie| &tie.expr).chain(self.equalities.iter().map(|e| &e.right));
        let found = self.indexed.as_ref().and_then(IndexedScore::found).map(|found| found.rules.expressions());
        let found = found.into_iter().flatten();
        let functions = own_functions(keys.into_iter().chain(of_rows).chain(unequal).chain(found));
        Some(KeptKey { text, label: format!("NEAREST by {name}"), functions })
    }

    fn load(&self, rows: BuildRows<'_>, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<KeptPart> {
        let (groups, ids) = self.groups(rows.side, rows.batch, context)?.unzip();
        let Some(score) = &self.indexed else {
            return internal_err!("a nearest join without an index has none to read");
        };
        let found = score.found().map(|found| found.build(rows, context)).transpose()?.flatten();
        let ranker = Ranker::Indexed(Indexed::load(score, rows.batch, (ids, found), source, context)?);
        Ok(Arc::new(RankedSide { groups, ranker }))
    }

    fn build(&self, rows: BuildRows<'_>, context: &BuildContext<'_>) -> Result<Box<DynBuiltJoin>> {
        let BuildRows { side, batch, kept, ranks, .. } = rows;
        if side != JoinSide::Right {
            return internal_err!("a nearest join ranks the rows of its right side");
        }
        let (ranked, ids) = match kept_as(kept) {
            Some(kept) => (kept, None),
            None => {
                let ranks = match ranks {
                    Some(given) => ranks::copied(given, context)?,
                    None => ranks::ranks(&self.then_by, batch, context)?,
                };
                let (ranked, ids) = self.rank(rows, ranks, context)?;
                (Arc::new(ranked), ids)
            }
        };
        let self_join = match context.self_join {
            true => Some(PreparedRows::self_join(batch, &ranked.ranker, ids)?),
            false => None,
        };
        let found = match &ranked.ranker {
            Ranker::Indexed(indexed) => self.indexed.as_ref().and_then(IndexedScore::found).zip(indexed.found.as_ref()),
            Ranker::Scored(_) => None,
        };
        let found = found.map(|(found, kept)| found.reuse(rows, kept, context)).transpose()?;
        Ok(Box::new(Erased(NearestMatcher::new(self.clone(), batch.clone(), ranked, found, self_join))))
    }
}

impl PartRanking for NearestStrategy {
    fn wanted(&self) -> Wanted {
        self.wanted()
    }

    fn then_by(&self) -> &[PhysicalSortExpr] {
        &self.then_by
    }

    fn scores(
        &self,
        [of_left, of_right]: [&UInt32Array; 2],
        left: &RecordBatch,
        right: &RecordBatch,
    ) -> Result<Vec<Option<i128>>> {
        let pairs = RowPairs { left: of_left.clone(), right: of_right.clone() };
        scored::scores(self, &pairs, left, right)
    }
}

impl NearestStrategy {
    /// The groups of the equality keys of `batch`, and the group of each row; none without equality keys.
    fn groups(
        &self,
        side: JoinSide,
        batch: &RecordBatch,
        context: &BuildContext<'_>,
    ) -> Result<Option<(Groups, Vec<u32>)>> {
        if self.equalities.is_empty() {
            return Ok(None);
        }
        let nulls = self.equalities.iter().map(|e| e.null_equals_null).collect();
        let by = Numberer { threads: context.threads, self_join: false, device: None };
        let (groups, ids) = Groups::build(&self.equalities_of(side, batch)?, nulls, by).or_datafusion()?;
        let ids = ids.into_vec().or_datafusion()?;
        (context.reserve)(groups.memory() + ids.capacity() * size_of::<u32>()).or_datafusion()?;
        Ok(Some((groups, ids)))
    }

    /// Makes `rows`, which have these `ranks`, ready for being ranked. Says which group each has where it
    /// is its own probe side.
    fn rank(
        &self,
        rows: BuildRows<'_>,
        ranks: Vec<u32>,
        context: &BuildContext<'_>,
    ) -> Result<(RankedSide, Option<Vec<u32>>)> {
        let BuildRows { side, batch, .. } = rows;
        let (groups, ids) = self.groups(side, batch, context)?.unzip();
        let own_ids = if context.self_join { ids.clone() } else { None };
        let few = ids.as_deref().is_some_and(scored::leave_few_candidates);
        let ranker = match &self.indexed {
            Some(score) if !few => {
                let (wanted, recall) = self.asked(batch, context)?;
                let context = BuildContext { recall, ..*context };
                let index = right_keys(score, batch, &context).and_then(|(counted, values)| {
                    let found = score.found().map(|found| found.build(rows, &context)).transpose()?.flatten();
                    let keys = KeyColumn { values, groups: ids.clone() };
                    let engine = engine::open(self.engine)?;
                    let built = engine.build_nearest(&score.ranking(), &keys, ranks.clone(), wanted, &context);
                    let (index, reason) = built.or_datafusion()?;
                    Ok((index, reason, counted, found))
                });
                match index {
                    Ok((index, reason, counted, found)) => {
                        let some_of = recall.map(|_| wanted.rows);
                        Ranker::Indexed(Indexed::new((index, reason), some_of, (counted, found), ids, ranks))
                    }
                    Err(error) if is_about_values(&error) && !context.cancel.is_cancelled() => {
                        Ranker::Scored(Scored::of_batch((self, batch), ids, ranks, &context)?)
                    }
                    Err(error) => return Err(error),
                }
            }
            // few candidates are scored sooner than compared with each other
            Some(_) => Ranker::Scored(Scored::new(ids.as_deref(), ranks)),
            None => Ranker::Scored(Scored::of_batch((self, batch), ids, ranks, context)?),
        };
        Ok((RankedSide { groups, ranker }, own_ids))
    }
}
