//! The kernels of `prefixes.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Appended, Launched, SetCondition, SetSides, SetsOnDevice, Task, grid, grid_of_items};
use crate::memory::Buffer;

/// The kernels of `prefixes.cu`.
pub(crate) struct PrefixKernels {
    lengths: CudaFunction,
    tokens: CudaFunction,
    starts: CudaFunction,
    ranges: CudaFunction,
    filter: CudaFunction,
}

/// `Prefixes` of `prefixes.cu`, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PrefixesOnDevice {
    pub(crate) starts: u64,
    pub(crate) tokens: u64,
}

/// `Postings` of `prefixes.cu`, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PostingsOnDevice {
    pub(crate) starts: u64,
    pub(crate) positions: u64,
}

/// `Ranges` of `prefixes.cu`, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct RangesOnDevice {
    pub(crate) firsts: u64,
    pub(crate) offsets: u64,
}

// SAFETY: the layouts are those of the structures in prefixes.cu.
unsafe impl DeviceRepr for PrefixesOnDevice {}
// SAFETY: as above.
unsafe impl DeviceRepr for PostingsOnDevice {}
// SAFETY: as above.
unsafe impl DeviceRepr for RangesOnDevice {}

/// The tokens of prefixes of a build side, and where each is from: what becomes postings once it is sorted.
pub(crate) struct TokenPositions {
    pub(crate) tokens: Buffer<u64>,
    pub(crate) positions: Buffer<u32>,
}

/// Which postings the tokens of probe prefixes are compared with, and how many they are for each probe block.
#[derive(Debug)]
pub(crate) struct RangeColumns {
    pub(crate) firsts: Buffer<u32>,
    pub(crate) offsets: Buffer<u32>,
    pub(crate) totals: Buffer<u64>,
}

/// Prefixes of two sides, and what the one asks of the other.
#[derive(Clone, Copy)]
pub(crate) struct PrefixSides {
    pub(crate) sets: SetSides,
    pub(crate) asked: PrefixesOnDevice,
    pub(crate) posted: PrefixesOnDevice,
    pub(crate) postings: PostingsOnDevice,
}

impl PrefixKernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module = context.load_module(Ptx::from_src(include_str!("../../../../kernels/ptx/prefixes.sm75.ptx")))?;
        Ok(Self {
            lengths: module.load_function("prefix_lengths")?,
            tokens: module.load_function("prefix_tokens")?,
            starts: module.load_function("prefix_starts")?,
            ranges: module.load_function("prefix_ranges")?,
            filter: module.load_function("prefix_filter")?,
        })
    }

    /// How many tokens the prefix of each position has, on the build or the probe side.
    pub(crate) fn lengths(
        &self,
        stream: &CudaStream,
        (sets, is_build): (&SetsOnDevice, bool),
        condition: &SetCondition,
        out: &mut Buffer<u32>,
    ) -> Launched {
        let is_build = u32::from(is_build);
        let mut launch = stream.launch_builder(&self.lengths);
        launch.arg(sets).arg(condition).arg(&is_build).arg(&mut out.slice);
        // SAFETY: the arguments are those of prefix_lengths; `out` has an entry a position.
        unsafe { launch.launch(grid_of_items(u64::from(sets.count), 256)) }?;
        Ok(())
    }

    /// The tokens of all prefixes, and the same once more to be sorted.
    pub(crate) fn tokens(
        &self,
        stream: &CudaStream,
        sets: &SetsOnDevice,
        starts: &Buffer<u32>,
        tokens: &mut Buffer<u32>,
        postings: Option<&mut TokenPositions>,
    ) -> Launched {
        let nowhere = 0u64;
        let mut launch = stream.launch_builder(&self.tokens);
        launch.arg(sets).arg(&starts.slice).arg(&mut tokens.slice);
        match postings {
            Some(postings) => launch.arg(&mut postings.tokens.slice).arg(&mut postings.positions.slice),
            None => launch.arg(&nowhere).arg(&nowhere),
        };
        // SAFETY: the arguments are those of prefix_tokens, a warp a position; the outputs are as long as the last
        // start.
        unsafe { launch.launch(grid_of_items(32 * u64::from(sets.count), 256)) }?;
        Ok(())
    }

    /// Where the postings of each of `ranks` tokens start, of which there are `count` in the order of `tokens`.
    pub(crate) fn starts(
        &self,
        stream: &CudaStream,
        tokens: &Buffer<u64>,
        (count, ranks): (u32, u32),
        out: &mut Buffer<u32>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.starts);
        launch.arg(&tokens.slice).arg(&count).arg(&ranks).arg(&mut out.slice);
        // SAFETY: the arguments are those of prefix_starts; `out` has an entry a token and one more.
        unsafe { launch.launch(grid_of_items(u64::from(ranks) + 1, 256)) }?;
        Ok(())
    }

    /// The postings that `blocks` probe blocks are compared with, by the windows of build blocks.
    pub(crate) fn ranges(
        &self,
        stream: &CudaStream,
        sides: &PrefixSides,
        windows: (&Buffer<u32>, &Buffer<u32>),
        blocks: u32,
        out: &mut RangeColumns,
    ) -> Launched {
        let self_join = u32::from(sides.sets.self_join);
        let mut launch = stream.launch_builder(&self.ranges);
        launch.arg(&sides.sets.probe).arg(&sides.sets.condition).arg(&sides.asked).arg(&sides.postings);
        launch.arg(&windows.0.slice).arg(&windows.1.slice).arg(&self_join);
        launch.arg(&mut out.firsts.slice).arg(&mut out.offsets.slice).arg(&mut out.totals.slice);
        // SAFETY: the arguments are those of prefix_ranges, a block of threads a probe block.
        unsafe { launch.launch(grid(blocks, 128)) }?;
        Ok(())
    }

    /// Appends the positions of pairs that share a token of their prefixes and whose signatures, of `words` words,
    /// allow a match, for the probe positions `range`.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        (sides, ranges): (&PrefixSides, &RangesOnDevice),
        words: u32,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.filter);
        launch.arg(&sides.sets.probe).arg(&sides.sets.build).arg(&sides.sets.condition);
        launch.arg(&sides.asked).arg(&sides.posted).arg(&sides.postings).arg(ranges);
        launch.arg(&tasks.slice).arg(&words).arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of prefix_filter, a block of threads a task; the addresses are of live
        // columns.
        unsafe { launch.launch(grid(count, 128)) }?;
        Ok(())
    }
}
