//! Pairs by the condition alone: each row that comes out is compared with the rows of the other side until one is a
//! partner.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{JoinSide, Result, ScalarValue};
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::settles::Settles;
use crate::exec::engine::EngineResult;
use crate::exec::strategy::{BuiltJoin, Run};
use similarity_engine::{Counts, Cursor, IndexInfo, Pairs, PrepareContext, Prepared, Probe};

/// Rows that a condition is evaluated on at once.
const AT_ONCE: usize = 8192;

/// The build side of a nested loop.
#[derive(Debug)]
pub(super) struct Nested {
    condition: JoinFilter,
    pub(super) build: RecordBatch,
    build_side: JoinSide,
    settles: Settles,
    info: IndexInfo,
}

impl Nested {
    pub(super) fn new(condition: JoinFilter, build: RecordBatch, build_side: JoinSide, settles: Settles) -> Self {
        let info = IndexInfo { path: "nested loop".into(), ..IndexInfo::default() };
        Self { condition, build, build_side, settles, info }
    }

    /// The row of the other side that is the first partner of `row` on the side that comes out.
    fn first_partner(&self, probe: &RecordBatch, row: usize, counts: &mut Counts) -> Result<Option<u32>> {
        let (own, other, own_side) = match self.settles {
            Settles::Build => (&self.build, probe, self.build_side),
            Settles::Probe => (probe, &self.build, self.build_side.negate()),
        };
        let rows = other.num_rows();
        let constants = self.constants(own, own_side, row, rows.min(AT_ONCE))?;
        for start in (0..rows).step_by(AT_ONCE) {
            let length = AT_ONCE.min(rows - start);
            counts.candidates += length;
            counts.verified += length;
            let columns =
                self.condition.column_indices().iter().zip(&constants).map(|(column, constant)| match constant {
                    Some(values) => values.slice(0, length),
                    None => other.column(column.index).slice(start, length),
                });
            let options = RecordBatchOptions::new().with_row_count(Some(length));
            let schema = Arc::clone(self.condition.schema());
            let batch = RecordBatch::try_new_with_options(schema, columns.collect(), &options)?;
            let holds = self.condition.expression().evaluate(&batch)?.into_array(length)?;
            let holds = as_boolean_array(&holds)?;
            let is_true = |&at: &usize| holds.is_valid(at) && holds.value(at);
            if holds.true_count() > 0
                && let Some(at) = (0..length).find(is_true)
            {
                counts.matched += 1;
                return Ok(Some((start + at) as u32));
            }
        }
        Ok(None)
    }

    /// The values of a row, as often as they are needed, for each column of its side that the condition reads.
    fn constants(&self, own: &RecordBatch, side: JoinSide, row: usize, times: usize) -> Result<Vec<Option<ArrayRef>>> {
        let constant = |values: &ArrayRef| -> Result<ArrayRef> {
            match values.data_type().is_nested() {
                true => Ok(take(values, &UInt32Array::from(vec![row as u32; times]), None)?),
                false => ScalarValue::try_from_array(values, row)?.to_array_of_size(times),
            }
        };
        let columns = self.condition.column_indices().iter();
        columns.map(|column| (column.side == side).then(|| constant(own.column(column.index))).transpose()).collect()
    }
}

impl BuiltJoin for Nested {
    type Batch = RecordBatch;

    fn info(&self) -> &IndexInfo {
        &self.info
    }

    fn prepare(&self, batch: &RecordBatch, _context: &PrepareContext<'_>) -> Result<Prepared<RecordBatch>> {
        let rows = match self.settles {
            Settles::Build => self.build.num_rows(),
            Settles::Probe => batch.num_rows(),
        };
        Ok(Prepared::new(batch.clone(), rows, 0))
    }

    fn probe(
        &self,
        probe: Probe<'_, RecordBatch>,
        cursor: &mut Cursor,
        run: &Run<'_>,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let probe = probe.batch().or_datafusion()?;
        let mut counts = Counts::default();
        while !cursor.is_done()
            && counts.candidates < run.limit.work
            && out.len() < run.limit.pairs
            && !run.cancel.is_cancelled()
        {
            let row = cursor.next as u32;
            match (self.first_partner(probe, cursor.next, &mut counts)?, self.settles) {
                (Some(partner), Settles::Build) => out.push(row, partner),
                (Some(partner), Settles::Probe) => out.push(partner, row),
                (None, _) => {}
            }
            cursor.next += 1;
        }
        Ok(counts)
    }
}
