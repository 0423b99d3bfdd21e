//! What a partition probes with: batches of the other input, or the build side itself.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;

use super::batch_bytes::{bytes_of, compacted};

/// What one partition probes the index with.
pub(super) enum ProbeInput {
    /// Batches of the partition's share of the other input.
    Batches(SendableRecordBatchStream),
    /// Stretches of the build side itself, claimed one by one.
    SelfJoin,
}

/// The next batches of `stream`, none at its end: until they have so many `rows` or more is not granted.
pub(super) async fn gather(
    stream: &mut SendableRecordBatchStream,
    rows: usize,
    reservation: &MemoryReservation,
) -> Result<Vec<RecordBatch>> {
    reservation.free();
    let (mut batches, mut gathered) = (Vec::new(), 0);
    while gathered < rows.max(1)
        && let Some(batch) = stream.next().await.transpose()?
    {
        if batch.num_rows() == 0 {
            continue;
        }
        let batch = compacted(batch)?;
        gathered += batch.num_rows();
        // the batches, and the one that they become
        let granted = reservation.try_grow(2 * bytes_of(&batch)).is_ok();
        batches.push(batch);
        if !granted {
            break;
        }
    }
    Ok(batches)
}
