//! Pairs by the clauses of an OR of ANDs.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{JoinSide, Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::metrics::Count;
use similarity_engine::metrics::MetricValue;

use super::bands::{BUILD_BYTES, BandExprs, BandValues};
use super::engine::{self, EngineResult, engine_error, in_turn};
use super::equality;
use super::explain::Explained;
use super::kept::{KeptIndex, KeptKey, KeptPart, kept_as};
use super::residual::{self, RowPairs};
use super::same_rows::own_functions;
use super::spec::{EqualityExprs, of_build};
use super::strategy::{BuildRows, BuiltJoin, DynBuiltJoin, JoinStrategy, Run, StrategyInfo};
use crate::predicate::Condition;
use similarity_engine::accelerator::ColumnPrefetch;
use similarity_engine::atoms::{AtomColumn, AtomCondition, PairConditions, RuleCounters, SideColumns};
use similarity_engine::choice::EngineSpec;
use similarity_engine::plan::{AssumedStatistics, AtomKind, RulePlan};
use similarity_engine::recall::Recall;
use similarity_engine::rules::{self, PreparedRules, RuleIndex, RuleSource};
use similarity_engine::stored::Store;
use similarity_engine::{BuildContext, Counts, Cursor, Erased, IndexInfo, Pairs, PrepareContext, Prepared, Probe};

/// An atom in physical expressions.
#[derive(Debug, Clone)]
pub enum AtomExprs {
    /// Both sides are equal.
    Equality(EqualityExprs),
    /// A measure of a key of each side.
    Similarity {
        /// Which of [`RuleStrategy::keys`].
        key: usize,
        /// The measure of the left and the right key, and the accepted scores.
        condition: Condition,
    },
    /// A value of one side lies between two of the other, or a difference between two constants.
    Band(BandExprs),
    /// A condition over one side that fails for no row.
    OneSided {
        /// Side that the condition reads.
        side: JoinSide,
        /// The condition.
        condition: PhysicalExprRef,
    },
    /// A condition over the left row, or else one over the right row, that fail for no row.
    EitherSide {
        /// The condition over the left input.
        left: PhysicalExprRef,
        /// The condition over the right input.
        right: PhysicalExprRef,
    },
    /// Any other condition.
    Pair(JoinFilter),
}

/// The clauses of a condition over shared atoms.
#[derive(Debug, Clone)]
pub struct RuleStrategy {
    /// Every atom once.
    pub atoms: Vec<AtomExprs>,
    /// Each atom as EXPLAIN names it.
    pub labels: Vec<String>,
    /// Keys of similarity conditions, each over the left and over the right input.
    pub keys: Vec<[PhysicalExprRef; 2]>,
    /// The atoms of each clause.
    pub clauses: Vec<Vec<usize>>,
    /// Rows of the build side, where statistics know.
    pub build_rows: Option<usize>,
    /// What finds the pairs.
    pub engine: EngineSpec,
}

impl AtomExprs {
    /// All that the column of the build side depends on, besides the keys.
    fn of_build(&self, build: JoinSide) -> String {
        match self {
            Self::Equality(equality) => format!("{:?} {}", equality.of(build), equality.null_equals_null),
            Self::Band(band) => band.of_build(build),
            Self::OneSided { side, condition } if *side == build => format!("{condition:?}"),
            Self::EitherSide { left, right } => format!("{:?}", if build == JoinSide::Left { left } else { right }),
            // what only the other side or a pair has
            Self::OneSided { .. } | Self::Similarity { .. } | Self::Pair(_) => String::new(),
        }
    }
}

impl RuleStrategy {
    /// A single clause of equalities.
    pub(super) fn of_equalities(equalities: Vec<EqualityExprs>) -> Self {
        Self {
            labels: equalities.iter().map(ToString::to_string).collect(),
            clauses: vec![(0..equalities.len()).collect()],
            atoms: equalities.into_iter().map(AtomExprs::Equality).collect(),
            keys: Vec::new(),
            build_rows: None,
            engine: EngineSpec::CPU,
        }
    }

    /// The equalities that stand in all clauses.
    fn shared_equalities(&self) -> impl Iterator<Item = &EqualityExprs> {
        let shared = |atom: &usize| self.clauses.iter().all(|clause| clause.contains(atom));
        (0..self.atoms.len()).filter(shared).filter_map(|atom| match &self.atoms[atom] {
            AtomExprs::Equality(equality) => Some(equality),
            _ => None,
        })
    }

