//! Pairs by the condition alone: each row that comes out is compared with the rows of the other side until one is a
//! partner.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{JoinSide, Result, ScalarValue, internal_err};
use datafusion::physical_plan::joins::utils::JoinFilter;

use super::settles::Settles;
use crate::exec::strategy::{BuiltJoin, Prepared, Run};
use similarity_engine::{Counts, Cursor, Pairs, PrepareContext};

/// Rows that a condition is evaluated on at once.
const AT_ONCE: usize = 8192;

/// The build side of a nested loop.
#[derive(Debug)]
pub(super) struct Nested {
    pub(super) condition: JoinFilter,
    pub(super) build: RecordBatch,
    pub(super) build_side: JoinSide,
    pub(super) settles: Settles,
}

/// A batch of the probe side, and the rows that are asked about.
struct Batch {
    probe: RecordBatch,
    rows: usize,
}

impl Nested {
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
    fn describe(&self) -> String {
        "nested loop".into()
    }

    fn memory(&self) -> usize {
        0
    }

    fn unmatchable(&self) -> usize {
        0
    }

    fn self_join_len(&self) -> usize {
        0
    }

    fn prepare(&self, batch: &RecordBatch, _context: &PrepareContext<'_>) -> Result<Box<dyn Prepared>> {
        let rows = match self.settles {
            Settles::Build => self.build.num_rows(),
            Settles::Probe => batch.num_rows(),
        };
        Ok(Box::new(Batch { probe: batch.clone(), rows }))
    }

    fn probe(
        &self,
        probe: Option<&dyn Prepared>,
        cursor: &mut Cursor,
        run: &Run<'_>,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let Some(Batch { probe, .. }) = probe.and_then(|probe| probe.as_any().downcast_ref()) else {
            return internal_err!("a nested loop was given a probe batch that it did not prepare");
        };
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

impl Prepared for Batch {
    fn len(&self) -> usize {
        self.rows
    }

    fn unmatchable(&self) -> usize {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
