//! The join of an OR of ANDs.

use std::sync::Arc;

use datafusion::common::{JoinSide, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_similarity::exec::{AtomExprs, MatchingDependencyBlockExec, RuleStrategy};
use similarity_engine::choice::EngineSpec;

use crate::condition;
use crate::envelope::malformed;
use crate::expressions::{Reader, Schemas, Writer, side};
use crate::join::{ReadJoin, join_to_message};
use crate::messages::{Atom, AtomKind, Clause, EitherSide, OneSided, RuleJoin, Rules, SimilarityAtom};

pub fn to_message(join: &MatchingDependencyBlockExec, writer: Writer<'_>) -> Result<RuleJoin> {
    Ok(RuleJoin { join: join_to_message(join, writer)?, rules: Some(rules_to_message(join.matching(), writer)?) })
}

pub fn rules_to_message(rules: &RuleStrategy, writer: Writer<'_>) -> Result<Rules> {
    let RuleStrategy { atoms, labels, keys, clauses, build_rows, engine: _ } = rules;
    let atom = |(atom, label): (&AtomExprs, &String)| {
        Ok(Atom { label: label.clone(), kind: Some(atom_to_message(atom, writer)?) })
    };
    let keys = keys.iter().map(|[left, right]| writer.keys(left, right));
    Ok(Rules {
        atoms: atoms.iter().zip(labels).map(atom).collect::<Result<_>>()?,
        keys: keys.filter_map(Result::transpose).collect::<Result<_>>()?,
        clauses: clauses.iter().map(|c| Clause { atoms: c.iter().map(|&atom| atom as u32).collect() }).collect(),
        build_rows: build_rows.map(|rows| rows as u64),
    })
}

fn atom_to_message(atom: &AtomExprs, writer: Writer<'_>) -> Result<AtomKind> {
    Ok(match atom {
        AtomExprs::Equality(equality) => AtomKind::Equality(writer.equality(equality)?),
        AtomExprs::Similarity { key, condition } => {
            let condition = Some(condition::to_message(condition));
            AtomKind::Similarity(SimilarityAtom { key: *key as u32, condition })
        }
        AtomExprs::Band(band) => AtomKind::Band(writer.band(band)?),
        AtomExprs::OneSided { side, condition } => AtomKind::OneSided(Box::new(OneSided {
            is_right: *side == JoinSide::Right,
            condition: writer.expression(condition)?,
        })),
        AtomExprs::EitherSide { left, right } => AtomKind::EitherSide(Box::new(EitherSide {
            left: writer.expression(left)?,
            right: writer.expression(right)?,
        })),
        AtomExprs::Pair(condition) => AtomKind::Pair(Box::new(writer.filter(condition)?)),
    })
}

pub fn from_message(
    message: &RuleJoin,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let join = ReadJoin::new(message.join.as_ref(), inputs, reader)?;
    let rules = rules_from_message(message.rules.as_ref(), join.schemas, join.engine, reader)?;
    join.with(rules)
}

pub fn rules_from_message(
    message: Option<&Rules>,
    schemas: Schemas<'_>,
    engine: EngineSpec,
    reader: &Reader<'_>,
) -> Result<RuleStrategy> {
    let message = message.ok_or_else(|| malformed("a join by rules has none"))?;
    let keys = message.keys.iter().map(|keys| reader.keys(Some(keys), schemas)).collect::<Result<Vec<_>>>()?;
    let atom = |atom: &Atom| atom_from_message(atom, keys.len(), schemas, reader);
    let atoms = message.atoms.iter().map(atom).collect::<Result<Vec<_>>>()?;
    let clauses: Vec<Vec<usize>> =
        message.clauses.iter().map(|clause| clause.atoms.iter().map(|&atom| atom as usize).collect()).collect();
    let in_order = |clause: &Vec<usize>| {
        let mut seen = vec![false; atoms.len()];
        !clause.is_empty()
            && clause.iter().all(|&atom| seen.get_mut(atom).is_some_and(|seen| !std::mem::replace(seen, true)))
    };
    if clauses.is_empty() || !clauses.iter().all(in_order) {
        return Err(malformed("a clause has no conditions, or one that there is not"));
    }
    Ok(RuleStrategy {
        labels: message.atoms.iter().map(|atom| atom.label.clone()).collect(),
        atoms,
        keys,
        clauses,
        build_rows: message.build_rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
        engine,
    })
}

fn atom_from_message(atom: &Atom, keys: usize, schemas: Schemas<'_>, reader: &Reader<'_>) -> Result<AtomExprs> {
    Ok(match &atom.kind {
        Some(AtomKind::Equality(equality)) => AtomExprs::Equality(reader.equality(equality, schemas)?),
        Some(AtomKind::Similarity(SimilarityAtom { key, condition })) => {
            let condition = condition.as_ref().filter(|_| (*key as usize) < keys);
            let condition = condition.ok_or_else(|| malformed("a similarity condition of a clause has no keys"))?;
            AtomExprs::Similarity { key: *key as usize, condition: condition::from_message(condition)? }
        }
        Some(AtomKind::Band(band)) => AtomExprs::Band(reader.band(band, schemas)?),
        Some(AtomKind::OneSided(one)) => {
            let condition = reader.condition(one.condition.as_deref(), schemas.of(one.is_right))?;
            AtomExprs::OneSided { side: side(one.is_right), condition }
        }
        Some(AtomKind::EitherSide(either)) => AtomExprs::EitherSide {
            left: reader.condition(either.left.as_deref(), schemas.of(false))?,
            right: reader.condition(either.right.as_deref(), schemas.of(true))?,
        },
        Some(AtomKind::Pair(condition)) => AtomExprs::Pair(reader.filter(condition, schemas)?),
        None => return Err(malformed("this release does not know a condition of a clause")),
    })
}
