//! What finds the pairs of a join: the part in which the operators differ.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::metrics::Count;
use similarity_engine::metrics::MetricValue;

use super::engine::EngineResult;
use super::explain::Explained;
use super::kept::{KeptKey, KeptPart};
use super::spec::EqualityExprs;
use crate::predicate::Condition;
use similarity_engine::accelerator::{Accelerator, ColumnPrefetch};
use similarity_engine::choice::EngineSpec;
use similarity_engine::nearest::Wanted;
use similarity_engine::recall::Recall;
use similarity_engine::stored::Source;
use similarity_engine::{
    AnyBatch, BuildContext, Cancel, Counts, Cursor, Erased, IndexInfo, Limit, Pairs, PrepareContext, Prepared, Probe,
    even_stretch,
};

/// What an operator looks for, in physical expressions.
pub trait JoinStrategy: Debug + Send + Sync + 'static {
    /// What the operator is, whatever its rows are.
    fn info(&self) -> StrategyInfo;

    /// Every expression.
    fn expressions(&self) -> Vec<&PhysicalExprRef>;

    /// What EXPLAIN shows.
    fn explained(&self) -> Explained<'_>;

    /// What was asked for to find the pairs.
    fn engine(&self) -> EngineSpec;

    /// Whether [`build`](Self::build) may need it.
    fn needs_engine(&self) -> bool {
        true
    }

    /// Names of the counters that [`BuiltJoin::probe`] adds to.
    fn counters(&self) -> Vec<String> {
        Vec::new()
    }

    /// The equalities that every pair satisfies, for rows whose other keys cannot be evaluated; `None` where pairs by
    /// these and the condition would be other pairs.
    fn equalities(&self) -> Option<Vec<EqualityExprs>>;

    /// The key by which rows lie near each other or far apart, or are of sizes that can match, for a build side on
    /// disk.
    fn region_key(&self) -> Option<RegionKey<'_>> {
        None
    }

    /// Order between rows of several parts of a build side; `None` where it does not rank them.
    fn part_ranking(self: Arc<Self>) -> Option<Arc<dyn PartRanking>> {
        None
    }

    /// Begins to send those columns of `side`, whose `rows` rows are to be put together, that [`build`](Self::build)
    /// will read on a device. The device that they are sent to goes with the rows that it is given.
    fn prefetch(
        &self,
        _side: JoinSide,
        _schema: &Schema,
        _rows: usize,
        _context: &BuildContext<'_>,
    ) -> Option<Box<dyn ColumnPrefetch>> {
        None
    }

    /// What [`build`](Self::build) depends on besides the rows of `side` and the `recall`; `None` where nothing of it
    /// can be kept.
    fn kept_key(&self, _side: JoinSide, _recall: Option<Recall>) -> Option<KeptKey> {
        None
    }

    /// Reads what was [kept](BuiltJoin::kept) of the same rows under the same [key](Self::kept_key) and
    /// [stored](super::KeptIndex::stored).
    ///
    /// # Errors
    /// Bytes that are no such index.
    fn load(&self, _rows: BuildRows<'_>, _source: &mut Source<'_>, _context: &BuildContext<'_>) -> Result<KeptPart> {
        internal_err!("{} keeps nothing", self.info().name)
    }

    /// The keys of the collected rows of a side, where an index needs nothing else of them and never asks for the whole
    /// condition on a pair; `None` for any other.
    ///
    /// # Errors
    /// Whatever the evaluation of a key fails with.
    fn keys(&self, _side: JoinSide, _batch: &RecordBatch) -> Result<Option<BuildKeys>> {
        Ok(None)
    }

    /// Indexes [keys](Self::keys), whose memory it may free before it is done.
    ///
    /// # Errors
    /// A refused reservation, a cancelled build.
    fn build_of_keys(
        &self,
        _side: JoinSide,
        _keys: BuildKeys,
        _context: &BuildContext<'_>,
    ) -> Result<Box<DynBuiltJoin>> {
        internal_err!("{} indexes rows, not keys", self.info().name)
    }

    /// Indexes the collected rows of a side.
    ///
    /// # Errors
    /// Whatever the evaluation of a key fails with, a refused reservation, a cancelled build.
    fn build(&self, rows: BuildRows<'_>, context: &BuildContext<'_>) -> Result<Box<DynBuiltJoin>>;
}

/// What an operator is, whatever its rows are.
#[derive(Debug, Clone, Copy)]
pub struct StrategyInfo {
    /// Name of the operator.
    pub name: &'static str,
    /// Whether the left row of a pair is another thing than the right one, in a self-join, too: then all rows are
    /// probed with, else each pair comes out one way round.
    pub directed: bool,
    /// Whether the pairs of each part of the build side are pairs of the whole, so that it can be joined part by part.
    pub divisible: bool,
    /// Whether a plain join would ask the condition of all pairs, and that costs no more than a look at each of them.
    pub is_cheap: bool,
}