    /// The atoms as an engine takes them that indexes the rows of `build`.
    fn tests(&self, build: JoinSide) -> Vec<AtomCondition> {
        let condition = |atom: &AtomExprs| match atom {
            AtomExprs::Equality(_) => AtomCondition::Equality,
            AtomExprs::Similarity { key, condition } => {
                AtomCondition::Similarity { key: *key, condition: of_build(*condition, build) }
            }
            AtomExprs::Band(_) => AtomCondition::Band,
            AtomExprs::OneSided { .. } => AtomCondition::OneSided,
            AtomExprs::EitherSide { .. } => AtomCondition::EitherSide,
            AtomExprs::Pair(_) => AtomCondition::Pair,
        };
        self.atoms.iter().map(condition).collect()
    }

    fn kinds(&self, build: JoinSide) -> Vec<AtomKind> {
        self.tests(build).iter().map(AtomKind::from).collect()
    }

    /// The plan before any row is read.
    fn estimated(&self) -> RulePlan {
        // an estimate asks no rows, so that either side will do
        let kinds = self.kinds(JoinSide::Left);
        let statistics = AssumedStatistics { kinds: &kinds, rows: self.build_rows };
        RulePlan::of(&kinds, &self.clauses, &statistics, |count, group| (0..count).map(group).collect())
    }

    /// The execution trees as they are expected to be, in the language of Graphviz.
    pub fn graphviz(&self) -> String {
        self.estimated().display(&self.labels, &[]).graphviz()
    }

    /// The keys of similarity conditions over `batch`, rows of `side`.
    fn key_values(&self, side: JoinSide, batch: &RecordBatch, threads: usize) -> Result<Vec<ArrayRef>> {
        in_turn(self.keys.len(), threads, |key| of(&self.keys[key], side).evaluate(batch)?.into_array(batch.num_rows()))
    }

    /// The values of an equality, or the bits of a condition over one side where `batch` is of that side.
    fn column(&self, atom: usize, side: JoinSide, batch: &RecordBatch) -> Result<AtomColumn> {
        match &self.atoms[atom] {
            AtomExprs::Equality(equality) => {
                let values = equality::evaluate(equality.of(side), batch)?;
                Ok(AtomColumn::Values { values, null_equals_null: equality.null_equals_null })
            }
            AtomExprs::OneSided { side: of, condition } if *of == side => {
                Ok(AtomColumn::Bits(passing(condition, batch)?))
            }
            AtomExprs::EitherSide { left, right } => {
                let condition = if side == JoinSide::Left { left } else { right };
                Ok(AtomColumn::EitherBits(passing(condition, batch)?))
            }
            _ => Ok(AtomColumn::None),
        }
    }
}

/// The key of a side.
fn of([left, right]: &[PhysicalExprRef; 2], side: JoinSide) -> &PhysicalExprRef {
    if side == JoinSide::Left { left } else { right }
}

/// Whether each row passes a condition.
fn passing(condition: &PhysicalExprRef, batch: &RecordBatch) -> Result<BooleanBuffer> {
    let values = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    Ok(where_true(as_boolean_array(&values)?))
}

fn where_true(values: &BooleanArray) -> BooleanBuffer {
    match values.nulls() {
        Some(nulls) => values.values() & nulls.inner(),
        None => values.values().clone(),
    }
}

impl JoinStrategy for RuleStrategy {
    fn info(&self) -> StrategyInfo {
        let has_measure = self.atoms.iter().any(|atom| matches!(atom, AtomExprs::Similarity { .. }));
        StrategyInfo {
            name: "MatchingDependencyBlockExec",
            directed: false,
            divisible: true,
            is_cheap: !has_measure && self.shared_equalities().next().is_none(),
        }
    }

    fn expressions(&self) -> Vec<&PhysicalExprRef> {
        let mut all: Vec<_> = self.keys.iter().flatten().collect();
        for atom in &self.atoms {
            match atom {
                AtomExprs::Equality(equality) => all.extend([&equality.left, &equality.right]),
                AtomExprs::Similarity { .. } => {}
                AtomExprs::Band(band) => all.extend(band.expressions()),
                AtomExprs::OneSided { condition, .. } => all.push(condition),
                AtomExprs::EitherSide { left, right } => all.extend([left, right]),
                AtomExprs::Pair(condition) => all.push(condition.expression()),
            }
        }
        all
    }

