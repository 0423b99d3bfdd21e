//! One function for each kernel of `kernels/`: the only place where something is launched.
//!
//! A function takes buffers that are at least as long as the contract in `kernels/README.md` says, which its callers see to;
//! what is launched on one stream runs in order.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

use super::fault::Fault;
use super::memory::Buffer;

mod vectors;

pub(super) use vectors::{
    Boxes, FrameOnDevice, Halves, RowKeys, RowVectors, VectorKernels, VectorPositions, VectorSides, VectorTest,
    VectorsOnDevice,
};

type Launched = Result<(), Fault>;

/// The kernels of `sort.cu`.
pub(super) struct SortKernels {
    count: CudaFunction,
    scan: CudaFunction,
    scatter: CudaFunction,
}

/// Threads of a block of `sort.cu`.
const SORT_THREADS: u32 = 256;
/// Records of a block of `sort.cu`.
const SORT_TILE: u32 = 4096;

impl SortKernels {
    pub(super) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module = context.load_module(Ptx::from_src(include_str!("../../../kernels/ptx/sort.sm75.ptx")))?;
        Ok(Self {
            count: module.load_function("radix_count")?,
            scan: module.load_function("radix_scan")?,
            scatter: module.load_function("radix_scatter")?,
        })
    }

    /// Counts the digits from bit `shift` on of every tile of `n` keys.
    pub(super) fn count(
        &self,
        stream: &CudaStream,
        keys: &Buffer<u64>,
        n: u32,
        shift: u32,
        counts: &mut Buffer<u32>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.count);
        launch.arg(&keys.slice).arg(&n).arg(&shift).arg(&mut counts.slice);
        // SAFETY: the arguments are those of radix_count, and `counts` has 256 entries a tile.
        unsafe { launch.launch(grid(n.div_ceil(SORT_TILE), SORT_THREADS)) }?;
        Ok(())
    }

    /// Makes offsets of the counts of `tiles` tiles.
    pub(super) fn scan(
        &self,
        stream: &CudaStream,
        counts: &mut Buffer<u32>,
        totals: &mut Buffer<u32>,
        tiles: u32,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.scan);
        launch.arg(&mut counts.slice).arg(&mut totals.slice).arg(&tiles);
        // SAFETY: the arguments are those of radix_scan, a warp for each of the 256 digits.
        unsafe { launch.launch(grid(32, SORT_THREADS)) }?;
        Ok(())
    }

    /// Moves `n` records to their places by the digit from bit `shift` on.
    pub(super) fn scatter(
        &self,
        stream: &CudaStream,
        from: (&Buffer<u64>, &Buffer<u32>),
        to: (&mut Buffer<u64>, &mut Buffer<u32>),
        n: u32,
        shift: u32,
        offsets: (&Buffer<u32>, &Buffer<u32>),
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.scatter);
        launch.arg(&from.0.slice).arg(&from.1.slice).arg(&mut to.0.slice).arg(&mut to.1.slice);
        launch.arg(&n).arg(&shift).arg(&offsets.0.slice).arg(&offsets.1.slice);
        // SAFETY: the arguments are those of radix_scatter; both outputs hold n records.
        unsafe { launch.launch(grid(n.div_ceil(SORT_TILE), SORT_THREADS)) }?;
        Ok(())
    }
}

/// The kernels of `sets.cu`.
pub(super) struct SetKernels {
    signatures: CudaFunction,
    gather: CudaFunction,
    summaries: CudaFunction,
    windows: CudaFunction,
    /// By words of 256 bits: 1, 2, 4, 8.
    filters: [CudaFunction; 4],
    verify: CudaFunction,
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// `Sets` of `sets.cu`: the columns of one side, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct SetsOnDevice {
    pub(super) signatures: u64,
    pub(super) sizes: u64,
    pub(super) known: u64,
    pub(super) ones: u64,
    pub(super) groups: u64,
    pub(super) rows: u64,
    pub(super) starts: u64,
    pub(super) tokens: u64,
    pub(super) summaries: u64,
    pub(super) count: u32,
    pub(super) unused: u32,
}

// SAFETY: the layout is that of the structure in sets.cu.
unsafe impl DeviceRepr for SetsOnDevice {}

/// `SetTest` of `measure/set_measure.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct SetTest {
    pub(super) lower: f64,
    pub(super) upper: f64,
    pub(super) share: f64,
    pub(super) smallest: f64,
    pub(super) measure: u32,
    pub(super) form: u32,
    pub(super) lower_inclusive: u32,
    pub(super) upper_inclusive: u32,
}

