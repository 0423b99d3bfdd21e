//! What all joins have, and the join of one similarity condition.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_similarity::exec::{
    JoinExec, JoinInputs, JoinSpec, JoinStrategy, SimilarityJoinExec, SimilarityStrategy,
};
use similarity_engine::choice::EngineSpec;
use similarity_engine::recall::Recall;

use crate::envelope::malformed;
use crate::expressions::{Reader, Schemas, Writer, side};
use crate::messages::{self, Join, Projection, SimilarityJoin};
use crate::{condition, engine};

pub fn join_to_message<M: JoinStrategy>(join: &JoinExec<M>, writer: Writer<'_>) -> Result<Option<Join>> {
    let (spec, inputs) = (join.spec(), join.inputs());
    Ok(Some(Join {
        join_type: join_type_to_message(spec.join_type)?.into(),
        build_is_right: spec.build == JoinSide::Right,
        why_build: spec.why_build.clone(),
        probe_rows: spec.probe_rows.map(|rows| rows as u64),
        recall: spec.recall.map(Recall::share),
        residual: writer.filters(&spec.residual)?,
        condition: Some(Box::new(writer.filter(&spec.condition)?)),
        self_join: match inputs {
            JoinInputs::Two { .. } | JoinInputs::Partitioned { .. } => None,
            JoinInputs::SelfJoin { partitions, .. } => Some(*partitions as u64),
            JoinInputs::PartitionedSelfJoin { .. } => Some(1),
        },
        projection: projection_to_message(join.projection()),
        engine: Some(engine::to_message(&join.matching().engine())),
        partitioned: matches!(inputs, JoinInputs::Partitioned { .. } | JoinInputs::PartitionedSelfJoin { .. }),
    }))
}

/// A join without what finds its pairs.
pub struct ReadJoin<'a> {
    pub schemas: Schemas<'a>,
    pub engine: EngineSpec,
    pub spec: JoinSpec,
    inputs: JoinInputs,
    projection: Option<Vec<usize>>,
}

impl<'a> ReadJoin<'a> {
    pub fn new(message: Option<&Join>, inputs: &'a [Arc<dyn ExecutionPlan>], reader: &Reader<'_>) -> Result<Self> {
        let message = message.ok_or_else(|| malformed("the join itself is missing"))?;
        let build = side(message.build_is_right);
        let (left, right) = match (message.self_join, inputs) {
            (None, [left, right]) => (left, right),
            (Some(_), [input]) => (input, input),
            _ => return Err(malformed(&format!("a join has {} inputs", inputs.len()))),
        };
        let built = if build == JoinSide::Right { right } else { left };
        let partitions = |input: &Arc<dyn ExecutionPlan>| input.properties().output_partitioning().partition_count();
        match (partitions(built), partitions(left), partitions(right)) {
            (1, ..) if !message.partitioned => {}
            (_, left, right) if message.partitioned && left == right => {}
            (built, ..) if !message.partitioned => {
                return Err(malformed(&format!("the side that is indexed comes in {built} partitions instead of one")));
            }
            (_, left, right) => {
                return Err(malformed(&format!("the sides come in {left} and in {right} partitions")));
            }
        }
        let inputs = match message.self_join {
            None if message.partitioned => JoinInputs::Partitioned { left: Arc::clone(left), right: Arc::clone(right) },
            None => JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) },
            Some(_) if message.partitioned => JoinInputs::PartitionedSelfJoin { input: Arc::clone(left) },
            Some(partitions) => {
                let partitions = usize::try_from(partitions).ok().filter(|partitions| (1..=MOST).contains(partitions));
                let partitions = partitions.ok_or_else(|| malformed("a self-join has no partitions, or too many"))?;
                JoinInputs::SelfJoin { input: Arc::clone(left), partitions }
            }
        };
        let join_type = join_type_from_message(message.join_type)?;
        let schemas = Schemas { left: columns(left), right: columns(right) };
        let condition = message.condition.as_deref().ok_or_else(|| malformed("the condition is missing"))?;
        let projection = projection_from_message(message.projection.as_ref(), columns_out(join_type, schemas))?;
        Ok(Self {
            schemas,
            engine: engine::from_message(message.engine.as_ref())?,
            spec: JoinSpec {
                join_type,
                build,
                why_build: message.why_build.clone(),
                probe_rows: message.probe_rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
                recall: recall(message.recall)?,
                index: None,
                residual: reader.filters(&message.residual, schemas)?,
                condition: reader.filter(condition, schemas)?,
            },
            inputs,
            projection,
        })
    }

    /// The join, whose pairs `matching` finds.
    pub fn with<M: JoinStrategy>(self, matching: M) -> Result<Arc<dyn ExecutionPlan>> {
        let Self { spec, inputs, projection, .. } = self;
        Ok(Arc::new(JoinExec::with_projection(inputs, Arc::new(spec), Arc::new(matching), projection)?))
    }
}

