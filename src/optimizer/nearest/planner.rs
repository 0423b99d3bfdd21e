//! Plans the operator of a [`NearestJoinNode`].

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, SortExpr, lit};
use datafusion::physical_expr::expressions::IsNotNullExpr;
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use super::node::NearestJoinNode;
use crate::config::SimilarityOptions;
use crate::exec::{
    CountedExprs, EqualityExprs, FoundByRules, IndexedScore, IndexedTable, JoinInputs, JoinSpec, NearestJoinExec,
    NearestStrategy,
};
use crate::functions::nearest::{Direction, Nearest};
use crate::optimizer::build_side::rows;
use crate::optimizer::indexes::index_of;
use crate::optimizer::physical::{Physical, equality};
use crate::optimizer::rule_strategy::rule_strategy;
use crate::optimizer::same_input::{same_expr, same_rows};
use crate::predicate::{
    Condition, Conjunction, Counted, CountedScore, EqualityKey, FoundConditions, VectorCondition, counted, measured,
    plain_first,
};
use crate::program::Rules;
use similarity_engine::choice::EngineSpec;

/// The operator; where the acceleration is switched off (`enabled`), one that scores all candidates; an index is made
/// by `engine`.
pub(in crate::optimizer) fn plan(
    node: &NearestJoinNode,
    [left, right]: [&Arc<dyn ExecutionPlan>; 2],
    physical: &Physical<'_>,
    (enabled, engine): (bool, EngineSpec),
) -> Result<Arc<dyn ExecutionPlan>> {
    let Nearest { rows: wanted, direction, score, then_by, condition, ties, recall } = node.nearest();
    let condition = condition.clone().unwrap_or_else(|| lit(true));
    let Conjunction { keys: grouped, atoms, bands, residual, .. } = Conjunction::of(&condition, node.sides());
    let (equalities, ungrouped) = physical.equalities(&grouped)?;
    // the condition of an atom that only filters is part of the residual
    let recognised = atoms
        .into_iter()
        .filter(|atom| !atom.filters)
        .map(|atom| atom.condition)
        .chain(bands.into_iter().map(|band| band.condition));
    let residual = ungrouped.into_iter().chain(recognised).chain(residual).filter(|condition| *condition != lit(true));
    let residual = plain_first(residual);
    let keys = NearestStrategy {
        rows: *wanted,
        ties: *ties,
        direction: *direction,
        score: physical.filter(score)?,
        then_by: then_by.iter().map(|tie| order(tie, physical)).collect::<Result<_>>()?,
        equalities,
        residual: residual.iter().map(|condition| physical.filter(condition)).collect::<Result<_>>()?,
        unequal: unequal(&residual, physical)?,
        indexed: if enabled { indexed((score, *direction), &grouped, physical, engine)? } else { None },
        engine,
    };
    // what is found of sets and strings is never approximate, nor of rows that have to satisfy a condition besides, but
    // for one that drops few of them
    let is_of_vectors = matches!(&keys.indexed, Some(IndexedScore::Similarity { condition: Condition::Vector(_), .. }));
    let recall = recall.filter(|_| is_of_vectors && (residual.is_empty() || keys.unequal.is_some()));
    // a left row without a value to differ from has no neighbour, which an index would look for among all rows
    let is_inner = node.join_type() == JoinType::Inner;
    let (left, recall) = match &keys.unequal {
        Some(unequal) if unequal.left.nullable(&left.schema())? => match is_inner {
            true => (&not_null(&unequal.left, left)?, recall),
            false => (left, None),
        },
        _ => (left, recall),
    };
    // one input serves both sides where an index ranks its rows by themselves
    let symmetric = |left: &Expr, right: &Expr| same_expr(left, physical.sides.left, right, physical.sides.right);
    let self_join = is_of_vectors
        && is_inner
        && same_rows(node.left(), node.right())
        && grouped.iter().all(|key| symmetric(&key.left, &key.right))
        && measured(score, physical.sides).is_some_and(|(left, right, _)| symmetric(&left, &right))
        && left.schema().fields().len() == right.schema().fields().len();
    let spec = JoinSpec {
        join_type: node.join_type(),
        build: JoinSide::Right,
        why_build: "its rows are ranked".into(),
        probe_rows: recall.map_or(Ok(None), |_| rows(left.as_ref()).map(|rows| rows.get_value().copied()))?,
        recall,
        index: if keys.indexed.is_some() { index(node, physical) } else { None },
        residual: Vec::new(),
        condition: physical.filter(&condition)?,
    };
    let inputs = match self_join {
        true => {
            JoinInputs::SelfJoin { input: Arc::clone(right), partitions: physical.session.config().target_partitions() }
        }
        false => JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) },
    };
    Ok(Arc::new(NearestJoinExec::new(inputs, Arc::new(spec), Arc::new(keys))?))
}

