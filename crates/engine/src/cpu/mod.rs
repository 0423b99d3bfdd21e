//! The CPU engine.

pub(super) mod columns;
mod compact;
pub(super) mod fingerprints;
pub(super) mod kind;
mod lsh;
pub mod match_count;
pub(super) mod prefilter;
pub mod regions;
pub(super) mod registers;
mod row_filters;
pub(super) mod rules;
pub mod sets;
pub mod signature;
mod small_groups;
pub mod strings;
pub mod vectors;

use crate::access_path::AccessPath::{
    ClusteredBlocks, ConditionColumns, HashBands, InvertedIndex, KdBlocks, MetricBlocks, PrefixIndex, SegmentIndex,
    SignatureTiles, SortedRuns,
};
use crate::access_path::{AccessPaths, Criterion};
use crate::error::{Result, internal_err};

use super::nearest::{DynNearestIndex, Wanted};
use super::sets::SetPredicate;
use super::strings::EditPredicate;
use super::{BuildContext, DynPairIndex, Erased, KeyColumn};
use crate::condition::Condition;
use crate::ranking::Ranking;
use crate::recall::Recall;
use crate::repeated::{FEWEST_ROWS, Repeated};
use crate::stored::{Source, Stored};
use kind::IndexKind;
use sets::{NearestSets, SetIndex};
use small_groups::SmallGroups;
use strings::{NearestStrings, RepeatedStrings, StringIndex};

/// Makes the keys of a build side ready for `condition`. Unless most groups are small, an index of sets drops them when
/// it has their tokens, before it takes more memory.
///
/// # Errors
/// Keys that `condition` is not about, a refused reservation, a cancelled build.
pub fn build(condition: Condition, keys: KeyColumn, context: &BuildContext<'_>) -> Result<Box<DynPairIndex>> {
    match small_groups::build(condition, &keys, context, |keys| index(condition, keys, context))? {
        Some(groups) => Ok(Box::new(Erased(groups))),
        None => index(condition, keys, context),
    }
}

/// Indexes the keys of a build side for `condition`.
fn index(condition: Condition, keys: KeyColumn, context: &BuildContext<'_>) -> Result<Box<DynPairIndex>> {
    Ok(match condition {
        Condition::Set { tokenizer, measure, bounds } => {
            let path = [
                (PrefixIndex, sets::AccessPath::Prefix),
                (SignatureTiles, sets::AccessPath::Tiles),
                (HashBands, sets::AccessPath::Bands),
            ];
            let (predicate, path) = (SetPredicate { measure, bounds }, context.overrides.path(path));
            Box::new(Erased(SetIndex::try_new(tokenizer, predicate, path, keys, context)?))
        }
        Condition::Edit { measure, bounds } => {
            let path = [(SegmentIndex, strings::AccessPath::Segments), (SignatureTiles, strings::AccessPath::Tiles)];
            let (predicate, path) = (EditPredicate { measure, bounds }, context.overrides.path(path));
            match repeated(&keys, context)? {
                Some(rows) => Box::new(Erased(RepeatedStrings::try_new(predicate, path, (&keys, rows), context)?)),
                None => Box::new(Erased(StringIndex::try_new(predicate, path, &keys, context)?)),
            }
        }
        Condition::Vector(condition) => vectors::epsilon::build(condition, &keys, context)?,
    })
}

