//! One output partition of a ranking in chunks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use similarity_engine::Pairs;
use tokio::sync::mpsc::Sender;

use super::best_rows::{Best, BestRows, Block, Offer};
use super::stretches::{Piece, Stretches, read};
use crate::exec::blocking::blocking;
use crate::exec::build_side::{BuildSide, RankedRows};
use crate::exec::chunks::on_disk::{Chunks, Refusal};
use crate::exec::chunks::probe_parts::ProbeParts;
use crate::exec::probe::Prober;
use crate::exec::probe_input::{ProbeInput, gather};
use crate::exec::strategy::PartRanking;

/// Batches that wait for being read.
const AHEAD: usize = 2;
/// The best rows of a stretch may take as many bytes as so many parts. The rest of a partition's share of the memory is
/// for a chunk and its index.
const PARTS_OF_BEST: usize = 3;
/// Pairs that are scored at once.
const SCORED: usize = 8192;

/// The output of a partition, by its number.
pub(in crate::exec) fn ranked(
    prober: Arc<Prober>,
    chunks: Arc<Chunks>,
    ranking: Arc<dyn PartRanking>,
    input: ProbeInput,
    partition: usize,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&prober.output.schema), AHEAD);
    let out = builder.tx();
    builder.spawn(async move {
        let probe = match input {
            ProbeInput::SelfJoin => ProbeParts::self_join(&chunks, partition),
            ProbeInput::Batches(stream) => {
                let held = prober.reservation.new_empty();
                ProbeParts::hold_or_write(&chunks, stream, prober.batch_size, held).await?
            }
        };
        let scoring = Scoring { prober, ranking };
        Partition { scoring: Arc::new(scoring), chunks, probe: Arc::new(probe), out }.run().await
    });
    builder.build()
}

/// Search for the best rows of a chunk.
pub(super) struct Scoring {
    pub prober: Arc<Prober>,
    ranking: Arc<dyn PartRanking>,
}

pub(super) struct Partition {
    pub scoring: Arc<Scoring>,
    pub chunks: Arc<Chunks>,
    pub probe: Arc<ProbeParts>,
    pub out: Sender<Result<RecordBatch>>,
}

impl Partition {
    async fn run(&self) -> Result<()> {
        let parts = (0..self.probe.len()).map(|at| self.probe.part(at).rows);
        let mut stretches = Stretches::new(parts, self.rows_in_bytes(PARTS_OF_BEST * self.chunks.most_bytes));
        loop {
            let pieces = stretches.next();
            if pieces.is_empty() || self.out.is_closed() {
                return Ok(());
            }
            match self.search(&pieces).await {
                Ok((best, kept)) => self.emit(&pieces, best, kept).await?,
                Err(error) if Refusal::of(&error) == Some(Refusal::Pool) => {
                    if !stretches.retry(pieces) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// How many probe rows have as many bytes as a part.
    pub(super) fn rows_in_part(&self) -> usize {
        self.chunks.most_bytes / self.probe.bytes_of_row().max(1)
    }

    /// How many probe rows have their best rows, as they are offered, in so many bytes.
    fn rows_in_bytes(&self, bytes: usize) -> usize {
        let of_build: usize = self.chunks.parts.iter().map(|part| part.rows).sum();
        let best = self.scoring.ranking.wanted().rows.min(of_build);
        bytes / (best * size_of::<Offer>() + size_of::<usize>())
    }

    /// The best rows of a stretch, and what their memory is reserved in.
    async fn search(&self, pieces: &[Piece]) -> Result<(BestRows, MemoryReservation)> {
        let kept = self.scoring.prober.reservation.new_empty();
        let mut best = BestRows::default();
        for part in self.chunks.parts_in_turn() {
            self.chunks.last.store(part, Ordering::Relaxed);
            self.chunks.metrics.probed.add(1);
            let mut left = vec![self.chunks.whole(part)];
            while let Some(build) = self.chunks.next_chunk(&mut left).await? {
                best = self.merge(&build, pieces, best, &kept).await?;
            }
        }
        Ok((best, kept))
    }

    /// The best rows of a stretch together with those of a chunk.
    async fn merge(
        &self,
        build: &Arc<BuildSide>,
        pieces: &[Piece],
        mut before: BestRows,
        kept: &MemoryReservation,
    ) -> Result<BestRows> {
        let at_once = self.rows_in_bytes(self.chunks.most_bytes).min(self.rows_in_part()).min(build.rows_at_once());
        let mut probe = read(&self.probe, pieces);
        let mut merged = BestRows::default();
        while !self.out.is_closed() {
            let batches = gather(&mut probe, at_once, &self.scoring.prober.reservation).await?;
            let Some(first) = batches.first() else { break };
            let (schema, offered) = (first.schema(), kept.new_empty());
            let (scoring, build) = (Arc::clone(&self.scoring), Arc::clone(build));
            let merge = move || {
                let batch = build.concat(&schema, &batches)?;
                drop(batches);
                let block = scoring.merge(&build, batch, &mut before, &offered)?;
                Ok((before, block))
            };
            let block;
            (before, block) = blocking(merge).await?;
            merged.push(block);
            kept.try_resize(before.memory() + merged.memory())?;
        }
        Ok(merged)
    }

    /// Sends `batches`; whether anybody reads them.
    pub(super) async fn send(&self, batches: Vec<RecordBatch>) -> bool {
        for batch in batches {
            if self.out.send(Ok(batch)).await.is_err() {
                return false;
            }
        }
        true
    }
}

impl Scoring {
    /// The best rows of the next probe rows: of those before and those that a chunk has for `batch`. What it offers is
    /// reserved in `offered`.
    fn merge(
        &self,
        build: &BuildSide,
        batch: RecordBatch,
        before: &mut BestRows,
        offered: &MemoryReservation,
    ) -> Result<Block> {
        let mut offers = Vec::new();
        let mut probing = self.prober.start(build, batch.clone())?;
        while !probing.is_done() {
            for pairs in self.prober.find(build, &mut probing)? {
                self.score(build, &batch, &pairs, &mut offers)?;
                offered.try_resize(offers.capacity() * size_of::<Offer>())?;
            }
        }
        Ok(before.merge(batch.num_rows(), &mut offers, self.ranking.wanted()))
    }

    fn score(&self, build: &BuildSide, probe: &RecordBatch, pairs: &Pairs, offers: &mut Vec<Offer>) -> Result<()> {
        let Some(RankedRows { ranks, first }) = &build.ranked else {
            return internal_err!("a chunk of a ranking has no ranks");
        };
        for (of_build, of_probe) in pairs.build.chunks(SCORED).zip(pairs.probe.chunks(SCORED)) {
            let rows = [of_probe, of_build].map(|rows| UInt32Array::from(rows.to_vec()));
            let scores = self.ranking.scores([&rows[0], &rows[1]], probe, &build.batch)?;
            let rows = of_probe.iter().zip(of_build);
            offers.extend(scores.into_iter().zip(rows).filter_map(|(score, (&row, &of_build))| {
                let (rank, number) = (ranks[of_build as usize], first + of_build);
                Some(Offer { row, best: Best { score: score?, rank, row: number } })
            }));
        }
        Ok(())
    }
}
