//! The join with the best rows.

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_similarity::exec::{CountedExprs, FoundByRules, IndexedScore, NearestJoinExec, NearestStrategy};
use datafusion_similarity::functions::nearest::Direction;

use crate::condition;
use crate::envelope::malformed;
use crate::expressions::{Reader, Writer};
use crate::join::{ReadJoin, join_to_message};
use crate::messages::{self, Counted, CountedKind, IndexedSimilarity, MatchCount, NearestJoin, Weights};
use crate::rules::{rules_from_message, rules_to_message};

pub fn to_message(join: &NearestJoinExec, writer: Writer<'_>) -> Result<NearestJoin> {
    let NearestStrategy { rows, ties, direction, score, then_by, equalities, residual, unequal, indexed, engine: _ } =
        join.matching();
    let unequal = unequal.as_ref().map(|unequal| writer.equality(unequal).map(Box::new));
    Ok(NearestJoin {
        join: join_to_message(join, writer)?,
        rows: *rows as u64,
        ties: *ties,
        is_distance: *direction == Direction::Distance,
        score: Some(Box::new(writer.filter(score)?)),
        then_by: writer.order(then_by)?,
        equalities: writer.equalities(equalities)?,
        residual: writer.filters(residual)?,
        unequal: unequal.transpose()?,
        indexed: indexed.as_ref().map(|score| indexed_to_message(score, writer)).transpose()?,
    })
}

fn indexed_to_message(score: &IndexedScore, writer: Writer<'_>) -> Result<messages::IndexedScore> {
    Ok(match score {
        IndexedScore::Similarity { condition, left, right } => messages::IndexedScore::Similarity(IndexedSimilarity {
            keys: writer.keys(left, right)?,
            condition: Some(condition::to_message(condition)),
        }),
        IndexedScore::MatchCount { conditions, weights, excess, found } => {
            let counted = |condition: &CountedExprs| {
                let kind = match condition {
                    CountedExprs::Equality(equality) => CountedKind::Equality(writer.equality(equality)?),
                    CountedExprs::Band(band) => CountedKind::Band(writer.band(band)?),
                };
                Ok(Counted { kind: Some(kind) })
            };
            messages::IndexedScore::MatchCount(MatchCount {
                conditions: conditions.iter().map(counted).collect::<Result<_>>()?,
                weights: weights.as_ref().map(|weights| Weights { weights: weights.to_vec() }),
                excess: *excess,
                found: found.as_ref().map(|found| found_to_message(found, writer)).transpose()?,
            })
        }
    })
}

pub fn from_message(
    message: &NearestJoin,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let join = ReadJoin::new(message.join.as_ref(), inputs, reader)?;
    if !matches!(join.spec.join_type, JoinType::Inner | JoinType::Left) {
        return Err(malformed("NEAREST takes INNER JOIN or LEFT JOIN"));
    }
    let schemas = join.schemas;
    let score = message.score.as_deref().ok_or_else(|| malformed("NEAREST has no score"))?;
    let unequal = message.unequal.as_deref().map(|unequal| reader.equality(unequal, schemas));
    let matching = NearestStrategy {
        rows: rows(message.rows)?,
        ties: message.ties,
        direction: direction(message.is_distance),
        score: reader.value(score, schemas)?,
        then_by: reader.order(&message.then_by, schemas.right)?,
        equalities: reader.equalities(&message.equalities, schemas)?,
        residual: reader.filters(&message.residual, schemas)?,
        unequal: unequal.transpose()?,
        indexed: message.indexed.as_ref().map(|score| indexed_from_message(score, &join, reader)).transpose()?,
        engine: join.engine,
    };
    join.with(matching)
}

fn indexed_from_message(
    score: &messages::IndexedScore,
    join: &ReadJoin<'_>,
    reader: &Reader<'_>,
) -> Result<IndexedScore> {
    let schemas = join.schemas;
    Ok(match score {
        messages::IndexedScore::Similarity(IndexedSimilarity { keys, condition }) => {
            let condition = condition.as_ref().ok_or_else(|| malformed("NEAREST has no measure"))?;
            let [left, right] = reader.keys(keys.as_ref(), schemas)?;
            IndexedScore::Similarity { condition: condition::from_message(condition)?, left, right }
        }
        messages::IndexedScore::MatchCount(MatchCount { conditions, weights, excess, found }) => {
            let counted = |condition: &Counted| match &condition.kind {
                Some(CountedKind::Equality(equality)) => {
                    Ok(CountedExprs::Equality(reader.equality(equality, schemas)?))
                }
                Some(CountedKind::Band(band)) => Ok(CountedExprs::Band(reader.band(band, schemas)?)),
                None => Err(malformed("this release does not know a condition that is counted")),
            };
            let weights = weights.as_ref().map(|weights| weights.weights.as_slice());
            if weights.is_some_and(|weights| weights.len() != conditions.len()) {
                return Err(malformed("conditions and weights are not as many"));
            }
            excess.iter().try_for_each(|excess| checked(*excess))?;
            IndexedScore::MatchCount {
                conditions: conditions.iter().map(counted).collect::<Result<_>>()?,
                weights: weights.map(Into::into),
                excess: *excess,
                found: found.as_ref().map(|found| found_from_message(found, join, reader)).transpose()?,
            }
        }
    })
}

fn found_to_message(found: &FoundByRules, writer: Writer<'_>) -> Result<messages::FoundByRules> {
    let FoundByRules { rules, excess } = found;
    Ok(messages::FoundByRules { rules: Some(rules_to_message(rules, writer)?), excess: *excess })
}

fn found_from_message(
    message: &messages::FoundByRules,
    join: &ReadJoin<'_>,
    reader: &Reader<'_>,
) -> Result<FoundByRules> {
    checked(message.excess)?;
    let rules = rules_from_message(message.rules.as_ref(), join.schemas, join.engine, reader)?;
    Ok(FoundByRules { rules: Arc::new(rules), excess: message.excess })
}

/// Whether a score may exceed another one by so much.
fn checked(excess: f64) -> Result<()> {
    match (0.0..=f64::MAX).contains(&excess) {
        true => Ok(()),
        false => Err(malformed("a score exceeds what is counted by no number")),
    }
}

pub fn rows(rows: u64) -> Result<usize> {
    usize::try_from(rows).ok().filter(|&rows| rows > 0).ok_or_else(|| malformed("NEAREST asks for no rows"))
}

pub fn direction(is_distance: bool) -> Direction {
    if is_distance { Direction::Distance } else { Direction::Similarity }
}