/// The rows of each key, where a key has two of them on average.
fn repeated(keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Option<Repeated>> {
    if !context.overrides.repeated {
        return Ok(None);
    }
    let repeated = Repeated::of(keys, None, context.cancel, context.reserve)?;
    Ok(repeated.filter(|repeated| repeated.mean_rows() >= FEWEST_ROWS))
}

/// Reads what an index of [`build`] has [stored](crate::Index::stored), for the same condition and context.
///
/// # Errors
/// Bytes that are no such index.
pub fn load(condition: Condition, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<Box<DynPairIndex>> {
    Ok(match (IndexKind::load(source)?, condition) {
        (IndexKind::SmallGroups, _) => {
            let index = |source: &mut Source<'_>| load(condition, source, context);
            Box::new(Erased(SmallGroups::load(condition, source, context, index)?))
        }
        (IndexKind::Sets, Condition::Set { tokenizer, measure, bounds }) => {
            let predicate = SetPredicate { measure, bounds };
            Box::new(Erased(SetIndex::load(tokenizer, predicate, source, context)?))
        }
        (IndexKind::Strings, Condition::Edit { measure, bounds }) => {
            Box::new(Erased(StringIndex::load(EditPredicate { measure, bounds }, source, context)?))
        }
        (IndexKind::RepeatedStrings, Condition::Edit { measure, bounds }) => {
            Box::new(Erased(RepeatedStrings::load(EditPredicate { measure, bounds }, source, context)?))
        }
        (IndexKind::Points, Condition::Vector(condition)) => vectors::epsilon::load(condition, source, context)?,
        (IndexKind::Bands, Condition::Vector(condition)) => vectors::epsilon::load_bands(condition, source, context)?,
        (kind, _) => return internal_err!("a stored index of {condition} is of the kind {kind:?}"),
    })
}

/// Reads what an index of [`build_nearest`] or [`build_approximate`] has [stored](crate::Index::stored), for the same
/// ranking and context.
///
/// # Errors
/// Bytes that are no such index.
pub fn load_nearest(
    ranking: &Ranking,
    source: &mut Source<'_>,
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    Ok(match (IndexKind::load(source)?, ranking) {
        (IndexKind::Sets, &Ranking::Score(Condition::Set { tokenizer, measure, .. })) => {
            Box::new(Erased(NearestSets::load(tokenizer, measure, source, context)?))
        }
        (IndexKind::Strings, &Ranking::Score(Condition::Edit { measure, .. })) => {
            Box::new(Erased(NearestStrings::load(measure, source)?))
        }
        (IndexKind::Points, Ranking::Score(Condition::Vector(condition))) => {
            vectors::nearest::load(condition.measure, source)?
        }
        (IndexKind::Counts, Ranking::MatchCount(count)) => match_count::load(count, source)?,
        (kind, _) => return internal_err!("a stored index of {ranking} is of the kind {kind:?}"),
    })
}

/// Makes the keys of a build side, each row with a rank, ready for `ranking`.
///
/// # Errors
/// Keys that are not ranked so, a refused reservation, a cancelled build.
pub fn build_nearest(
    ranking: &Ranking,
    keys: &KeyColumn,
    ranks: Vec<u32>,
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    Ok(match ranking {
        &Ranking::Score(Condition::Set { tokenizer, measure, .. }) => {
            Box::new(Erased(NearestSets::try_new(tokenizer, measure, keys, ranks, context)?))
        }
        &Ranking::Score(Condition::Edit { measure, .. }) => {
            Box::new(Erased(NearestStrings::try_new(measure, keys, ranks, context)?))
        }
        Ranking::Score(Condition::Vector(condition)) => {
            // nothing is missed, however many neighbours are wanted
            let exact = (None, Wanted { rows: 1, ties: false });
            vectors::nearest::build(condition.measure, keys, ranks, exact, context)?
        }
        Ranking::MatchCount(count) => match_count::build(count, keys, &ranks, context)?,
    })
}

/// [`build_nearest`] where neighbours may be missed, as the recall of `context` says, while so many are `wanted`. Only
/// rankings of vectors miss any.
///
/// # Errors
/// Keys that are not ranked so, a refused reservation, a cancelled build.
pub fn build_approximate(
    ranking: &Ranking,
    keys: &KeyColumn,
    ranks: Vec<u32>,
    wanted: Wanted,
    context: &BuildContext<'_>,
) -> Result<Box<DynNearestIndex>> {
    match ranking {
        Ranking::Score(Condition::Vector(condition)) => {
            vectors::nearest::build(condition.measure, keys, ranks, (context.recall, wanted), context)
        }
        _ => build_nearest(ranking, keys, ranks, context),
    }
}

/// The access paths of [`build_nearest`], or with a recall those of [`build_approximate`].
pub fn nearest_access_paths(ranking: &Ranking, recall: Option<Recall>) -> AccessPaths {
    match ranking {
        Ranking::Score(Condition::Vector(_)) if recall.is_some() => {
            AccessPaths { paths: &[KdBlocks, MetricBlocks, ClusteredBlocks], by: Some(Criterion::Cost) }
        }
        Ranking::Score(Condition::Set { .. }) => AccessPaths::only(&[InvertedIndex]),
        Ranking::Score(Condition::Edit { .. }) => AccessPaths::only(&[SignatureTiles]),
        Ranking::Score(Condition::Vector(_)) => AccessPaths { paths: &[KdBlocks, MetricBlocks], by: None },
        Ranking::MatchCount(_) => AccessPaths::only(&[ConditionColumns]),
    }
}

/// The access paths of [`build`] for a join that has to find so many of the pairs.
pub fn access_paths(condition: Condition, recall: Option<Recall>) -> AccessPaths {
    match condition {
        Condition::Set { .. } if recall.is_some() => {
            AccessPaths { paths: &[PrefixIndex, SignatureTiles, HashBands], by: Some(Criterion::Cost) }
        }
        Condition::Set { .. } => AccessPaths { paths: &[PrefixIndex, SignatureTiles], by: Some(Criterion::Cost) },
        Condition::Vector(condition) if recall.is_some() && vectors::epsilon::has_bands(condition.measure) => {
            AccessPaths { paths: &[SortedRuns, KdBlocks, MetricBlocks, HashBands], by: Some(Criterion::Dimension) }
        }
        Condition::Edit { measure, .. } if measure.is_jaro() => AccessPaths::only(&[SignatureTiles]),
        Condition::Edit { .. } => AccessPaths { paths: &[SegmentIndex, SignatureTiles], by: Some(Criterion::Cost) },
        Condition::Vector(_) => {
            AccessPaths { paths: &[SortedRuns, KdBlocks, MetricBlocks], by: Some(Criterion::Dimension) }
        }
    }
}
