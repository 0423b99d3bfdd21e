//! Rows of one side in parts, mostly on disk, those of a region together.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::{JoinSide, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, SpillFile};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use super::regions::KeyRegions;
use crate::exec::batch_bytes::bytes_of;
use similarity_engine::cpu::vectors::{Extent, REGIONS};

/// Batches of a part that is divided by them, at least.
const BATCHES: usize = 4;

/// Some of the rows.
pub(super) struct Part {
    place: Place,
    pub(super) batches: usize,
    pub(super) rows: usize,
    /// Bytes of the rows, about.
    pub(super) bytes: usize,
    pub(super) extent: Extent,
}

/// Where the rows of a part are.
enum Place {
    Disk(Arc<dyn SpillFile>),
    /// The rows, and their bytes.
    Memory(Vec<RecordBatch>, #[expect(dead_code, reason = "held until the rows are dropped")] MemoryReservation),
}

impl Part {
    /// Rows that stay in memory, whose bytes have been reserved.
    pub(super) fn in_memory(rows: Vec<RecordBatch>, reservation: MemoryReservation) -> Self {
        let (batches, count) = (rows.len(), rows.iter().map(RecordBatch::num_rows).sum());
        let bytes = reservation.size();
        Self { place: Place::Memory(rows, reservation), batches, rows: count, bytes, extent: Extent::default() }
    }

    pub(super) fn read(&self, manager: &SpillManager) -> Result<SendableRecordBatchStream> {
        match &self.place {
            Place::Disk(file) => manager.read_spill_as_stream(Arc::clone(file), None),
            Place::Memory(rows, _) => {
                let rows = futures::stream::iter(rows.clone().into_iter().map(Ok));
                Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(manager.schema()), rows)))
            }
        }
    }
}

/// Bytes of a row of some parts, about.
pub(super) fn bytes_of_row<'a>(parts: impl Iterator<Item = &'a Part>) -> usize {
    let (bytes, rows) = parts.fold((0, 0), |(bytes, rows), part| (bytes + part.bytes, rows + part.rows));
    bytes / rows.max(1)
}

/// How many rows a batch of a part has, given some rows of the side: parts of a ranking are divided by batches, so that
/// there are several.
pub(super) fn rows_of_batch(some: &[RecordBatch], most_bytes: usize, batch_size: usize) -> usize {
    let (bytes, rows) = some.iter().fold((0, 0), |(bytes, rows), b| (bytes + bytes_of(b), rows + b.num_rows()));
    (most_bytes / BATCHES * rows / bytes.max(1)).clamp(1, batch_size)
}

/// Where one side goes.
pub(super) struct Writer {
    manager: SpillManager,
    side: JoinSide,
    regions: Option<Arc<KeyRegions>>,
    batch_size: usize,
    /// Bytes of a part, and of rows that wait to be written.
    most_bytes: usize,
    open: Vec<Open>,
    /// Around what is written or waits of each of them.
    extents: Vec<Extent>,
    waiting: usize,
    parts: Vec<Part>,
}

/// A file that is written, whose type DataFusion does not name: appends a batch, or ends where there is none.
type File = Box<dyn FnMut(Option<&RecordBatch>) -> Result<Written> + Send>;

enum Written {
    Bytes(usize),
    All(Option<Arc<dyn SpillFile>>),
}

fn create(manager: &SpillManager) -> Result<File> {
    let mut file = manager.create_in_progress_file("part of a join")?;
    Ok(Box::new(move |batch| match batch {
        Some(batch) => file.append_batch(batch).map(Written::Bytes),
        None => file.finish().map(Written::All),
    }))
}

/// The part of a region that grows.
#[derive(Default)]
struct Open {
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    file: Option<File>,
    bytes: usize,
    batches: usize,
    rows: usize,
}

impl Writer {
    pub(super) fn new(
        manager: SpillManager,
        side: JoinSide,
        regions: Option<Arc<KeyRegions>>,
        batch_size: usize,
        most_bytes: usize,
    ) -> Self {
        let count = if regions.is_some() { REGIONS } else { 1 };
        let open = (0..count).map(|_| Open::default()).collect();
        let extents = vec![Extent::default(); count];
        Self { manager, side, regions, batch_size, most_bytes, open, extents, waiting: 0, parts: Vec::new() }
    }

    /// Writes the rows of `batch` where they belong.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(self.batch_size) {
            let slice = batch.slice(start, self.batch_size.min(batch.num_rows() - start));
            match self.regions.clone() {
                None => self.wait(0, slice)?,
                Some(regions) => {
                    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.open.len()];
                    let of_rows = regions.place(self.side, &slice, &mut self.extents);
                    of_rows.iter().zip(0..).for_each(|(&region, row)| rows[region as usize].push(row));
                    for (region, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
                        self.wait(region, take_record_batch(&slice, &UInt32Array::from(rows))?)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self, region: usize, batch: RecordBatch) -> Result<()> {
        self.waiting += bytes_of(&batch);
        let open = &mut self.open[region];
        open.waiting_rows += batch.num_rows();
        open.waiting.push(batch);
        if open.waiting_rows >= self.batch_size {
            self.flush(region)?;
        } else if self.waiting >= self.most_bytes {
            (0..self.open.len()).try_for_each(|region| self.flush(region))?;
        }
        Ok(())
    }

    /// Writes what waits of a region.
    fn flush(&mut self, region: usize) -> Result<()> {
        let open = &mut self.open[region];
        let Some(first) = open.waiting.first() else { return Ok(()) };
        let batch = concat_batches(&first.schema(), &open.waiting)?;
        self.waiting -= open.waiting.iter().map(bytes_of).sum::<usize>();
        open.waiting.clear();
        open.waiting_rows = 0;
        let file = match &mut open.file {
            Some(file) => file,
            none => none.insert(create(&self.manager)?),
        };
        if let Written::Bytes(bytes) = file(Some(&batch))? {
            open.bytes += bytes;
        }
        open.batches += 1;
        open.rows += batch.num_rows();
        if open.bytes >= self.most_bytes {
            self.close(region)?;
        }
        Ok(())
    }

    fn close(&mut self, region: usize) -> Result<()> {
        let Open { file, batches, rows, bytes, .. } = std::mem::take(&mut self.open[region]);
        // all that waited has been written
        let extent = std::mem::take(&mut self.extents[region]);
        let Some(mut file) = file else { return Ok(()) };
        if let Written::All(Some(file)) = file(None)? {
            self.parts.push(Part { place: Place::Disk(file), batches, rows, bytes, extent });
        }
        Ok(())
    }

    /// What has been written, near parts one after the other.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(super) fn finish(mut self) -> Result<Vec<Part>> {
        for region in 0..self.open.len() {
            self.flush(region)?;
            self.close(region)?;
        }
        Ok(self.parts)
    }
}
