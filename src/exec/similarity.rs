//! Pairs by the index of one similarity condition.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{DataFusionError, JoinSide, Result};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::CastExpr;
use similarity_engine::metrics::MetricValue;

use super::engine::{self, EngineResult, datafusion_error};
use super::equality;
use super::explain::{self, Explained};
use super::kept::{KeptIndex, KeptKey, KeptPart, kept_as};
use super::same_rows::own_functions;
use super::spec::{EqualityExprs, of_build};
use super::strategy::{BuildKeys, BuildRows, BuiltJoin, DynBuiltJoin, JoinStrategy, RegionKey, Run, StrategyInfo};
use crate::predicate::Condition;
use similarity_engine::accelerator::Accelerator;
use similarity_engine::choice::{Engine, EngineSpec};
use similarity_engine::cpu;
use similarity_engine::equality::{Codes, Groups, Numberer};
use similarity_engine::reason::Reason;
use similarity_engine::recall::Recall;
use similarity_engine::stored::{Sink, Source, Store, Stored, store_some};
use similarity_engine::vectors::Vectors;
use similarity_engine::{
    AnyBatch, BuildContext, Counts, Cursor, DynPairIndex, IndexInfo, KeyColumn, Pairs, PrepareContext, Prepared, Probe,
};

/// One similarity condition, within the groups of equality keys.
#[derive(Debug, Clone)]
pub struct SimilarityStrategy {
    /// Rows pair only where these agree.
    pub equalities: Vec<EqualityExprs>,
    /// The key of the similarity condition over the left input.
    pub left_key: PhysicalExprRef,
    /// The key of the similarity condition over the right input.
    pub right_key: PhysicalExprRef,
    /// The similarity condition that the index decides, of the left and the right key.
    pub condition: Condition,
    /// What makes the index.
    pub engine: EngineSpec,
}

/// The keys of one side.
#[derive(Debug, Clone)]
struct SideKeys {
    equalities: Vec<PhysicalExprRef>,
    key: PhysicalExprRef,
    is_vector: bool,
}

impl SimilarityStrategy {
    fn of(&self, side: JoinSide) -> SideKeys {
        SideKeys {
            equalities: self.equalities.iter().map(|e| Arc::clone(e.of(side))).collect(),
            key: Arc::clone(if side == JoinSide::Left { &self.left_key } else { &self.right_key }),
            is_vector: matches!(self.condition, Condition::Vector(_)),
        }
    }
}

impl SideKeys {
    fn evaluate(&self, batch: &RecordBatch) -> Result<BuildKeys> {
        let values = self.values(batch)?;
        Ok(BuildKeys { values, equalities: equality::evaluate_all(&self.equalities, batch)? })
    }

    fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let of = |key: &PhysicalExprRef| key.evaluate(batch)?.into_array(batch.num_rows());
        // an index makes numbers of the type that it needs itself, by all threads
        if let Some(cast) = self.key.downcast_ref::<CastExpr>()
            && self.is_vector
            && Vectors::are_those_cast(&cast.expr().data_type(batch.schema_ref())?, cast.cast_type())
        {
            return of(cast.expr());
        }
        of(&self.key)
    }
}

impl JoinStrategy for SimilarityStrategy {
    fn info(&self) -> StrategyInfo {
        let is_vector = matches!(self.condition, Condition::Vector(_));
        let name = if is_vector { "EpsilonJoinExec" } else { "SimilarityJoinExec" };
        StrategyInfo { name, directed: false, divisible: true, is_cheap: false }
    }

    fn expressions(&self) -> Vec<&PhysicalExprRef> {
        let mut all = vec![&self.left_key, &self.right_key];
        all.extend(self.equalities.iter().flat_map(|e| [&e.left, &e.right]));
        all
    }