// SAFETY: the layout is that of the structure in set_measure.cuh.
unsafe impl DeviceRepr for SetTest {}

/// `Summary` of `sets.cu`: eight numbers.
pub(super) type Summary = [u32; 8];

/// `Task` of `sets.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Task {
    /// The first of the probe blocks.
    pub(super) probe: u32,
    /// The first build block.
    pub(super) first: u32,
    /// One past the last build block.
    pub(super) end: u32,
}

// SAFETY: the layout is that of the structure in sets.cu.
unsafe impl DeviceRepr for Task {}

/// `Pair` of `common.cuh`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct RowPair {
    pub(super) build: u32,
    pub(super) probe: u32,
}

// SAFETY: the layout is that of the structure in common.cuh, and every bit pattern is a value.
unsafe impl DeviceRepr for RowPair {}
// SAFETY: as above.
unsafe impl cudarc::driver::ValidAsZeroBits for RowPair {}

/// The sets of a side in the order of its rows.
pub(super) struct RowColumns {
    pub(super) starts: Buffer<u64>,
    pub(super) tokens: Buffer<u32>,
    pub(super) sizes: Buffer<u32>,
    /// None where all rows are of one group.
    pub(super) groups: Option<Buffer<u32>>,
    /// The row numbers.
    pub(super) rows: Buffer<u32>,
    pub(super) count: u32,
}

/// Signatures in the order of rows, and what to sort them by.
pub(super) struct RowSignatures {
    pub(super) signatures: Buffer<u32>,
    pub(super) ones: Buffer<u32>,
    pub(super) keys: Buffer<u64>,
    pub(super) order: Buffer<u32>,
}

/// The sets of a side in the order of positions.
#[derive(Debug)]
pub(super) struct PositionColumns {
    pub(super) signatures: Buffer<u32>,
    pub(super) sizes: Buffer<u32>,
    pub(super) known: Buffer<u32>,
    pub(super) ones: Buffer<u32>,
    pub(super) groups: Buffer<u32>,
    pub(super) rows: Buffer<u32>,
    pub(super) starts: Buffer<u64>,
    pub(super) summaries: Buffer<Summary>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(super) struct SetSides {
    pub(super) probe: SetsOnDevice,
    pub(super) build: SetsOnDevice,
    pub(super) test: SetTest,
    /// Whether both are one side.
    pub(super) own: bool,
}

/// Pairs that a kernel appends, and how many there are or would be.
pub(super) struct Appended<'a> {
    pub(super) pairs: &'a mut Buffer<RowPair>,
    pub(super) count: &'a mut Buffer<u64>,
    pub(super) capacity: u64,
}

