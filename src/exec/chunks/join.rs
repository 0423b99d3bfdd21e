//! One output partition of a join in chunks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::StreamExt;
use tokio::sync::mpsc::Sender;

use super::parts::{Part, Writer};
use super::{Chunks, Refusal, Stretch, write_all};
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
            ProbeInput::Batches(stream) => ProbeParts::write(&chunks, &prober, stream).await?,
        };
        Partition { prober, chunks, out }.run(&probe).await
    });
    builder.build()
}

/// What a partition probes with.
struct ProbeParts {
    parts: Vec<(usize, MatchedRows)>,
    /// Parts that the partition has written; `None` in a self-join, where the parts are those of the build side.
    written: Option<Vec<Part>>,
    manager: SpillManager,
}

impl ProbeParts {
    fn self_join(chunks: &Chunks, partition: usize) -> Self {
        let end = if partition < chunks.probing_parts { chunks.parts.len() } else { 0 };
        let parts = (partition..end).step_by(chunks.probing_parts);
        let parts = parts.map(|part| (part, MatchedRows::default())).collect();
        Self { parts, written: None, manager: chunks.manager.clone() }
    }

    async fn write(chunks: &Chunks, prober: &Prober, stream: SendableRecordBatchStream) -> Result<Self> {
        let (env, metrics) = (chunks.context.runtime_env(), chunks.metrics.spill.clone());
        let manager = SpillManager::new(env, metrics, stream.schema());
        let (side, regions) = (chunks.side.negate(), chunks.regions.clone());
        let writer = Writer::new(manager.clone(), side, regions, prober.batch_size, chunks.most_bytes);
        let written = write_all(writer, stream.boxed()).await?;
        let rows = |part: &Part| if prober.emission().probe == Rows::None { 0 } else { part.rows };
        let parts = written.iter().map(|part| MatchedRows::new(rows(part))).enumerate().collect();
        Ok(Self { parts, written: Some(written), manager })
    }

    fn part<'a>(&'a self, chunks: &'a Chunks, at: usize) -> &'a Part {
        &self.written.as_ref().unwrap_or(&chunks.parts)[at]
    }
}

struct Partition {
    prober: Arc<Prober>,
    chunks: Arc<Chunks>,
    out: Sender<Result<RecordBatch>>,
}

impl Partition {
    async fn run(&self, probe: &ProbeParts) -> Result<()> {
        let count = self.chunks.parts.len();
        let start = self.chunks.last.load(Ordering::Relaxed);
        for part in (0..count).map(|at| (start + at) % count) {
            let extent = &self.chunks.parts[part].extent;
            let is_near = |other: &Part| match &self.chunks.regions {
                Some(regions) => regions.may_match(extent, &other.extent),
                None => true,
            };
            let near: Vec<_> = probe.parts.iter().filter(|(at, _)| is_near(probe.part(&self.chunks, *at))).collect();
            self.chunks.metrics.skipped.add(probe.parts.len() - near.len());
            self.chunks.metrics.probed.add(near.len());
            if near.is_empty() {
                continue;
            }
            self.chunks.last.store(part, Ordering::Relaxed);
            let mut left = vec![Stretch { part, first: 0, end: self.chunks.parts[part].batches }];
            while let Some(stretch) = left.pop() {
                match (self.chunks.chunk(stretch).await, stretch.halves()) {
                    (Ok(build), _) => self.probe(&build, probe, &near).await?,
                    (Err(error), Some(halves)) if Refusal::of(&error).is_some() => left.extend(halves),
                    (Err(error), _) => return Err(error),
                }
            }
        }
        self.emit_probe_rows(probe).await?;
        if self.chunks.finish_partition() {
            self.emit_build_rows(probe.manager.schema()).await?;
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
    async fn probe(&self, build: &Arc<BuildSide>, probe: &ProbeParts, near: &[&(usize, MatchedRows)]) -> Result<()> {
        for (at, matched) in near {
            let mut stream = probe.part(&self.chunks, *at).read(&probe.manager)?;
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
                    matched.mark((before + row) as u32);
                }
                before += probing.rows();
            }
        }
        Ok(())
    }

    /// Rows of the probe side that come out by themselves.
    async fn emit_probe_rows(&self, probe: &ProbeParts) -> Result<()> {
        let which = self.prober.emission().probe;
        if which == Rows::None || probe.written.is_none() {
            return Ok(());
        }
        for (at, matched) in &probe.parts {
            let part = (probe.part(&self.chunks, *at), &probe.manager);
            self.emit_rows(part, matched, which, self.chunks.side.negate(), self.chunks.manager.schema()).await?;
        }
        Ok(())
    }

    /// Rows of the build side that come out by themselves, once all partitions are done; the probe side's columns are
    /// those of `schema`.
    async fn emit_build_rows(&self, schema: &SchemaRef) -> Result<()> {
        for (part, matched) in self.chunks.parts.iter().zip(&self.chunks.matched) {
            let part = (part, &self.chunks.manager);
            self.emit_rows(part, matched, self.prober.emission().build, self.chunks.side, schema).await?;
        }
        Ok(())
    }

    async fn emit_rows(
        &self,
        (part, manager): (&Part, &SpillManager),
        matched: &MatchedRows,
        which: Rows,
        side: JoinSide,
        other: &SchemaRef,
    ) -> Result<()> {
        let other = RecordBatch::new_empty(Arc::clone(other));
        let mut stream = part.read(manager)?;
        let mut before = 0;
        while let Some(batch) = stream.next().await.transpose()? {
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