    fn explained(&self) -> Explained<'_> {
        Explained::Rules { clauses: self.clauses.len(), estimated: self.estimated(), labels: &self.labels }
    }

    fn engine(&self) -> EngineSpec {
        self.engine
    }

    fn equalities(&self) -> Option<Vec<EqualityExprs>> {
        Some(self.shared_equalities().cloned().collect())
    }

    fn counters(&self) -> Vec<String> {
        let clauses = (1..=self.clauses.len())
            .flat_map(|n| ["candidates", "verified", "witnesses"].map(|what| format!("clause_{n}_{what}")));
        let atoms = (1..=self.atoms.len()).flat_map(|n| ["evaluated", "passed"].map(|what| format!("atom_{n}_{what}")));
        clauses.chain(atoms).collect()
    }

    fn prefetch(
        &self,
        side: JoinSide,
        schema: &Schema,
        rows: usize,
        context: &BuildContext<'_>,
    ) -> Option<Box<dyn ColumnPrefetch>> {
        let device = engine::open(self.engine).ok()?.device_of_keys(rows, context)?;
        let tests = self.tests(side);
        let texts = rules::strings_ahead(device.platform(), &tests, &self.clauses).map(|key| of(&self.keys[key], side));
        let equalities = self.atoms.iter().filter_map(|atom| match atom {
            AtomExprs::Equality(equality) => Some(equality.of(side)),
            _ => None,
        });
        let column = |key: &PhysicalExprRef| Some(key.downcast_ref::<Column>()?.index());
        let mut columns: Vec<usize> = texts.chain(equalities).filter_map(column).collect();
        columns.retain(|&column| *schema.field(column).data_type() == DataType::Utf8View);
        columns.sort_unstable();
        columns.dedup();
        device.prefetch(&columns, rows)
    }

    fn kept_key(&self, side: JoinSide, _: Option<Recall>) -> Option<KeptKey> {
        let keys: Vec<_> = self.keys.iter().map(|key| of(key, side)).collect();
        let atoms: Vec<_> = self.atoms.iter().map(|atom| atom.of_build(side)).collect();
        let (tests, clauses) = (self.tests(side), &self.clauses);
        Some(KeptKey {
            text: format!("{clauses:?} of {tests:?} over {atoms:?} and {keys:?}, of {side}"),
            label: format!("{} clauses", clauses.len()),
            functions: own_functions(self.expressions().into_iter()),
        })
    }

    fn build(&self, rows: BuildRows<'_>, context: &BuildContext<'_>) -> Result<Box<DynBuiltJoin>> {
        let BuildRows { side, batch, sent, kept, .. } = rows;
        if let Some(kept) = kept_as(kept) {
            return Ok(self.matcher(side, batch, kept));
        }
        let columns = in_turn(self.atoms.len(), context.threads, |atom| match &self.atoms[atom] {
            AtomExprs::Band(band) => {
                (context.reserve)(batch.num_rows() * BUILD_BYTES).or_datafusion()?;
                let (values, column) = band.build(side, batch, context.self_join, context.threads)?;
                Ok((Some(values), AtomColumn::Band(Arc::new(column))))
            }
            _ => Ok((None, self.column(atom, side, batch)?)),
        })?;
        let (bands, atoms): (Vec<_>, _) = columns.into_iter().unzip();
        let columns =
            SideColumns { rows: batch.num_rows(), atoms, keys: self.key_values(side, batch, context.threads)? };
        let source = RuleSource { conditions: self.tests(side), clauses: self.clauses.clone(), sent: sent.cloned() };
        let engine = engine::open(self.engine)?;
        let index = RuleIndex::try_new(source, columns, &engine, context).or_datafusion()?;
        Ok(self.matcher(side, batch, Arc::new(IndexedRules { bands, index })))
    }
}

impl RuleStrategy {
    /// What probes the index of `batch`, rows of a side.
    fn matcher(&self, side: JoinSide, batch: &RecordBatch, indexed: Arc<IndexedRules>) -> Box<DynBuiltJoin> {
        let info = indexed.info(&self.labels);
        Box::new(Erased(RuleMatcher { keys: self.clone(), side, batch: batch.clone(), indexed, info }))
    }
}

/// The rows of a side under all clauses, whatever probes them.
#[derive(Debug)]
struct IndexedRules {
    /// What a probe side is looked up in, for each atom that is a band.
    bands: Vec<Option<BandValues>>,
    index: RuleIndex,
}

impl IndexedRules {
    /// What is known of the index, with the names of its atoms.
    fn info(&self, labels: &[String]) -> IndexInfo {
        let Self { bands, index } = self;
        IndexInfo {
            path: index.plan().display(labels, &index.chosen()).to_string(),
            bytes: index.memory() + bands.iter().flatten().map(BandValues::memory).sum::<usize>(),
            unmatchable: index.unmatchable(),
            undecided: false,
            self_join_len: index.len(None),
            rows_at_once: index.rows_at_once(),
            shared: index.is_shared(None),
        }
    }
}

impl KeptIndex for IndexedRules {
    fn stored(&self) -> Option<&dyn Store> {
        None
    }
}