pub fn projection_to_message(columns: Option<&[usize]>) -> Option<Projection> {
    columns.map(|columns| Projection { columns: columns.iter().map(|&column| column as u64).collect() })
}

/// The columns that come out of `all`.
pub fn projection_from_message(message: Option<&Projection>, all: usize) -> Result<Option<Vec<usize>>> {
    let column = |&column: &u64| usize::try_from(column).ok().filter(|&column| column < all);
    let read = |projection: &Projection| projection.columns.iter().map(column).collect::<Option<Vec<usize>>>();
    message
        .map(|projection| read(projection).ok_or_else(|| malformed("a column comes out that there is not")))
        .transpose()
}

/// The most output partitions of a self-join.
const MOST: usize = 1 << 20;

fn columns(input: &Arc<dyn ExecutionPlan>) -> &datafusion::arrow::datatypes::Schema {
    input.properties().equivalence_properties().schema()
}

fn columns_out(join_type: JoinType, schemas: Schemas<'_>) -> usize {
    let (left, right) = (schemas.left.fields().len(), schemas.right.fields().len());
    match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => left,
        JoinType::RightSemi | JoinType::RightAnti => right,
        _ => left + right,
    }
}

pub fn recall(share: Option<f64>) -> Result<Option<Recall>> {
    share.map(|share| Recall::new(share).ok_or_else(|| malformed("a recall is not between 0 and 1"))).transpose()
}

pub fn join_type_to_message(join_type: JoinType) -> Result<messages::JoinType> {
    Ok(match join_type {
        JoinType::Inner => messages::JoinType::Inner,
        JoinType::Left => messages::JoinType::Left,
        JoinType::Right => messages::JoinType::Right,
        JoinType::Full => messages::JoinType::Full,
        JoinType::LeftSemi => messages::JoinType::LeftSemi,
        JoinType::RightSemi => messages::JoinType::RightSemi,
        JoinType::LeftAnti => messages::JoinType::LeftAnti,
        JoinType::RightAnti => messages::JoinType::RightAnti,
        JoinType::LeftMark | JoinType::RightMark => return Err(malformed("a similarity join marks no rows")),
    })
}

pub fn join_type_from_message(join_type: i32) -> Result<JoinType> {
    Ok(match messages::JoinType::try_from(join_type) {
        Ok(messages::JoinType::Inner) => JoinType::Inner,
        Ok(messages::JoinType::Left) => JoinType::Left,
        Ok(messages::JoinType::Right) => JoinType::Right,
        Ok(messages::JoinType::Full) => JoinType::Full,
        Ok(messages::JoinType::LeftSemi) => JoinType::LeftSemi,
        Ok(messages::JoinType::RightSemi) => JoinType::RightSemi,
        Ok(messages::JoinType::LeftAnti) => JoinType::LeftAnti,
        Ok(messages::JoinType::RightAnti) => JoinType::RightAnti,
        Err(_) => return Err(malformed("this release does not know the type of a join")),
    })
}

pub fn to_message(join: &SimilarityJoinExec, writer: Writer<'_>) -> Result<SimilarityJoin> {
    let SimilarityStrategy { equalities, left_key, right_key, condition, engine: _ } = join.matching();
    Ok(SimilarityJoin {
        join: join_to_message(join, writer)?,
        equalities: writer.equalities(equalities)?,
        keys: writer.keys(left_key, right_key)?,
        condition: Some(condition::to_message(condition)),
    })
}

pub fn from_message(
    message: &SimilarityJoin,
    inputs: &[Arc<dyn ExecutionPlan>],
    reader: &Reader<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let join = ReadJoin::new(message.join.as_ref(), inputs, reader)?;
    let [left_key, right_key] = reader.keys(message.keys.as_ref(), join.schemas)?;
    let condition = message.condition.as_ref().ok_or_else(|| malformed("the similarity condition is missing"))?;
    let matching = SimilarityStrategy {
        equalities: reader.equalities(&message.equalities, join.schemas)?,
        left_key,
        right_key,
        condition: condition::from_message(condition)?,
        engine: join.engine,
    };
    join.with(matching)
}