    fn explained(&self) -> Explained<'_> {
        Explained::Similarity {
            condition: self.condition,
            left: &self.left_key,
            right: &self.right_key,
            equalities: &self.equalities,
        }
    }

    fn engine(&self) -> EngineSpec {
        self.engine
    }

    fn equalities(&self) -> Option<Vec<EqualityExprs>> {
        Some(self.equalities.clone())
    }

    fn region_key(&self) -> Option<RegionKey<'_>> {
        Some(RegionKey { condition: self.condition, left: &self.left_key, right: &self.right_key })
    }

    fn kept_key(&self, side: JoinSide, _: Option<Recall>) -> Option<KeptKey> {
        let condition = of_build(self.condition, side);
        let SideKeys { equalities, key, .. } = self.of(side);
        let nulls: Vec<_> = self.equalities.iter().map(|e| e.null_equals_null).collect();
        let text = format!("{condition:?} of {key:?}, within {equalities:?} {nulls:?}");
        let functions = own_functions(equalities.iter().chain([&key]));
        Some(KeptKey { text, label: self.condition.to_string(), functions })
    }

    fn load(&self, rows: BuildRows<'_>, source: &mut Source<'_>, context: &BuildContext<'_>) -> Result<KeptPart> {
        let equalities = equality::evaluate_all(&self.of(rows.side).equalities, rows.batch)?;
        let groups = self.groups(&equalities, None, context)?.map(|(groups, _)| groups);
        let info = IndexInfo::load(source).or_datafusion()?;
        let index = cpu::load(of_build(self.condition, rows.side), source, context).or_datafusion()?;
        Ok(Arc::new(IndexedKeys { groups, numbering: Vec::new(), index, info, reason: Reason::default() }))
    }

    fn keys(&self, side: JoinSide, batch: &RecordBatch) -> Result<Option<BuildKeys>> {
        match self.condition {
            Condition::Set { .. } => self.of(side).evaluate(batch).map(Some),
            // strings are what their index compares, and rows may have to decide about vectors
            Condition::Edit { .. } | Condition::Vector(_) => Ok(None),
        }
    }

    fn build_of_keys(&self, side: JoinSide, keys: BuildKeys, context: &BuildContext<'_>) -> Result<Box<DynBuiltJoin>> {
        let indexed = self.index(side, keys, context)?;
        Ok(self.matcher(side, Arc::new(indexed)))
    }

    fn build(&self, rows: BuildRows<'_>, context: &BuildContext<'_>) -> Result<Box<DynBuiltJoin>> {
        let BuildRows { side, batch, kept, .. } = rows;
        match kept_as(kept) {
            Some(kept) => Ok(self.matcher(side, kept)),
            None => self.build_of_keys(side, self.of(side).evaluate(batch)?, context),
        }
    }
}

impl SimilarityStrategy {
    /// What probes an index of a side with rows of the other one.
    fn matcher(&self, side: JoinSide, indexed: Arc<IndexedKeys>) -> Box<DynBuiltJoin> {
        let label = explain::label(self.condition, &self.left_key, &self.right_key);
        Box::new(SimilarityMatcher { indexed, probe: self.of(side.negate()), label })
    }

    /// Indexes the keys of a side.
    fn index(&self, side: JoinSide, keys: BuildKeys, context: &BuildContext<'_>) -> Result<IndexedKeys> {
        let BuildKeys { values, equalities } = keys;
        let engine = engine::open(self.engine)?;
        // under `auto` a device is chosen by the work that groups leave
        let device = match &engine {
            Engine::Devices(devices) if devices.platform().serves(self.condition) && !equalities.is_empty() => {
                engine.device_of_keys(values.len(), context)
            }
            Engine::Devices(_) | Engine::Auto { .. } | Engine::Cpu => None,
        };
        let (groups, ids) = match self.groups(&equalities, device.as_deref(), context)? {
            Some((groups, ids)) => (Some(groups), Some(ids.into_vec().or_datafusion()?)),
            None => (None, None),
        };
        let numbering = device.map_or_else(Vec::new, |device| device.metrics());
        let label = explain::label(self.condition, &self.left_key, &self.right_key);
        let keys = KeyColumn { values, groups: ids };
        let (index, reason) = engine.build(of_build(self.condition, side), keys, context).map_err(named(&label))?;
        let of_index = index.info().clone();
        let info = IndexInfo {
            path: format!("{}{reason}", of_index.path),
            bytes: of_index.bytes + groups.as_ref().map_or(0, Groups::memory),
            ..of_index
        };
        Ok(IndexedKeys { groups, numbering, index, info, reason })
    }

