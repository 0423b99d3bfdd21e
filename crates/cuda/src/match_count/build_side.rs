//! The build side of a match count on the device: columns of places, in the order of groups, ranks and rows.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::address::Address;
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::kernels::constants::match_count::{FIRST_PLACE, LAST_PLACE, ONE_PLACE, PART};
use crate::kernels::{CountedColumn, CountedRowsOnDevice, CountedSpans, KeyedRows, Places};
use crate::memory::Budget;
use crate::nearest::upload_ranks;
use crate::replicate::replicate;
use crate::sort::sort;
use crate::wait::wait;
use similarity_engine::atoms::Span;
use similarity_engine::match_count::{MatchCount, Spans, spans};
use similarity_engine::sets::rows_by_rank::group_of;
use similarity_engine::{BuildContext, KeyColumn, NO_GROUP};

/// The columns of a build side.
#[derive(Debug)]
pub(super) struct CountedColumns {
    places: Places,
    columns: Buffer<CountedColumn>,
    rows: Buffer<u32>,
    ranks: Option<Buffer<u32>>,
    pub(super) weights: Option<Buffer<f64>>,
    /// Where each group begins, and the end of the last one.
    groups: Vec<u32>,
    /// Rows that have a group.
    pub(super) count: u32,
    stride: u32,
    pub(super) column_count: u32,
    pub(super) conditions: u32,
    /// Masks of a probe block: one for each place of every column.
    pub(super) masks: u32,
}

replicate!(CountedColumns {
    places, columns, rows, ranks, weights;
    same groups, count, stride, column_count, conditions, masks
});

impl CountedColumns {
    /// The columns of the rows that have a group, each row with a rank.
    ///
    /// # Errors
    /// Keys of other conditions, a refused reservation, a cancelled build, a device that fails, memory for too many
    /// places.
    pub(super) fn try_new(
        budget: &Budget,
        count: &MatchCount,
        (keys, ranks): (&KeyColumn, &[u32]),
        context: &BuildContext<'_>,
    ) -> Result<Self, Fault> {
        let _timer = budget.metrics.arrange_time.timer();
        let spans = spans(&keys.values, count.conditions)?;
        let (columns, widest) = columns_of(spans, count.conditions)?;
        context.cancel.check()?;
        let sorted = SortKeys::of(keys, ranks);
        let groups = sorted.group_starts();
        (context.reserve)(size_of_val(groups.as_slice()))?;
        let stream = budget.device.stream()?;
        let rows = sorted.rows_in_order(budget, &stream)?;
        let (on_device, row_ranks) =
            (budget.upload(&stream, spans.as_numbers())?, upload_ranks(budget, &stream, ranks)?);
        let count_of_rows = sorted.rows.len() as u32;
        let stride = count_of_rows.next_multiple_of(PART);
        let column_count = columns.len() - 1;
        let places = column_count * stride as usize;
        let mut side = Self {
            places: match u16::try_from(widest) {
                Ok(_) => Places::Narrow(budget.buffer(&stream, places)?),
                Err(_) => Places::Wide(budget.buffer(&stream, places)?),
            },
            columns: budget.upload(&stream, &columns)?,
            rows,
            ranks: row_ranks.as_ref().map(|_| budget.buffer(&stream, count_of_rows as usize)).transpose()?,
            weights: count.weights.as_ref().map(|weights| budget.upload(&stream, weights)).transpose()?,
            groups,
            count: count_of_rows,
            stride,
            column_count: column_count as u32,
            conditions: count.conditions as u32,
            masks: columns[column_count].masks,
        };
        let from = CountedSpans {
            spans: on_device.address(&stream).cast(),
            ranks: row_ranks.as_ref().map(|ranks| ranks.address(&stream)),
        };
        let described = side.on_device(&stream);
        let kernels = budget.device.kernels().match_count()?;
        kernels.gather(&stream, described, from, &mut side.places, side.ranks.as_mut())?;
        // what was uploaded may go
        wait(&stream)?;
        Ok(side)
    }

    /// Whether places have two bytes.
    pub(super) fn is_narrow(&self) -> bool {
        matches!(self.places, Places::Narrow(_))
    }

    /// The positions of a group.
    pub(super) fn positions(&self, group: u32) -> Range<u32> {
        match self.groups.get(group as usize..) {
            Some([start, end, ..]) => *start..*end,
            _ => 0..0,
        }
    }