impl SetKernels {
    pub(super) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../kernels/ptx/sets.sm80.ptx")
        } else {
            include_str!("../../../kernels/ptx/sets.sm75.ptx")
        };
        let module: Arc<CudaModule> = context.load_module(Ptx::from_src(ptx))?;
        let filter = |bits: u32| module.load_function(&format!("set_filter_{bits}"));
        Ok(Self {
            signatures: module.load_function("set_signatures")?,
            gather: module.load_function("set_gather")?,
            summaries: module.load_function("set_summaries")?,
            windows: module.load_function("set_windows")?,
            filters: [filter(256)?, filter(512)?, filter(1024)?, filter(2048)?],
            verify: module.load_function("set_verify")?,
            blocks: 8 * multiprocessors(context)?,
        })
    }

    /// Signatures of `words` words for tokens of `ranks` ranks.
    pub(super) fn signatures(
        &self,
        stream: &CudaStream,
        columns: &RowColumns,
        ranks: u32,
        words: u32,
        out: &mut RowSignatures,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.signatures);
        launch.arg(&columns.starts.slice).arg(&columns.tokens.slice).arg(&columns.sizes.slice);
        match &columns.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&columns.count).arg(&ranks).arg(&words);
        launch.arg(&mut out.signatures.slice).arg(&mut out.ones.slice);
        launch.arg(&mut out.keys.slice).arg(&mut out.order.slice);
        // SAFETY: the arguments are those of set_signatures, 8 rows a block.
        unsafe { launch.launch(grid(columns.count.div_ceil(8), 256)) }?;
        Ok(())
    }

    /// Columns in the order of `order`, with empty sets up to `padded` positions.
    pub(super) fn gather(
        &self,
        stream: &CudaStream,
        columns: &RowColumns,
        (signatures, ones): (&Buffer<u32>, &Buffer<u32>),
        order: &Buffer<u32>,
        (padded, words): (u32, u32),
        out: &mut PositionColumns,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.gather);
        launch.arg(&order.slice).arg(&columns.count).arg(&padded).arg(&words).arg(&signatures.slice);
        launch.arg(&columns.sizes.slice).arg(&ones.slice);
        match &columns.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&columns.rows.slice).arg(&columns.starts.slice);
        launch.arg(&mut out.signatures.slice).arg(&mut out.sizes.slice).arg(&mut out.known.slice);
        launch.arg(&mut out.ones.slice).arg(&mut out.groups.slice);
        launch.arg(&mut out.rows.slice).arg(&mut out.starts.slice);
        // SAFETY: the arguments are those of set_gather; every output has `padded` positions.
        unsafe { launch.launch(grid_of_items(u64::from(padded) * u64::from(words), 256)) }?;
        Ok(())
    }

    /// What the sets of each block of positions have in common.
    pub(super) fn summaries(&self, stream: &CudaStream, columns: &mut PositionColumns, count: u32) -> Launched {
        let mut launch = stream.launch_builder(&self.summaries);
        launch.arg(&columns.sizes.slice).arg(&columns.known.slice).arg(&columns.ones.slice);
        launch.arg(&columns.groups.slice).arg(&count).arg(&mut columns.summaries.slice);
        // SAFETY: the arguments are those of set_summaries, a thread a block of 64 positions.
        unsafe { launch.launch(grid(count.div_ceil(64 * 128), 128)) }?;
        Ok(())
    }

    /// The first and one past the last build block for each of `blocks` probe blocks.
    pub(super) fn windows(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        blocks: u32,
        firsts: &mut Buffer<u32>,
        ends: &mut Buffer<u32>,
    ) -> Launched {
        let (own, first) = (u32::from(sides.own), 0u32);
        let mut launch = stream.launch_builder(&self.windows);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test).arg(&first).arg(&blocks).arg(&own);
        launch.arg(&mut firsts.slice).arg(&mut ends.slice);
        // SAFETY: the arguments are those of set_windows, a thread a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(128), 128)) }?;
        Ok(())
    }

    /// Appends the positions of pairs whose signatures, of `words` words, allow a match, for the probe positions `range`.
    pub(super) fn filter(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        words: u32,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let own = u32::from(sides.own);
        let mut launch = stream.launch_builder(&self.filters[words.trailing_zeros() as usize - 3]);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test).arg(&tasks.slice).arg(&own);
        launch.arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of set_filter_*, a block of threads a task; the addresses are of live columns.
        unsafe { launch.launch(grid(count, 128)) }?;
        Ok(())
    }

    /// Appends the row numbers of the candidates that match.
    pub(super) fn verify(
        &self,
        stream: &CudaStream,
        sides: &SetSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.verify);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of set_verify, whose warps share whatever number of candidates there is.
        unsafe { launch.launch(grid(self.blocks, 256)) }?;
        Ok(())
    }
}

/// The kernels of `edits.cu`.
pub(super) struct EditKernels {
    /// For small and for large alphabets.
    signatures: [CudaFunction; 2],
    gather: CudaFunction,
    summaries: CudaFunction,
    windows: CudaFunction,
    filter: CudaFunction,
    /// For each [`EditDecision`] and small and large alphabets.
    verify: [[CudaFunction; 2]; 4],
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// What decides an edit condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditDecision {
    Levenshtein,
    Osa,
    Hamming,
    Jaro,
}

/// `Texts` of `edits.cu`: the columns of one side, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct TextsOnDevice {
    pub(super) characters: u64,
    pub(super) bigrams: u64,
    pub(super) character_excess: u64,
    pub(super) bigram_excess: u64,
    pub(super) lengths: u64,
    pub(super) groups: u64,
    pub(super) rows: u64,
    pub(super) starts: u64,
    pub(super) symbols: u64,
    pub(super) summaries: u64,
    pub(super) count: u32,
    pub(super) unused: u32,
}

// SAFETY: the layout is that of the structure in edits.cu.
unsafe impl DeviceRepr for TextsOnDevice {}

/// `EditTest` of `measure/edit_measure.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct EditTest {
    pub(super) lower: f64,
    pub(super) upper: f64,
    pub(super) jaro: f64,
    /// The address of a [`Reach`] for each length.
    pub(super) reach: u64,
    pub(super) measure: u32,
    pub(super) lower_inclusive: u32,
    pub(super) upper_inclusive: u32,
    pub(super) unused: u32,
}

// SAFETY: the layout is that of the structure in edit_measure.cuh.
unsafe impl DeviceRepr for EditTest {}

/// `Reach` of `measure/edit_measure.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Reach {
    pub(super) shortest: u32,
    pub(super) longest: u32,
    pub(super) edits: u32,
    pub(super) characters: u32,
    pub(super) bigrams: u32,
}

