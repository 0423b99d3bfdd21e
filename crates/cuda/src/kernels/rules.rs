//! Launches of the kernels of `rules.cu`.

use std::mem::offset_of;

use cudarc::driver::{CudaStream, DriverError};
use similarity_engine::atoms;
use similarity_measures::EditKernel;

use super::generated::common::Task;
use super::generated::edit_measure::EditCondition;
use super::generated::rules::{Batch, Items, Kernels, RuleSets, RuleTexts, RuleVectors, Span, Step};
use super::generated::set_measure::SetCondition;
use super::generated::vector_measure::VectorCondition;
use super::grid::{Grid, Launched};
use super::launch::{Appended, multiprocessors};
use crate::address::Address;
use crate::buffer::Buffer;
use crate::context::DeviceContext;

/// The kernels of `rules.cu`.
pub(crate) struct RuleKernels {
    kernels: Kernels,
    /// Blocks of threads that fill the device.
    blocks: u32,
}

/// No witness, and no atom to remember.
pub(crate) const NONE: u32 = super::generated::constants::rules::NONE;

/// The class of the size of a string that is unknown: no kernel takes it.
pub(crate) const UNKNOWN: u32 = super::generated::constants::rules::UNKNOWN;

/// What stands for a vector that is unknown.
pub(crate) const UNKNOWN_VECTOR: u8 = super::generated::constants::rules::UNKNOWN_VECTOR as u8;

const _: () = {
    assert!(UNKNOWN == super::generated::constants::coded_strings::UNKNOWN);
    assert!(size_of::<atoms::Span>() == size_of::<Span>() && align_of::<atoms::Span>() == align_of::<Span>());
    assert!(offset_of!(atoms::Span, first) == offset_of!(Span, first));
    assert!(offset_of!(atoms::Span, last) == offset_of!(Span, last));
};

/// Spans as kernels read them.
pub(crate) fn spans(spans: &[atoms::Span]) -> &[Span] {
    // SAFETY: the layout is that of a span, as checked above.
    unsafe { std::slice::from_raw_parts(spans.as_ptr().cast(), spans.len()) }
}

/// Fingerprints of rows.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprints<'a> {
    pub(crate) prints: &'a Buffer<u64>,
    pub(crate) rows: u32,
}

/// Some of the tasks of a launch.
#[derive(Clone, Copy)]
pub(crate) struct TaskPortion {
    pub(crate) first: Address<Task>,
    pub(crate) count: u32,
}

/// A batch of pairs that no step has asked.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    /// Witness of all of them, unless it is [`NONE`].
    pub(crate) certain: u32,
    /// Whether some atom is remembered.
    pub(crate) remembers: bool,
    pub(crate) batch: Batch,
}

/// Rows that are drawn by their fingerprints, as far as there is room.
pub(crate) struct DrawnRows {
    pub(crate) rows: Buffer<u32>,
    pub(crate) prints: Buffer<u64>,
    /// How many there are or would be.
    pub(crate) found: Buffer<u64>,
    pub(crate) capacity: u64,
}

/// How many pairs the block of each item has up to it, and how many each block has.
pub(crate) struct PairNumbers {
    pub(crate) behind: Buffer<u32>,
    pub(crate) pairs: Buffer<u64>,
}

/// What a step compares.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compared {
    Codes {
        build: Address<u32>,
        probe: Address<u32>,
    },
    Band {
        build: Address<Span>,
        probe: Address<Span>,
    },
    /// Bits of one of the sides, or of both: of either row.
    Bits {
        build: Option<Address<u8>>,
        probe: Option<Address<u8>>,
    },
    Strings {
        build: RuleTexts,
        probe: RuleTexts,
        /// What classes of sizes allow signatures to differ in.
        allowance: Address<i8>,
        condition: EditCondition,
        decision: EditKernel,
        /// Whether symbols are bytes.
        is_small: bool,
    },
    Sets {
        build: RuleSets,
        probe: RuleSets,
        allowance: Address<i8>,
        condition: SetCondition,
    },
    Vectors {
        build: RuleVectors,
        probe: RuleVectors,
        condition: VectorCondition,
    },
}

