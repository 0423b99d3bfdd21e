//! Pairs of a stretch, in the order of the probe rows: the best rows are read from the parts once more.

use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch, UInt32Array, UInt32Builder};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::StreamExt;

use super::best_rows::{BestRows, Block};
use super::join::Partition;
use super::stretches::{Piece, read};
use crate::exec::batch_bytes::detached;
use crate::exec::blocking::blocking;
use crate::exec::chunks::on_disk::Refusal;
use crate::exec::chunks::parts::bytes_of_row;
use crate::exec::emission::Rows;
use crate::exec::output::SideRows;
use crate::exec::probe::Prober;
use crate::exec::probe_input::gather;
use crate::exec::residual::{RowPairs, verify};

/// Rows that come out together may take as many bytes as so many parts.
const PARTS_OF_OUTPUT: usize = 2;

/// Some rows of the build side in memory.
struct Fetched {
    /// Their numbers, in order.
    numbers: Vec<u32>,
    rows: RecordBatch,
    _reservation: MemoryReservation,
}

impl Partition {
    /// Sends the pairs of a stretch.
    pub(super) async fn emit(&self, pieces: &[Piece], mut best: BestRows, kept: MemoryReservation) -> Result<()> {
        let prober = &self.scoring.prober;
        let mut probe = read(&self.probe, pieces);
        loop {
            let rows = PARTS_OF_OUTPUT * self.rows_in_part();
            let batches = gather(&mut probe, rows, &prober.reservation).await?;
            let Some(first) = batches.first() else { return Ok(()) };
            let batch = concat_batches(&first.schema(), &batches)?;
            drop(batches);
            prober.metrics.probe_rows.add(batch.num_rows());
            let block = Arc::new(best.take_block(batch.num_rows()));
            if !self.emit_block(batch, &block).await? {
                return Ok(());
            }
            drop(block);
            kept.try_resize(best.memory())?;
        }
    }