fn order(tie: &SortExpr, physical: &Physical<'_>) -> Result<PhysicalSortExpr> {
    let options = SortOptions { descending: !tie.asc, nulls_first: tie.nulls_first };
    Ok(PhysicalSortExpr::new(physical.expression(&tie.expr, physical.sides.right)?, options))
}

/// The rows of `input` that have a value.
fn not_null(value: &PhysicalExprRef, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let not_null = Arc::new(IsNotNullExpr::new(Arc::clone(value)));
    Ok(Arc::new(FilterExec::try_new(not_null, Arc::clone(input))?))
}

/// The equality of which the only condition in `residual` is the opposite.
fn unequal(residual: &[Expr], physical: &Physical<'_>) -> Result<Option<EqualityExprs>> {
    let [Expr::BinaryExpr(BinaryExpr { left, op: Operator::NotEq, right })] = residual else { return Ok(None) };
    let Some((left, right)) = physical.sides.order(left, right).filter(|_| !residual[0].is_volatile()) else {
        return Ok(None);
    };
    physical.equality(&EqualityKey { left, right, null_equals_null: false })
}

/// The score as one that an index ranks by: a measure of ours, or stock `levenshtein`, between an expression of either
/// side, the most similar first.
fn indexed(
    (score, direction): (&Expr, Direction),
    grouped: &[EqualityKey],
    physical: &Physical<'_>,
    engine: EngineSpec,
) -> Result<Option<IndexedScore>> {
    let Some((left, right, similarity)) = measured(score, physical.sides) else {
        let is_count = direction == Direction::Similarity && !score.is_volatile();
        return if is_count { by_count(score, grouped, physical, engine) } else { Ok(None) };
    };
    if ranked(&similarity) != Some(direction) || score.is_volatile() {
        return Ok(None);
    }
    Ok(Some(IndexedScore::Similarity {
        condition: similarity,
        left: physical.expression(&left, physical.sides.left)?,
        right: physical.expression(&right, physical.sides.right)?,
    }))
}

/// Which scores of a measure are the best ones, where an index ranks by it.
pub(super) fn ranked(similarity: &Condition) -> Option<Direction> {
    let (is_ranked, is_distance) = match similarity {
        Condition::Set { .. } => (true, false),
        Condition::Edit { measure, .. } => (true, measure.is_distance()),
        Condition::Vector(VectorCondition { measure, undecided_from, .. }) => {
            (undecided_from.is_none() && measure.is_ranked(), measure.is_distance())
        }
    };
    is_ranked.then_some(if is_distance { Direction::Distance } else { Direction::Similarity })
}

/// The similarity index over what an index of the right side is made of.
fn index(node: &NearestJoinNode, physical: &Physical<'_>) -> Option<IndexedTable> {
    let score = &node.nearest().score;
    let keys = match measured(score, physical.sides) {
        Some((_, right, _)) => vec![right],
        None => counted(score, physical.sides, max_clauses(physical))?
            .conditions
            .into_iter()
            .map(Counted::into_right)
            .collect(),
    };
    keys.iter().find_map(|key| index_of(physical.session, node.right(), key))
}

/// The score as a count of conditions, some of which are one equality or range between both sides. Others have an index
/// of their own where one serves them, within the groups of the equality keys `grouped`.
fn by_count(
    score: &Expr,
    grouped: &[EqualityKey],
    physical: &Physical<'_>,
    engine: EngineSpec,
) -> Result<Option<IndexedScore>> {
    let most = max_clauses(physical);
    let Some(CountedScore { conditions, weights, excess, found }) = counted(score, physical.sides, most) else {
        return Ok(None);
    };
    let conditions = conditions.iter().map(|condition| match condition {
        Counted::Equality(key) => Ok(physical.equality(key)?.map(CountedExprs::Equality)),
        Counted::Band(band) => Ok(Some(CountedExprs::Band(physical.band(band)?))),
    });
    let conditions: Option<Vec<_>> = conditions.collect::<Result<_>>()?;
    let Some(conditions) = conditions else { return Ok(None) };
    let found = match found {
        Some(FoundConditions { any, excess }) => {
            let condition = grouped.iter().map(equality).chain([any]).reduce(Expr::and);
            let rules = condition.and_then(|condition| Rules::covering(&condition, physical.sides, most));
            let rules = rules.map(|rules| rule_strategy((rules.atoms, rules.clauses), None, physical, engine));
            rules.transpose()?.map(|rules| FoundByRules { rules: Arc::new(rules), excess })
        }
        None => None,
    };
    Ok(Some(IndexedScore::MatchCount { conditions, weights: weights.map(Into::into), excess, found }))
}

/// How many clauses a join of the session may have.
fn max_clauses(physical: &Physical<'_>) -> usize {
    SimilarityOptions::of(physical.session.config_options()).max_clauses
}