/// Collected rows of a build side.
#[derive(Debug, Clone, Copy)]
pub struct BuildRows<'a> {
    /// The side that they are of.
    pub side: JoinSide,
    /// The rows.
    pub batch: &'a RecordBatch,
    /// The device that was [sent](JoinStrategy::prefetch) some columns.
    pub sent: Option<&'a Arc<dyn Accelerator>>,
    /// What was [kept](BuiltJoin::kept) of the same rows under the same [key](JoinStrategy::kept_key).
    pub kept: Option<&'a KeptPart>,
    /// The rank of each row among those of all parts, where these are the rows of one part of a ranking.
    pub ranks: Option<&'a [u32]>,
}

/// The keys of a build side, one value a row each.
#[derive(Debug)]
pub struct BuildKeys {
    /// What the index is about.
    pub values: ArrayRef,
    /// The keys of equalities.
    pub equalities: Vec<ArrayRef>,
}

/// A ranking of the right side, as far as rows of several parts are compared.
pub trait PartRanking: Debug + Send + Sync {
    /// How many neighbours each left row gets.
    fn wanted(&self) -> Wanted;

    /// Sort keys over the right side that decide between equal scores.
    fn then_by(&self) -> &[PhysicalSortExpr];

    /// The scores of pairs of rows as integers, the less the better; `None` for NULL.
    ///
    /// # Errors
    /// Whatever the evaluation of the score fails with.
    fn scores(&self, rows: [&UInt32Array; 2], left: &RecordBatch, right: &RecordBatch) -> Result<Vec<Option<i128>>>;
}

/// A key of each side, and the condition by which rows match.
#[derive(Debug, Clone, Copy)]
pub struct RegionKey<'a> {
    /// The condition on the left and the right key.
    pub condition: Condition,
    /// The key of the left side.
    pub left: &'a PhysicalExprRef,
    /// The key of the right side.
    pub right: &'a PhysicalExprRef,
}

/// A build side ready to be probed: an index as the engines have it, over record batches.
pub trait BuiltJoin: Debug + Send + Sync {
    /// A probe batch in the form that the join wants.
    type Batch: Send + Sync + 'static;

    /// What is known of the build side since it was indexed.
    fn info(&self) -> &IndexInfo;

    /// What it counts by itself, for EXPLAIN ANALYZE.
    fn metrics(&self) -> Vec<MetricValue> {
        Vec::new()
    }

    /// The part of it that another query can use.
    fn kept(&self) -> Option<KeptPart> {
        None
    }

    /// The end of a stretch from `start` on, before [`self_join_len`](IndexInfo::self_join_len), that is neither too
    /// much work for partitions to end together nor too little to be worth claiming.
    fn self_join_stretch(&self, start: usize) -> usize {
        even_stretch(start, self.info().self_join_len)
    }

    /// Makes a batch of the probe side ready.
    ///
    /// # Errors
    /// Whatever the evaluation of a key fails with, a cancelled query.
    fn prepare(&self, batch: &RecordBatch, context: &PrepareContext<'_>) -> Result<Prepared<Self::Batch>>;

    /// Appends matching pairs from `cursor` on until it is done or `limit` is reached, and moves `cursor`; in a
    /// self-join that is not directed each pair one way round.
    ///
    /// # Errors
    /// Whatever the evaluation of a condition fails with.
    fn probe(
        &self,
        probe: Probe<'_, Self::Batch>,
        cursor: &mut Cursor,
        run: &Run<'_>,
        out: &mut Pairs,
    ) -> Result<Counts>;
}

/// A build side ready to be probed, of whichever operator.
pub type DynBuiltJoin = dyn BuiltJoin<Batch = AnyBatch>;

impl<J: BuiltJoin> BuiltJoin for Erased<J> {
    type Batch = AnyBatch;

    fn info(&self) -> &IndexInfo {
        self.0.info()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.0.metrics()
    }

    fn kept(&self) -> Option<KeptPart> {
        self.0.kept()
    }

    fn self_join_stretch(&self, start: usize) -> usize {
        self.0.self_join_stretch(start)
    }

    fn prepare(&self, batch: &RecordBatch, context: &PrepareContext<'_>) -> Result<Prepared<AnyBatch>> {
        Ok(self.0.prepare(batch, context)?.map(AnyBatch::new))
    }

    fn probe(&self, probe: Probe<'_, AnyBatch>, cursor: &mut Cursor, run: &Run<'_>, out: &mut Pairs) -> Result<Counts> {
        self.0.probe(probe.typed().or_datafusion()?, cursor, run, out)
    }
}

/// What a call of [`BuiltJoin::probe`] may do, and what it tells besides pairs.
pub struct Run<'a> {
    /// Limit at which the call returns.
    pub limit: Limit,
    /// Stops the probe.
    pub cancel: &'a Cancel,
    /// One for each of [`JoinStrategy::counters`].
    pub counters: &'a [Count],
}