// SAFETY: the layout is that of the structure in edit_measure.cuh.
unsafe impl DeviceRepr for Reach {}

/// `Signer` of `edits.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct SignerOnDevice {
    pub(super) scalars: u64,
    pub(super) character_bits: u64,
    pub(super) bigram_bits: u64,
}

// SAFETY: the layout is that of the structure in edits.cu.
unsafe impl DeviceRepr for SignerOnDevice {}

/// `Summary` of `edits.cu`: ten numbers.
pub(super) type TextSummary = [u32; 10];

/// Codes of characters, one a byte or four bytes each.
#[derive(Debug)]
pub(super) enum SymbolBuffer {
    Small(Buffer<u8>),
    Large(Buffer<u32>),
}

impl SymbolBuffer {
    /// Which of the kernels for either serves it.
    fn alphabet(&self) -> usize {
        match self {
            Self::Small(_) => 0,
            Self::Large(_) => 1,
        }
    }

    /// As [`Buffer::address`].
    pub(super) fn address(&self, stream: &CudaStream) -> u64 {
        match self {
            Self::Small(symbols) => symbols.address(stream),
            Self::Large(symbols) => symbols.address(stream),
        }
    }
}

/// The strings of a side in the order of its rows.
pub(super) struct TextRows {
    pub(super) starts: Buffer<u64>,
    pub(super) symbols: SymbolBuffer,
    /// None where all rows are of one group.
    pub(super) groups: Option<Buffer<u32>>,
    /// The row numbers.
    pub(super) rows: Buffer<u32>,
    pub(super) count: u32,
}

/// Signatures of both bags, and how many occurrences share a bit of each.
#[derive(Debug)]
pub(super) struct TextSignatures {
    pub(super) characters: Buffer<u32>,
    pub(super) bigrams: Buffer<u32>,
    pub(super) character_excess: Buffer<u32>,
    pub(super) bigram_excess: Buffer<u32>,
}