    /// Bytes on the host.
    pub(super) fn held(&self) -> usize {
        self.groups.capacity() * size_of::<u32>()
    }

    /// The columns as kernels read them, as long as `self` lives.
    pub(super) fn on_device(&self, stream: &CudaStream) -> CountedRowsOnDevice {
        let places: Address<c_void> = match &self.places {
            Places::Narrow(places) => places.address(stream).cast(),
            Places::Wide(places) => places.address(stream).cast(),
        };
        CountedRowsOnDevice {
            places,
            columns: self.columns.address(stream),
            rows: self.rows.address(stream),
            ranks: self.ranks.as_ref().map(|ranks| ranks.address(stream)),
            count: self.count,
            stride: self.stride,
            column_count: self.column_count,
            conditions: self.conditions,
        }
    }
}

/// The columns for some conditions, and one more for their end; and the most masks of a column.
fn columns_of(spans: Spans<'_>, conditions: usize) -> Result<(Vec<CountedColumn>, u32), Fault> {
    // by condition: one past the greatest first and the greatest last place, and whether there are intervals
    let mut ends = vec![(0u64, 0u64, false); conditions];
    for row in spans.rows(conditions) {
        for (ends, span) in ends.iter_mut().zip(row).filter(|(_, span)| *span != Span::NONE) {
            let (first, last) = (u64::from(span.first) + 1, u64::from(span.last) + 1);
            *ends = (ends.0.max(first), ends.1.max(last), ends.2 | (first != last));
        }
    }
    let (mut columns, mut masks, mut widest) = (Vec::new(), 0u64, 0);
    for (condition, (firsts, lasts, has_intervals)) in (0..).zip(ends) {
        let kinds: &[_] = match has_intervals {
            true => &[(FIRST_PLACE, firsts), (LAST_PLACE, lasts)],
            false => &[(ONE_PLACE, firsts)],
        };
        for &(kind, places) in kinds {
            columns.push(CountedColumn { masks: masks as u32, condition, kind });
            // one more, for rows that nobody accepts
            masks += places + 1;
            widest = widest.max(places);
            if u32::try_from(masks).is_err() {
                return Err(Fault::Memory);
            }
        }
    }
    columns.push(CountedColumn { masks: masks as u32, ..CountedColumn::default() });
    Ok((columns, widest as u32))
}

/// The rows that have a group, and what they are sorted by.
struct SortKeys {
    rows: Vec<u32>,
    /// For each the group, and in the bits below it the rank.
    keys: Vec<u64>,
    rank_bits: u32,
}

impl SortKeys {
    fn of(keys: &KeyColumn, ranks: &[u32]) -> Self {
        let rank_bits = ranks.iter().max().map_or(0, |most| u32::BITS - most.leading_zeros());
        let rows: Vec<u32> = (0..keys.values.len() as u32).filter(|&row| group_of(keys, row) != NO_GROUP).collect();
        let key = |&row: &u32| u64::from(group_of(keys, row)) << rank_bits | u64::from(ranks[row as usize]);
        Self { keys: rows.iter().map(key).collect(), rows, rank_bits }
    }

    /// Where each group begins once the rows are sorted, and the end of the last one.
    fn group_starts(&self) -> Vec<u32> {
        let groups = || self.keys.iter().map(|key| (key >> self.rank_bits) as usize);
        let mut starts = vec![0; groups().max().map_or(1, |last| last + 2)];
        groups().for_each(|group| starts[group + 1] += 1);
        (1..starts.len()).for_each(|group| starts[group] += starts[group - 1]);
        starts
    }

    /// The rows by group, rank and number.
    fn rows_in_order(&self, budget: &Budget, stream: &Arc<CudaStream>) -> Result<Buffer<u32>, Fault> {
        let rows = budget.upload(stream, &self.rows)?;
        if self.keys.is_sorted() {
            return Ok(rows);
        }
        let bits = self.keys.iter().max().map_or(0, |most| u64::BITS - most.leading_zeros());
        let records = KeyedRows { keys: budget.upload(stream, &self.keys)?, rows };
        Ok(sort(budget, stream, records, self.rows.len() as u32, bits)?.rows)
    }
}
