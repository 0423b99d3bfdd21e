//! The kernels of `rules.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{
    Appended, EditCondition, EditDecision, Launched, SetCondition, Task, VectorCondition, grid, multiprocessors,
};
use crate::block_ranges::BLOCK;
use crate::memory::Buffer;
use similarity_engine::atoms::Span;

/// The kernels of `rules.cu`.
pub(crate) struct RuleKernels {
    drawn: CudaFunction,
    behind: CudaFunction,
    stretches: CudaFunction,
    candidates: CudaFunction,
    codes: CudaFunction,
    band: CudaFunction,
    bits: CudaFunction,
    /// Kernels for each [`EditDecision`], and small and large alphabets.
    texts: [[CudaFunction; 2]; 4],
    sets: CudaFunction,
    vectors: CudaFunction,
    witnessed: CudaFunction,
    unseen: CudaFunction,
    /// Blocks of threads that fill the device.
    blocks: u32,
}

/// `NONE` of `rules.cu`.
pub(crate) const NONE: u32 = u32::MAX;

/// `Items` of `rules.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ItemsOnDevice {
    pub(crate) rows: u64,
    pub(crate) probe_rows: u64,
    pub(crate) firsts: u64,
    pub(crate) behind: u64,
    pub(crate) count: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in rules.cu.
unsafe impl DeviceRepr for ItemsOnDevice {}

/// `Batch` of `rules.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct BatchOnDevice {
    pub(crate) pairs: u64,
    pub(crate) depths: u64,
    pub(crate) witnesses: u64,
    pub(crate) known: u64,
    pub(crate) holding: u64,
    pub(crate) count: u64,
    pub(crate) capacity: u64,
}

// SAFETY: the layout is that of the structure in rules.cu.
unsafe impl DeviceRepr for BatchOnDevice {}

/// `Step` of `rules.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RuleStep {
    pub(crate) depth: u32,
    pub(crate) witness: u32,
    pub(crate) remembered: u32,
    pub(crate) number: u32,
}

// SAFETY: the layout is that of the structure in rules.cu.
unsafe impl DeviceRepr for RuleStep {}

/// `Span` of `rules.cu`: a stretch of places in a band.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SpanOnDevice(Span);

// SAFETY: two numbers, as in rules.cu.
unsafe impl DeviceRepr for SpanOnDevice {}

impl SpanOnDevice {
    /// Spans as kernels read them.
    pub(crate) fn of(spans: &[Span]) -> &[Self] {
        // SAFETY: the layout is that of a span.
        unsafe { std::slice::from_raw_parts(spans.as_ptr().cast(), spans.len()) }
    }
}

/// `RuleTexts` of `rules.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RuleTexts {
    pub(crate) signatures: u64,
    pub(crate) classes: u64,
    pub(crate) starts: u64,
    pub(crate) lengths: u64,
    pub(crate) symbols: u64,
}

// SAFETY: the layout is that of the structure in rules.cu.
unsafe impl DeviceRepr for RuleTexts {}

/// `RuleSets` of `rules.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RuleSets {
    pub(crate) signatures: u64,
    pub(crate) classes: u64,
    pub(crate) starts: u64,
    pub(crate) ranks: u64,
    pub(crate) sizes: u64,
}

// SAFETY: the layout is that of the structure in rules.cu.
unsafe impl DeviceRepr for RuleSets {}

/// `RuleVectors` of `rules.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RuleVectors {
    pub(crate) values: u64,
    pub(crate) has: u64,
}

// SAFETY: the layout is that of the structure in rules.cu.
unsafe impl DeviceRepr for RuleVectors {}

/// What a step compares: the columns of the build side, then of the probe side, as addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compared {
    Codes([u64; 2]),
    Band([u64; 2]),
    /// One of them is 0.
    Bits([u64; 2]),
    Texts {
        sides: [RuleTexts; 2],
        /// What classes of sizes allow signatures to differ in.
        allowance: u64,
        condition: EditCondition,
        decision: EditDecision,
        /// Whether symbols are bytes.
        is_small: bool,
    },
    Sets {
        sides: [RuleSets; 2],
        allowance: u64,
        condition: SetCondition,
    },
    Vectors {
        sides: [RuleVectors; 2],
        condition: VectorCondition,
    },
}

