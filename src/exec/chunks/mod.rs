//! Joins whose build side is larger than memory, or than that of a device: it is cut into chunks, each of which is
//! indexed and probed by itself.
//!
//! ```text
//! build input ──> parts on disk, by region ──one after the other──> chunk: rows and index
//!                                                                      │
//! probe input ──> parts on disk, by region ──those near the chunk──> pairs
//! ```
//!
//! Rows of a region go together: vectors that lie near each other, or strings and sets of about one size. Parts
//! farther apart than any match are never paired. Each output partition goes through the chunks by itself and starts
//! with the one that another has in memory, so that a chunk is mostly indexed once; no partition waits for another.
//! Which rows have matched is kept for all parts of both sides, a bit a row.
//!
//! A ranking goes the same way, but keeps the best of what all chunks have found: see `ranked`.
//!
//! Source: LSS (ICDE 2008), section V.B; sf-gSSJoin, block division.

mod join;
mod on_disk;
mod parts;
mod probe_parts;
mod rank_order;
mod ranked;
mod regions;

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;

use self::join::chunked;
pub(super) use self::on_disk::{ChunkMetrics, ChunkRows, Chunks, Indexing, Overflow, Refusal};
use self::ranked::ranked;
use super::probe::Prober;
use super::probe_input::ProbeInput;

/// The output of a partition, by its number.
pub(super) fn in_chunks(
    prober: Arc<Prober>,
    chunks: Arc<Chunks>,
    input: ProbeInput,
    partition: usize,
) -> SendableRecordBatchStream {
    match chunks.ranking.clone() {
        Some(ranking) => ranked(prober, chunks, ranking, input, partition),
        None => chunked(prober, chunks, input, partition),
    }
}