#[derive(Debug)]
struct RuleMatcher {
    keys: RuleStrategy,
    /// The build side.
    side: JoinSide,
    batch: RecordBatch,
    indexed: Arc<IndexedRules>,
    info: IndexInfo,
}

struct PreparedBatch {
    batch: RecordBatch,
    rules: PreparedRules,
}

impl BuiltJoin for RuleMatcher {
    type Batch = PreparedBatch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.indexed.index.metrics()
    }

    fn kept(&self) -> Option<KeptPart> {
        Some(Arc::clone(&self.indexed) as KeptPart)
    }

    fn self_join_stretch(&self, start: usize) -> usize {
        self.indexed.index.self_join_stretch(start)
    }

    fn prepare(&self, batch: &RecordBatch, context: &PrepareContext<'_>) -> Result<Prepared<PreparedBatch>> {
        let side = self.side.negate();
        let IndexedRules { bands, index } = self.indexed.as_ref();
        let column = |atom: usize| match (&self.keys.atoms[atom], &bands[atom]) {
            (AtomExprs::Band(band), Some(values)) => Ok(AtomColumn::Band(Arc::new(band.look_up(values, side, batch)?))),
            _ => self.keys.column(atom, side, batch),
        };
        let atoms = in_turn(bands.len(), context.threads, column)?;
        let keys = self.keys.key_values(side, batch, context.threads)?;
        let rules = index.prepare(SideColumns { rows: batch.num_rows(), atoms, keys }, context).or_datafusion()?;
        let (len, unmatchable) = (index.len(Some(&rules)), rules.unmatchable());
        let shared = index.is_shared(Some(&rules));
        Ok(Prepared { shared, ..Prepared::new(PreparedBatch { batch: batch.clone(), rules }, len, unmatchable) })
    }

    fn probe(
        &self,
        probe: Probe<'_, PreparedBatch>,
        cursor: &mut Cursor,
        run: &Run<'_>,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let prepared = match probe {
            Probe::SelfJoin => None,
            Probe::Batch(prepared) => Some(prepared),
        };
        let conditions = Conditions {
            atoms: &self.keys.atoms,
            build: &self.batch,
            probe: prepared.map_or(&self.batch, |prepared| &prepared.batch),
            build_is_right: self.side == JoinSide::Right,
        };
        let mut tally = RuleCounters::new(self.keys.atoms.len(), self.keys.clauses.len());
        let counts = self
            .indexed
            .index
            .probe(
                prepared.map(|prepared| &prepared.rules),
                cursor,
                run.limit,
                &rules::Run { conditions: &conditions, cancel: run.cancel },
                out,
                &mut tally,
            )
            .or_datafusion()?;
        add(&tally, run.counters);
        Ok(counts)
    }
}

/// Adds to the counters in the order of [`RuleStrategy::counters`].
fn add(tally: &RuleCounters, counters: &[Count]) {
    let clauses = tally.candidates.iter().zip(&tally.verified).zip(&tally.witnesses);
    let clauses = clauses.flat_map(|((candidates, verified), witnesses)| [candidates, verified, witnesses]);
    let atoms = tally.evaluated.iter().zip(&tally.passed).flat_map(|(evaluated, passed)| [evaluated, passed]);
    for (counter, number) in counters.iter().zip(clauses.chain(atoms)) {
        counter.add(*number);
    }
}

/// Decides the conditions that read both sides, over record batches.
struct Conditions<'a> {
    atoms: &'a [AtomExprs],
    build: &'a RecordBatch,
    probe: &'a RecordBatch,
    build_is_right: bool,
}

impl PairConditions for Conditions<'_> {
    fn select(&self, atom: usize, pairs: &Pairs) -> similarity_engine::Result<Vec<u16>> {
        self.select_rows(atom, pairs).map_err(engine_error)
    }
}

impl Conditions<'_> {
    fn select_rows(&self, atom: usize, pairs: &Pairs) -> Result<Vec<u16>> {
        let AtomExprs::Pair(condition) = &self.atoms[atom] else {
            return Err(internal_datafusion_err!("atom {atom} is not a condition of the driver"));
        };
        let [build, probe] = [&pairs.build, &pairs.probe].map(|rows| UInt32Array::from(rows.clone()));
        let (rows, left, right) = match self.build_is_right {
            true => (RowPairs { left: probe, right: build }, self.probe, self.build),
            false => (RowPairs { left: build, right: probe }, self.build, self.probe),
        };
        let holds = where_true(&residual::evaluate(condition, &rows, left, right)?);
        Ok(holds.set_indices().map(|at| at as u16).collect())
    }
}