    /// Sends the pairs of some probe rows, as many at once as their build rows have memory; whether anybody reads them.
    async fn emit_block(&self, batch: RecordBatch, block: &Arc<Block>) -> Result<bool> {
        let of_row = bytes_of_row(self.chunks.parts.iter()).max(1);
        let mut most = (PARTS_OF_OUTPUT * self.chunks.most_bytes / of_row).max(1);
        let mut next = Next::default();
        while next.row < block.rows() {
            let pairs = next.pair(block)..block.pairs().min(next.pair(block) + most);
            match self.fetch(block.numbers(pairs.clone())).await {
                Ok(fetched) => match self.send_pairs((&batch, block), next, pairs.end, fetched).await? {
                    Some(after) => next = after,
                    None => return Ok(false),
                },
                Err(error) if Refusal::of(&error) == Some(Refusal::Pool) && pairs.len() > 1 => most = pairs.len() / 2,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Rows of the build side by their numbers.
    async fn fetch(&self, numbers: Vec<u32>) -> Result<Fetched> {
        let reservation = self.scoring.prober.reservation.new_empty();
        reservation.try_grow(size_of_val(numbers.as_slice()))?;
        let (mut taken, mut first, mut next) = (Vec::new(), 0, 0);
        for (at, part) in self.chunks.parts.iter().enumerate() {
            let end = first + part.rows;
            if numbers.get(next).is_none_or(|&number| number as usize >= end) {
                first = end;
                continue;
            }
            let mut batches = self.chunks.read(at)?;
            while numbers.get(next).is_some_and(|&number| (number as usize) < end)
                && let Some(batch) = batches.next().await.transpose()?
            {
                let until = first + batch.num_rows();
                let count = numbers[next..].partition_point(|&number| (number as usize) < until);
                if count > 0 {
                    let places = numbers[next..next + count].iter().map(|&number| number - first as u32);
                    let rows = match batch.num_columns() {
                        0 => batch.slice(0, count),
                        _ => detached(take_record_batch(&batch, &places.collect::<UInt32Array>())?)?,
                    };
                    // the rows, and the batch that they become
                    reservation.try_grow(2 * get_record_batch_memory_size(&rows))?;
                    taken.push(rows);
                }
                (first, next) = (until, next + count);
            }
            first = end;
        }
        let rows = concat_batches(&self.chunks.schema, &taken)?;
        Ok(Fetched { numbers, rows, _reservation: reservation })
    }

    /// Sends the pairs of a block from `next` on to the one at `end`, whose build rows have been fetched, and returns
    /// what is next then; none where nobody reads them.
    async fn send_pairs(
        &self,
        (batch, block): (&RecordBatch, &Arc<Block>),
        mut next: Next,
        end: usize,
        fetched: Fetched,
    ) -> Result<Option<Next>> {
        let fetched = Arc::new(fetched);
        for step in 1.. {
            let (prober, batch) = (Arc::clone(&self.scoring.prober), batch.clone());
            let (block, fetched) = (Arc::clone(block), Arc::clone(&fetched));
            let make = move || {
                let out = next.pairs(&prober, (&block, end), &fetched).rows(&prober, &batch, &fetched, step)?;
                Ok((next, out))
            };
            let out;
            (next, out) = blocking(make).await?;
            if out.num_rows() == 0 {
                break;
            }
            if !self.send(vec![out]).await {
                return Ok(None);
            }
        }
        Ok(Some(next))
    }
}

/// The next pair of a block.
#[derive(Debug, Clone, Copy, Default)]
struct Next {
    /// The probe row, and the place among its best rows.
    row: usize,
    place: usize,
}

impl Next {
    /// The place among all pairs.
    fn pair(&self, block: &Block) -> usize {
        block.start(self.row) + self.place
    }

    /// Pairs for one batch, none from the one at `end` on; a probe row without any comes out beside NULL where the join
    /// type asks for it.
    fn pairs(&mut self, prober: &Prober, (block, end): (&Block, usize), fetched: &Fetched) -> Found {
        let alone = prober.emission().probe == Rows::Unmatched;
        let (mut of_probe, mut of_build) = (Vec::new(), UInt32Builder::new());
        while self.row < block.rows() && of_probe.len() < prober.batch_size {
            let best = block.of(self.row);
            let most = (prober.batch_size - of_probe.len()).min(end - self.pair(block));
            let stop = best.len().min(self.place + most);
            for best in &best[self.place..stop] {
                of_build.append_option(fetched.numbers.binary_search(&best.row).ok().map(|at| at as u32));
                of_probe.push(self.row as u32);
            }
            if best.is_empty() && alone {
                of_build.append_null();
                of_probe.push(self.row as u32);
            }
            self.place = stop;
            if stop < best.len() {
                break;
            }
            *self = Self { row: self.row + 1, place: 0 };
        }
        Found { of_probe: UInt32Array::from(of_probe), of_build: of_build.finish() }
    }
}

/// Pairs of rows of both sides, the build row NULL where there is none.
struct Found {
    of_probe: UInt32Array,
    of_build: UInt32Array,
}

impl Found {
    /// The rows that come out in a step.
    fn rows(self, prober: &Prober, probe: &RecordBatch, fetched: &Fetched, step: usize) -> Result<RecordBatch> {
        let Self { of_probe, of_build } = &self;
        let pairs = of_build.len() - of_build.null_count();
        prober.metrics.matched.add(pairs);
        if prober.verify.asks(step) {
            let both = |(of_probe, of_build): (&u32, Option<u32>)| Some((*of_probe, of_build?));
            let (left, right): (Vec<u32>, Vec<u32>) = of_probe.values().iter().zip(of_build).filter_map(both).unzip();
            let pairs = RowPairs { left: left.into(), right: right.into() };
            verify(&prober.spec.condition, &pairs, probe, &fetched.rows)?;
        }
        let left = SideRows { batch: probe, rows: Some(of_probe) };
        let right = SideRows { batch: &fetched.rows, rows: Some(of_build) };
        prober.output.assemble(left, right, of_probe.len())
    }
}
