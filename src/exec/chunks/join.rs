//! One output partition of a join in chunks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

use super::on_disk::Chunks;
use super::parts::Part;
use super::probe_parts::ProbeParts;
use crate::exec::blocking::blocking;
use crate::exec::build_side::BuildSide;
use crate::exec::emission::{MatchedRows, Rows};
use crate::exec::probe::Prober;
use crate::exec::probe_input::{ProbeInput, gather};

/// Batches that wait for being read.
const AHEAD: usize = 2;

/// The output of a partition, by its number.
pub(in crate::exec) fn chunked(
    prober: Arc<Prober>,
    chunks: Arc<Chunks>,
    input: ProbeInput,
    partition: usize,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&prober.output.schema), AHEAD);
    let out = builder.tx();
    builder.spawn(async move {
        let probe = match input {
            ProbeInput::SelfJoin => ProbeParts::self_join(&chunks, partition),
            ProbeInput::Batches(stream) => ProbeParts::write(&chunks, stream, prober.batch_size).await?,
        };
        let asks = prober.emission().probe != Rows::None && !probe.are_of_build();
        let rows = |at| if asks { probe.part(at).rows } else { 0 };
        let matched = (0..probe.len()).map(|at| MatchedRows::new(rows(at))).collect();
        Partition { prober, chunks, probe, matched, out }.run().await
    });
    builder.build()
}

struct Partition {
    prober: Arc<Prober>,
    chunks: Arc<Chunks>,
    probe: ProbeParts,
    /// The rows of each part that have matched.
    matched: Vec<MatchedRows>,
    out: Sender<Result<RecordBatch>>,
}

impl Partition {
    async fn run(&self) -> Result<()> {
        for part in self.chunks.parts_in_turn() {
            let extent = &self.chunks.parts[part].extent;
            let is_near = |other: &Part| match &self.chunks.regions {
                Some(regions) => regions.may_match(extent, &other.extent),
                None => true,
            };
            let near: Vec<usize> = (0..self.probe.len()).filter(|&at| is_near(self.probe.part(at))).collect();
            self.chunks.metrics.skipped.add(self.probe.len() - near.len());
            self.chunks.metrics.probed.add(near.len());
            if near.is_empty() {
                continue;
            }
            self.chunks.last.store(part, Ordering::Relaxed);
            let mut left = vec![self.chunks.whole(part)];
            while let Some(build) = self.chunks.next_chunk(&mut left).await? {
                self.probe(&build, &near).await?;
            }
        }
        self.emit_probe_rows().await?;
        if self.chunks.finish_partition() {
            self.emit_build_rows().await?;
        }
        Ok(())
    }

    /// Sends `batches`; whether anybody reads them.
    async fn send(&self, batches: Vec<RecordBatch>) -> bool {
        for batch in batches {
            if self.out.send(Ok(batch)).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Pairs some parts with a chunk.
    async fn probe(&self, build: &Arc<BuildSide>, near: &[usize]) -> Result<()> {
        for &at in near {
            let mut stream = self.probe.read(at)?;
            let mut before = 0;
            loop {
                let batches = gather(&mut stream, build.rows_at_once(), &self.prober.reservation).await?;
                if batches.is_empty() {
                    break;
                }
                let (prober, chunk, schema) = (Arc::clone(&self.prober), Arc::clone(build), stream.schema());
                let mut probing = blocking(move || prober.start(&chunk, chunk.concat(&schema, &batches)?)).await?;
                while !probing.is_done() {
                    let (prober, chunk) = (Arc::clone(&self.prober), Arc::clone(build));
                    let (stepped, found) = blocking(move || {
                        let found = prober.step(&chunk, &mut probing)?;
                        Ok((probing, found))
                    })
                    .await?;
                    probing = stepped;
                    if !self.send(found).await {
                        return Ok(());
                    }
                }
                for row in probing.matched() {
                    self.matched[at].mark((before + row) as u32);
                }
                before += probing.rows();
            }
        }
        Ok(())
    }

    /// Rows of the probe side that come out by themselves.
    async fn emit_probe_rows(&self) -> Result<()> {
        let which = self.prober.emission().probe;
        if which == Rows::None || self.probe.are_of_build() {
            return Ok(());
        }
        for (at, matched) in self.matched.iter().enumerate() {
            let (rows, side) = (self.probe.read(at)?, self.chunks.side.negate());
            self.emit_rows(rows, matched, which, side, &self.chunks.schema).await?;
        }
        Ok(())
    }

    /// Rows of the build side that come out by themselves, once all partitions are done.
    async fn emit_build_rows(&self) -> Result<()> {
        for (part, matched) in self.chunks.matched.iter().enumerate() {
            let (rows, which) = (self.chunks.read(part)?, self.prober.emission().build);
            self.emit_rows(rows, matched, which, self.chunks.side, self.probe.schema()).await?;
        }
        Ok(())
    }

    async fn emit_rows(
        &self,
        mut rows: SendableRecordBatchStream,
        matched: &MatchedRows,
        which: Rows,
        side: JoinSide,
        other: &SchemaRef,
    ) -> Result<()> {
        let other = RecordBatch::new_empty(Arc::clone(other));
        let mut before = 0;
        while let Some(batch) = rows.next().await.transpose()? {
            let rows: UInt32Array = matched.select(before..before + batch.num_rows(), which).into();
            before += batch.num_rows();
            let out = self.prober.one_sided(side, &batch, &other, &rows)?;
            if out.num_rows() > 0 && !self.send(vec![out]).await {
                return Ok(());
            }
        }
        Ok(())
    }
}