    /// The groups of equality keys, and the group of each row; none without equality keys.
    fn groups(
        &self,
        equalities: &[ArrayRef],
        device: Option<&dyn Accelerator>,
        context: &BuildContext<'_>,
    ) -> Result<Option<(Groups, Codes)>> {
        if equalities.is_empty() {
            return Ok(None);
        }
        let nulls = self.equalities.iter().map(|e| e.null_equals_null).collect();
        let by = Numberer { threads: context.threads, self_join: context.self_join, device };
        let (groups, ids) = Groups::build(equalities, nulls, by).or_datafusion()?;
        (context.reserve)(groups.memory()).or_datafusion()?;
        Ok(Some((groups, ids)))
    }
}

/// Errors about keys with the condition that has them.
fn named(label: &str) -> impl Fn(similarity_engine::Error) -> DataFusionError + '_ {
    move |error| match datafusion_error(error) {
        DataFusionError::Execution(message) => DataFusionError::Execution(format!("{label}: {message}")),
        other => other,
    }
}

/// The keys of a build side, whatever probes them.
#[derive(Debug)]
struct IndexedKeys {
    groups: Option<Groups>,
    /// What a device has counted that has numbered the keys.
    numbering: Vec<MetricValue>,
    index: Box<DynPairIndex>,
    info: IndexInfo,
    /// Why it is on its engine.
    reason: Reason,
}

impl KeptIndex for IndexedKeys {
    fn stored(&self) -> Option<&dyn Store> {
        let on_host = !self.groups.as_ref().is_some_and(Groups::is_on_device);
        self.index.stored().filter(|_| on_host).map(|_| self as &dyn Store)
    }
}

/// The groups are made of the rows again.
impl Store for IndexedKeys {
    fn store(&self, sink: &mut Sink<'_>) -> similarity_engine::Result<()> {
        self.info.store(sink)?;
        store_some(self.index.stored(), sink)
    }
}

#[derive(Debug)]
struct SimilarityMatcher {
    indexed: Arc<IndexedKeys>,
    probe: SideKeys,
    /// The condition, for errors.
    label: String,
}

impl BuiltJoin for SimilarityMatcher {
    type Batch = AnyBatch;

    fn info(&self) -> &IndexInfo {
        &self.indexed.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        let IndexedKeys { numbering, index, reason, .. } = self.indexed.as_ref();
        numbering.iter().cloned().chain(index.metrics()).chain(reason.metric()).collect()
    }

    fn kept(&self) -> Option<KeptPart> {
        Some(Arc::clone(&self.indexed) as KeptPart)
    }

    fn self_join_stretch(&self, start: usize) -> usize {
        self.indexed.index.self_join_stretch(start)
    }

    fn prepare(&self, batch: &RecordBatch, context: &PrepareContext<'_>) -> Result<Prepared<AnyBatch>> {
        let values = self.probe.values(batch)?;
        let groups = match &self.indexed.groups {
            Some(groups) => {
                let values = equality::evaluate_all(&self.probe.equalities, batch)?;
                Some(groups.look_up(&values).and_then(Codes::into_vec).or_datafusion()?)
            }
            None => None,
        };
        self.indexed.index.prepare(&KeyColumn { values, groups }, context).map_err(named(&self.label))
    }

    fn probe(&self, probe: Probe<'_, AnyBatch>, cursor: &mut Cursor, run: &Run<'_>, out: &mut Pairs) -> Result<Counts> {
        self.indexed.index.probe(probe, cursor, run.limit, run.cancel, out).or_datafusion()
    }
}
