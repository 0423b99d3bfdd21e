//! The driver: one output partition, from the finished build to the last batch.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coalesce::LimitedBatchCoalescer;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use super::blocking::blocking;
use super::build::{Built, Waiting};
use super::build_side::{BuildSide, CancelOnDrop};
use super::chunks::in_chunks;
use super::probe::{Prober, Probing};
use super::probe_input::{ProbeInput, gather};

/// The output of one partition, given its number among those that probe the build side.
pub(super) fn join_stream(
    prober: Prober,
    build: Waiting,
    input: ProbeInput,
    number: usize,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&prober.output.schema);
    let probe_schema = match &input {
        ProbeInput::Batches(stream) => Some(stream.schema()),
        ProbeInput::SelfJoin => None,
    };
    let partition = Partition {
        coalescer: LimitedBatchCoalescer::new(Arc::clone(&schema), prober.batch_size, None),
        _cancel: CancelOnDrop(prober.cancel.clone()),
        prober: Arc::new(prober),
        waiting: build,
        input,
        probe_schema,
        phase: Phase::Build,
        number,
    };
    let batches = stream::try_unfold(partition, |partition| partition.next());
    Box::pin(RecordBatchStreamAdapter::new(schema, batches.into_stream()))
}

/// Steps that a blocking thread takes at once. With so many, partitions wait little for each other at the end, and a
/// LIMIT finds few pairs in vain.
const STEPS_AT_ONCE: usize = 4;

struct Partition {
    prober: Arc<Prober>,
    waiting: Waiting,
    input: ProbeInput,
    /// Columns of the probe side, where it is not the build side itself.
    probe_schema: Option<SchemaRef>,
    phase: Phase,
    /// Which partition it is.
    number: usize,
    coalescer: LimitedBatchCoalescer,
    _cancel: CancelOnDrop,
}

enum Phase {
    /// The build side is not there yet.
    Build,
    /// The build side is joined in chunks.
    Chunks(SendableRecordBatchStream),
    /// The next probe rows are to be fetched.
    Fetch(Arc<BuildSide>),
    /// Probe rows are on their way.
    Probe(Arc<BuildSide>, Box<Probing>),
    /// Everything of this partition is probed.
    Finish(Arc<BuildSide>),
    /// End of the input: only what the coalescer holds is still to come.
    Done,
}

impl Partition {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                let batch = batch.record_output(&self.prober.metrics.baseline);
                return Ok(Some((batch, self)));
            }
            self.phase = match self.phase {
                Phase::Build => match self.waiting.built().await? {
                    Built::Whole(build) => Phase::Fetch(build),
                    Built::InChunks(chunks) => {
                        let input = std::mem::replace(&mut self.input, ProbeInput::SelfJoin);
                        Phase::Chunks(in_chunks(Arc::clone(&self.prober), chunks, input, self.number))
                    }
                },
                Phase::Chunks(mut batches) => match batches.next().await.transpose()? {
                    Some(batch) => {
                        push(&mut self.coalescer, vec![batch])?;
                        Phase::Chunks(batches)
                    }
                    None => {
                        self.coalescer.finish()?;
                        Phase::Done
                    }
                },
                Phase::Fetch(build) => fetch(&self.prober, &mut self.input, build).await?,
                Phase::Probe(build, probing) => {
                    let (phase, batches) = step(&self.prober, build, probing).await?;
                    push(&mut self.coalescer, batches)?;
                    phase
                }
                Phase::Finish(build) => {
                    if build.finish_partition() {
                        if matches!(self.input, ProbeInput::SelfJoin) {
                            let (prober, build) = (Arc::clone(&self.prober), Arc::clone(&build));
                            blocking(move || prober.check_self_join(&build)).await?;
                        }
                        let probe =
                            self.probe_schema.clone().map_or_else(|| build.batch.clone(), RecordBatch::new_empty);
                        push(&mut self.coalescer, self.prober.emit_build_rows(&build, &probe)?)?;
                    }
                    self.coalescer.finish()?;
                    Phase::Done
                }
                Phase::Done => {
                    self.prober.metrics.baseline.done();
                    return Ok(None);
                }
            };
        }
    }
}

async fn fetch(prober: &Arc<Prober>, input: &mut ProbeInput, build: Arc<BuildSide>) -> Result<Phase> {
    match input {
        ProbeInput::SelfJoin => {
            let prober = Arc::clone(prober);
            blocking(move || {
                Ok(match prober.start_stretch(&build)? {
                    Some(probing) => Phase::Probe(build, Box::new(probing)),
                    None => Phase::Finish(build),
                })
            })
            .await
        }
        ProbeInput::Batches(stream) => {
            let batches = gather(stream, build.rows_at_once(), &prober.reservation).await?;
            let Some(first) = batches.first() else { return Ok(Phase::Finish(build)) };
            let schema = first.schema();
            let prober = Arc::clone(prober);
            blocking(move || {
                let batch = build.concat(&schema, &batches)?;
                drop(batches);
                prober.start(&build, batch).map(|probing| Phase::Probe(build, Box::new(probing)))
            })
            .await
        }
    }
}

/// Some steps: to go to a thread where they hold up nobody and to come back takes about as long as a tenth of one.
async fn step(
    prober: &Arc<Prober>,
    build: Arc<BuildSide>,
    mut probing: Box<Probing>,
) -> Result<(Phase, Vec<RecordBatch>)> {
    let prober = Arc::clone(prober);
    blocking(move || {
        let mut batches = prober.step(&build, &mut probing)?;
        for _ in 1..STEPS_AT_ONCE {
            if probing.is_done() {
                let next = if probing.is_self_join() { prober.start_stretch(&build)? } else { None };
                match next {
                    Some(next) => *probing = next,
                    None => break,
                }
            }
            batches.extend(prober.step(&build, &mut probing)?);
        }
        let phase = if probing.is_done() { Phase::Fetch(build) } else { Phase::Probe(build, probing) };
        Ok((phase, batches))
    })
    .await
}

fn push(coalescer: &mut LimitedBatchCoalescer, batches: Vec<RecordBatch>) -> Result<()> {
    for batch in batches {
        coalescer.push_batch(batch)?;
    }
    Ok(())
}
