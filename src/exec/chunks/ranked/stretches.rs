//! The probe rows of a partition, divided into stretches whose best rows are kept at the same time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

use crate::exec::chunks::probe_parts::ProbeParts;

/// Rows of a part of the probe side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    part: usize,
    rows: Range<usize>,
}

impl Piece {
    /// How many rows it has.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Probe rows that no stretch has had yet.
#[derive(Debug)]
pub(super) struct Stretches {
    left: VecDeque<Piece>,
    /// Rows of a stretch.
    most: usize,
}

impl Stretches {
    /// Stretches of up to `most` rows of parts that have so many.
    pub(super) fn new(parts: impl Iterator<Item = usize>, most: usize) -> Self {
        let left = parts.enumerate().map(|(part, rows)| Piece { part, rows: 0..rows }).filter(|p| !p.rows.is_empty());
        Self { left: left.collect(), most: most.max(1) }
    }

    /// The next stretch; none after the last row.
    pub(super) fn next(&mut self) -> Vec<Piece> {
        let (mut pieces, mut missing) = (Vec::new(), self.most);
        while missing > 0
            && let Some(Piece { part, rows }) = self.left.pop_front()
        {
            let end = rows.end.min(rows.start + missing);
            missing -= end - rows.start;
            if end < rows.end {
                self.left.push_front(Piece { part, rows: end..rows.end });
            }
            pieces.push(Piece { part, rows: rows.start..end });
        }
        pieces
    }

    /// Takes back a stretch for which there was no memory, and makes smaller ones from now on; false for a single row.
    pub(super) fn retry(&mut self, pieces: Vec<Piece>) -> bool {
        let rows: usize = pieces.iter().map(Piece::len).sum();
        pieces.into_iter().rev().for_each(|piece| self.left.push_front(piece));
        self.most = rows.div_ceil(2).max(1);
        rows > 1
    }
}

/// The rows of a stretch, one part after the other.
pub(super) fn read(parts: &Arc<ProbeParts>, pieces: &[Piece]) -> SendableRecordBatchStream {
    let (schema, parts) = (Arc::clone(parts.schema()), Arc::clone(parts));
    let of_piece = move |Piece { part, rows }| -> Result<_> { Ok(some(parts.read(part)?, rows)) };
    let rows = futures::stream::iter(pieces.to_vec()).map(of_piece).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Some rows of a part, by their places.
fn some(batches: SendableRecordBatchStream, rows: Range<usize>) -> SendableRecordBatchStream {
    let (schema, end) = (batches.schema(), rows.end);
    let mut before = 0;
    let cut = move |batch: RecordBatch| {
        let (first, last) = (before, before + batch.num_rows());
        before = last;
        let (start, end) = (rows.start.clamp(first, last), rows.end.clamp(first, last));
        (start, batch.slice(start - first, end - start))
    };
    let batches = batches.map_ok(cut).try_take_while(move |(start, _)| std::future::ready(Ok(*start < end)));
    Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_ok(|(_, batch)| batch)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn stretches_go_over_the_borders_of_parts() {
        let mut stretches = Stretches::new([5, 0, 2, 4].into_iter(), 6);
        let piece = |part, rows| Piece { part, rows };
        let first = stretches.next();
        assert_eq!(first, [piece(0, 0..5), piece(2, 0..1)]);
        assert!(stretches.retry(first));
        for expected in
            [vec![piece(0, 0..3)], vec![piece(0, 3..5), piece(2, 0..1)], vec![piece(2, 1..2), piece(3, 0..2)]]
        {
            assert_eq!(stretches.next(), expected);
        }
        let last = stretches.next();
        assert_eq!(last, [piece(3, 2..4)]);
        assert!(stretches.retry(last));
        let one = stretches.next();
        assert_eq!(one, [piece(3, 2..3)]);
        assert!(!stretches.retry(one));
        assert_eq!(stretches.next().len() + stretches.next().len() + stretches.next().len(), 2);
    }

    #[tokio::test]
    async fn some_rows_of_several_batches() {
        let batch = |rows: Range<i32>| {
            RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from_iter_values(rows)) as ArrayRef)]).unwrap()
        };
        for range in [0..10, 3..4, 2..7, 9..10, 4..8] {
            let batches = [batch(0..4), batch(4..5), batch(5..10)];
            let stream = futures::stream::iter(batches.clone().into_iter().map(Ok));
            let stream = Box::pin(RecordBatchStreamAdapter::new(batches[0].schema(), stream));
            let found: Vec<RecordBatch> = some(stream, range.clone()).try_collect().await.unwrap();
            let values = |batch: &RecordBatch| batch.column(0).as_primitive::<Int32Type>().values().to_vec();
            let found: Vec<i32> = found.iter().flat_map(values).collect();
            assert_eq!(found, (range.start as i32..range.end as i32).collect::<Vec<_>>());
        }
    }
}