impl RuleKernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module: Arc<CudaModule> =
            context.load_module(Ptx::from_src(include_str!("../../../../kernels/ptx/rules.sm75.ptx")))?;
        let both = |measure: &str| {
            let of = |alphabet: &str| module.load_function(&format!("rule_step_{measure}_{alphabet}"));
            Ok::<_, DriverError>([of("small")?, of("large")?])
        };
        Ok(Self {
            drawn: module.load_function("rule_drawn")?,
            behind: module.load_function("rule_behind")?,
            stretches: module.load_function("rule_stretches")?,
            candidates: module.load_function("rule_candidates")?,
            codes: module.load_function("rule_step_codes")?,
            band: module.load_function("rule_step_band")?,
            bits: module.load_function("rule_step_bits")?,
            texts: [both("levenshtein")?, both("osa")?, both("hamming")?, both("jaro")?],
            sets: module.load_function("rule_step_sets")?,
            vectors: module.load_function("rule_step_vectors")?,
            witnessed: module.load_function("rule_witnessed")?,
            unseen: module.load_function("rule_unseen")?,
            blocks: 16 * multiprocessors(context)?,
        })
    }

    /// Appends the rows whose fingerprints are no greater than `bound`, and these, as far as there is room.
    pub(crate) fn drawn(
        &self,
        stream: &CudaStream,
        (prints, rows): (&Buffer<u64>, u32),
        bound: u64,
        (drawn, drawn_prints, found): (&mut Buffer<u32>, &mut Buffer<u64>, &mut Buffer<u64>),
        capacity: u64,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.drawn);
        launch.arg(&prints.slice).arg(&rows).arg(&bound);
        launch.arg(&mut drawn.slice).arg(&mut drawn_prints.slice).arg(&mut found.slice).arg(&capacity);
        // SAFETY: the arguments are those of rule_drawn; both outputs have room for `capacity`.
        unsafe { launch.launch(grid(rows.div_ceil(128), 128)) }?;
        Ok(())
    }

    /// Writes how many pairs the block of each place has up to it, and how many each block has, where places are
    /// paired with those behind them in their group.
    pub(crate) fn behind(
        &self,
        stream: &CudaStream,
        (starts, groups): (&Buffer<u32>, u32),
        count: u32,
        (behind, pairs): (&mut Buffer<u32>, &mut Buffer<u64>),
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.behind);
        launch.arg(&starts.slice).arg(&groups).arg(&count).arg(&mut behind.slice).arg(&mut pairs.slice);
        // SAFETY: the arguments are those of rule_behind; the last of the groups ends behind all places.
        unsafe { launch.launch(grid(count.div_ceil(BLOCK), BLOCK)) }?;
        Ok(())
    }

    /// Writes where the stretch of each item starts, how many pairs the block of each item has up to it, and how many
    /// each block has, of items of a probe batch by the groups that they are paired with.
    pub(crate) fn stretches(
        &self,
        stream: &CudaStream,
        (groups, count): (&Buffer<u64>, u32),
        starts: &Buffer<u32>,
        (firsts, behind, pairs): (&mut Buffer<u32>, &mut Buffer<u32>, &mut Buffer<u64>),
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.stretches);
        launch.arg(&groups.slice).arg(&count).arg(&starts.slice);
        launch.arg(&mut firsts.slice).arg(&mut behind.slice).arg(&mut pairs.slice);
        // SAFETY: the arguments are those of rule_stretches; the first `count` items have groups of those that start
        // somewhere.
        unsafe { launch.launch(grid(count.div_ceil(BLOCK), BLOCK)) }?;
        Ok(())
    }

    /// Adds the pairs of the tasks in `range` to `batch`; all of them have `certain` as witness, unless that is
    /// [`NONE`].
    pub(crate) fn candidates(
        &self,
        stream: &CudaStream,
        items: &ItemsOnDevice,
        (tasks, range): (&Buffer<Task>, std::ops::Range<usize>),
        (certain, remembers): (u32, bool),
        batch: &BatchOnDevice,
    ) -> Launched {
        let (count, remembers) = (range.len() as u32, u32::from(remembers));
        let tasks = tasks.slice.slice(range);
        let mut launch = stream.launch_builder(&self.candidates);
        launch.arg(items).arg(&tasks).arg(&certain).arg(&remembers).arg(batch);
        // SAFETY: the arguments are those of rule_candidates, a block of threads a task; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(count, 128)) }?;
        Ok(())
    }

    /// Asks the pairs of `batch` that have come as deep as `step`.
    pub(crate) fn step(
        &self,
        stream: &CudaStream,
        batch: &BatchOnDevice,
        step: &RuleStep,
        counters: &mut Buffer<u64>,
        compared: &Compared,
    ) -> Launched {
        let kernel = match compared {
            Compared::Codes(_) => &self.codes,
            Compared::Band(_) => &self.band,
            Compared::Bits(_) => &self.bits,
            Compared::Texts { decision, is_small, .. } => &self.texts[*decision as usize][usize::from(!is_small)],
            Compared::Sets { .. } => &self.sets,
            Compared::Vectors { .. } => &self.vectors,
        };
        let mut launch = stream.launch_builder(kernel);
        launch.arg(batch).arg(step).arg(&mut counters.slice);
        match compared {
            Compared::Codes([build, probe]) | Compared::Band([build, probe]) | Compared::Bits([build, probe]) => {
                launch.arg(build).arg(probe);
            }
            Compared::Texts { sides: [build, probe], allowance, condition, .. } => {
                launch.arg(build).arg(probe).arg(allowance).arg(condition);
            }
            Compared::Sets { sides: [build, probe], allowance, condition } => {
                launch.arg(build).arg(probe).arg(allowance).arg(condition);
            }
            Compared::Vectors { sides: [build, probe], condition } => {
                launch.arg(build).arg(probe).arg(condition);
            }
        }
        // SAFETY: the arguments are those of the rule_step_* of what is compared; the addresses are of live columns.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }

    /// Appends the pairs of `batch` that have a witness, and it.
    pub(crate) fn witnessed(
        &self,
        stream: &CudaStream,
        batch: &BatchOnDevice,
        out: &mut Appended<'_>,
        witnesses: &mut Buffer<u16>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.witnessed);
        launch.arg(batch).arg(&mut out.pairs.slice).arg(&mut witnesses.slice);
        launch.arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of rule_witnessed; there is a witness for each pair that fits.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }

    /// Appends the pairs of `batch` that have no witness there, and counts them by those that they had before.
    pub(crate) fn unseen(
        &self,
        stream: &CudaStream,
        batch: &BatchOnDevice,
        witnesses: &Buffer<u16>,
        by_clause: &mut Buffer<u64>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.unseen);
        launch.arg(batch).arg(&witnesses.slice).arg(&mut by_clause.slice);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of rule_unseen; every witness is a clause that has a counter.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }
}