impl RuleKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)?, blocks: 16 * multiprocessors(context)? })
    }

    /// Appends the rows whose fingerprints are no greater than `bound`, and these, as far as there is room.
    pub(crate) fn drawn(
        &self,
        stream: &CudaStream,
        Fingerprints { prints, rows }: Fingerprints<'_>,
        bound: u64,
        out: &mut DrawnRows,
    ) -> Launched {
        // SAFETY: both outputs have room for `capacity`.
        unsafe {
            self.kernels.rule_drawn(
                stream,
                Grid::Threads(rows),
                prints.address(stream),
                rows,
                bound,
                out.rows.address_mut(stream),
                out.prints.address_mut(stream),
                out.found.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Writes the numbers of pairs where each of `count` places is paired with those behind it in its group, of which
    /// there are `groups`.
    pub(crate) fn behind(
        &self,
        stream: &CudaStream,
        starts: &Buffer<u32>,
        groups: u32,
        count: u32,
        out: &mut PairNumbers,
    ) -> Launched {
        let (behind, pairs) = (out.behind.address_mut(stream), out.pairs.address_mut(stream));
        let (grid, starts) = (Grid::Threads(count), starts.address(stream));
        // SAFETY: the last of the groups ends behind all places.
        unsafe { self.kernels.rule_behind(stream, grid, starts, groups, count, behind, pairs) }
    }

    /// Writes where the stretch of each of `count` items of a probe batch starts, and the numbers of pairs, by the
    /// groups that items are paired with.
    pub(crate) fn stretches(
        &self,
        stream: &CudaStream,
        groups: &Buffer<u64>,
        count: u32,
        starts: &Buffer<u32>,
        firsts: &mut Buffer<u32>,
        out: &mut PairNumbers,
    ) -> Launched {
        // SAFETY: the first `count` items have groups of those that start somewhere.
        unsafe {
            self.kernels.rule_stretches(
                stream,
                Grid::Threads(count),
                groups.address(stream),
                count,
                starts.address(stream),
                firsts.address_mut(stream),
                out.behind.address_mut(stream),
                out.pairs.address_mut(stream),
            )
        }
    }

    /// Adds the pairs of some of the tasks to a batch.
    pub(crate) fn candidates(
        &self,
        stream: &CudaStream,
        items: Items,
        TaskPortion { first, count }: TaskPortion,
        Begun { certain, remembers, batch }: Begun,
    ) -> Launched {
        let grid = Grid::Blocks(count);
        // SAFETY: there are as many tasks from this one on, and the addresses are of live columns.
        unsafe { self.kernels.rule_candidates(stream, grid, items, first, certain, remembers.into(), batch) }
    }

    /// Makes a batch of `count` pairs of build and probe rows, for which it has room.
    pub(crate) fn found(
        &self,
        stream: &CudaStream,
        (build, probe): (&Buffer<u32>, &Buffer<u32>),
        count: u32,
        Begun { certain, remembers, batch }: Begun,
    ) -> Launched {
        let (build, probe) = (build.address(stream), probe.address(stream));
        let grid = Grid::Blocks(self.blocks);
        // SAFETY: there are as many rows on either side, and there is room for their pairs.
        unsafe { self.kernels.rule_found(stream, grid, build, probe, count, certain, remembers.into(), batch) }
    }

    /// Asks the pairs of `batch` that have come as deep as `step`.
    pub(crate) fn step(
        &self,
        stream: &CudaStream,
        batch: Batch,
        step: Step,
        counters: &mut Buffer<u64>,
        compared: &Compared,
    ) -> Launched {
        let (kernels, grid, tally) = (&self.kernels, Grid::Blocks(self.blocks), counters.address_mut(stream));
        // SAFETY: the addresses are of live columns of what is compared, and symbols are of the kernel's size.
        unsafe {
            match *compared {
                Compared::Codes { build, probe } => {
                    kernels.rule_step_codes(stream, grid, batch, step, tally, build, probe)
                }
                Compared::Band { build, probe } => {
                    kernels.rule_step_band(stream, grid, batch, step, tally, build, probe)
                }
                Compared::Bits { build, probe } => {
                    kernels.rule_step_bits(stream, grid, batch, step, tally, build, probe)
                }
                Compared::Strings { build, probe, allowance, condition, decision, is_small } => {
                    let ask = match (decision, is_small) {
                        (EditKernel::Levenshtein, true) => Kernels::rule_step_levenshtein_small,
                        (EditKernel::Levenshtein, false) => Kernels::rule_step_levenshtein_large,
                        (EditKernel::Osa, true) => Kernels::rule_step_osa_small,
                        (EditKernel::Osa, false) => Kernels::rule_step_osa_large,
                        (EditKernel::Hamming, true) => Kernels::rule_step_hamming_small,
                        (EditKernel::Hamming, false) => Kernels::rule_step_hamming_large,
                        (EditKernel::Jaro, true) => Kernels::rule_step_jaro_small,
                        (EditKernel::Jaro, false) => Kernels::rule_step_jaro_large,
                    };
                    ask(kernels, stream, grid, batch, step, tally, build, probe, allowance, condition)
                }
                Compared::Sets { build, probe, allowance, condition } => {
                    kernels.rule_step_sets(stream, grid, batch, step, tally, build, probe, allowance, condition)
                }
                Compared::Vectors { build, probe, condition } => {
                    kernels.rule_step_vectors(stream, grid, batch, step, tally, build, probe, condition)
                }
            }
        }
    }

    /// Appends the pairs of `batch` that have a witness, and it.
    pub(crate) fn witnessed(
        &self,
        stream: &CudaStream,
        batch: Batch,
        out: &mut Appended<'_>,
        witnesses: &mut Buffer<u16>,
    ) -> Launched {
        // SAFETY: there is a witness for each pair that fits.
        unsafe {
            self.kernels.rule_witnessed(
                stream,
                Grid::Blocks(self.blocks),
                batch,
                out.pairs.address_mut(stream),
                witnesses.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }

    /// Appends the pairs of `batch` that have no witness there, and counts them by those that they had before.
    pub(crate) fn unseen(
        &self,
        stream: &CudaStream,
        batch: Batch,
        witnesses: &Buffer<u16>,
        by_clause: &mut Buffer<u64>,
        out: &mut Appended<'_>,
    ) -> Launched {
        // SAFETY: every witness is a clause that has a counter.
        unsafe {
            self.kernels.rule_unseen(
                stream,
                Grid::Blocks(self.blocks),
                batch,
                witnesses.address(stream),
                by_clause.address_mut(stream),
                out.pairs.address_mut(stream),
                out.count.address_mut(stream),
                out.capacity,
            )
        }
    }
}