/// The strings of a side in the order of positions.
#[derive(Debug)]
pub(super) struct TextPositions {
    pub(super) signatures: TextSignatures,
    pub(super) lengths: Buffer<u32>,
    pub(super) groups: Buffer<u32>,
    pub(super) rows: Buffer<u32>,
    pub(super) starts: Buffer<u64>,
    pub(super) summaries: Buffer<TextSummary>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(super) struct TextSides {
    pub(super) probe: TextsOnDevice,
    pub(super) build: TextsOnDevice,
    pub(super) test: EditTest,
    pub(super) decision: EditDecision,
    /// Whether the symbols are bytes.
    pub(super) is_small: bool,
    /// Whether both are one side.
    pub(super) own: bool,
}

impl EditKernels {
    pub(super) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../kernels/ptx/edits.sm80.ptx")
        } else {
            include_str!("../../../kernels/ptx/edits.sm75.ptx")
        };
        let module: Arc<CudaModule> = context.load_module(Ptx::from_src(ptx))?;
        let both = |name: &str| {
            let of = |alphabet: &str| module.load_function(&format!("{name}_{alphabet}"));
            Ok::<_, DriverError>([of("small")?, of("large")?])
        };
        Ok(Self {
            signatures: both("edit_signatures")?,
            gather: module.load_function("edit_gather")?,
            summaries: module.load_function("edit_summaries")?,
            windows: module.load_function("edit_windows")?,
            filter: module.load_function("edit_filter")?,
            verify: [
                both("edit_verify_levenshtein")?,
                both("edit_verify_osa")?,
                both("edit_verify_hamming")?,
                both("edit_verify_jaro")?,
            ],
            blocks: 16 * multiprocessors(context)?,
        })
    }

    /// Signatures, and keys to sort by: the excess of characters or of bigrams is their last part.
    pub(super) fn signatures(
        &self,
        stream: &CudaStream,
        texts: &TextRows,
        signer: &SignerOnDevice,
        by_characters: bool,
        out: &mut TextSignatures,
        (keys, order): (&mut Buffer<u64>, &mut Buffer<u32>),
    ) -> Launched {
        let (no_groups, by_characters) = (0u64, u32::from(by_characters));
        let mut launch = stream.launch_builder(&self.signatures[texts.symbols.alphabet()]);
        launch.arg(&texts.starts.slice);
        match &texts.symbols {
            SymbolBuffer::Small(symbols) => launch.arg(&symbols.slice),
            SymbolBuffer::Large(symbols) => launch.arg(&symbols.slice),
        };
        match &texts.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&texts.count).arg(signer).arg(&by_characters);
        launch.arg(&mut out.characters.slice).arg(&mut out.bigrams.slice);
        launch.arg(&mut out.character_excess.slice).arg(&mut out.bigram_excess.slice);
        launch.arg(&mut keys.slice).arg(&mut order.slice);
        // SAFETY: the arguments are those of edit_signatures_*, 8 rows a block; the addresses are of live tables.
        unsafe { launch.launch(grid(texts.count.div_ceil(8), 256)) }?;
        Ok(())
    }

    /// Columns in the order of `order`, with empty strings up to `padded` positions.
    pub(super) fn gather(
        &self,
        stream: &CudaStream,
        texts: &TextRows,
        signatures: &TextSignatures,
        order: &Buffer<u32>,
        padded: u32,
        out: &mut TextPositions,
    ) -> Launched {
        let no_groups = 0u64;
        let mut launch = stream.launch_builder(&self.gather);
        launch.arg(&order.slice).arg(&texts.count).arg(&padded);
        launch.arg(&signatures.characters.slice).arg(&signatures.bigrams.slice);
        launch.arg(&signatures.character_excess.slice).arg(&signatures.bigram_excess.slice);
        match &texts.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&texts.rows.slice).arg(&texts.starts.slice);
        let to = &mut out.signatures;
        launch.arg(&mut to.characters.slice).arg(&mut to.bigrams.slice);
        launch.arg(&mut to.character_excess.slice).arg(&mut to.bigram_excess.slice);
        launch.arg(&mut out.lengths.slice).arg(&mut out.groups.slice);
        launch.arg(&mut out.rows.slice).arg(&mut out.starts.slice);
        // SAFETY: the arguments are those of edit_gather; every output has `padded` positions.
        unsafe { launch.launch(grid_of_items(u64::from(padded) * 8, 256)) }?;
        Ok(())
    }

    /// What the strings of each block of positions have in common.
    pub(super) fn summaries(&self, stream: &CudaStream, columns: &mut TextPositions, count: u32) -> Launched {
        let mut launch = stream.launch_builder(&self.summaries);
        launch.arg(&columns.lengths.slice).arg(&columns.signatures.character_excess.slice);
        launch.arg(&columns.signatures.bigram_excess.slice).arg(&columns.groups.slice).arg(&count);
        launch.arg(&mut columns.summaries.slice);
        // SAFETY: the arguments are those of edit_summaries, a thread a block of 64 positions.
        unsafe { launch.launch(grid(count.div_ceil(64 * 128), 128)) }?;
        Ok(())
    }

    /// The first and one past the last build block for each of `blocks` probe blocks.
    pub(super) fn windows(
        &self,
        stream: &CudaStream,
        sides: &TextSides,
        blocks: u32,
        firsts: &mut Buffer<u32>,
        ends: &mut Buffer<u32>,
    ) -> Launched {
        let (own, first) = (u32::from(sides.own), 0u32);
        let mut launch = stream.launch_builder(&self.windows);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test).arg(&first).arg(&blocks).arg(&own);
        launch.arg(&mut firsts.slice).arg(&mut ends.slice);
        // SAFETY: the arguments are those of edit_windows, a thread a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(128), 128)) }?;
        Ok(())
    }

    /// Appends the positions of pairs whose signatures allow a match, for the probe positions `range`.
    pub(super) fn filter(
        &self,
        stream: &CudaStream,
        sides: &TextSides,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let own = u32::from(sides.own);
        let mut launch = stream.launch_builder(&self.filter);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test).arg(&tasks.slice).arg(&own);
        launch.arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of edit_filter, a block of threads a task; the addresses are of live columns.
        unsafe { launch.launch(grid(count, 128)) }?;
        Ok(())
    }

    /// Appends the row numbers of the candidates that match.
    pub(super) fn verify(
        &self,
        stream: &CudaStream,
        sides: &TextSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let kernel = &self.verify[sides.decision as usize][usize::from(!sides.is_small)];
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.test);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of edit_verify_*, whose threads share whatever number of candidates there is; both
        // sides' symbols are of the kernel's size.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }
}

fn multiprocessors(context: &Arc<CudaContext>) -> Result<u32, DriverError> {
    let count = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok(count.max(1) as u32)
}

/// So many blocks of so many threads; a grid is never empty.
fn grid(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks.max(1), 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}

/// Enough threads for so many items, up to a bound beyond which each takes several.
fn grid_of_items(items: u64, threads: u32) -> LaunchConfig {
    grid(items.div_ceil(u64::from(threads)).min(1 << 16) as u32, threads)
}
