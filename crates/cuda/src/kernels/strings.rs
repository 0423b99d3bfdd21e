//! The kernels of `strings.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DeviceRepr, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{Appended, Launched, Task, grid, grid_of_items, multiprocessors};
use crate::memory::Buffer;

/// The kernels of `strings.cu`.
pub(crate) struct StringKernels {
    /// For small and for large alphabets.
    signatures: [CudaFunction; 2],
    gather: CudaFunction,
    summaries: CudaFunction,
    windows: CudaFunction,
    filter: CudaFunction,
    /// Kernels for each [`EditDecision`], and small and large alphabets.
    verify: [[CudaFunction; 2]; 4],
    /// Blocks of threads that fill the device, for kernels whose threads share an unknown amount of work.
    blocks: u32,
}

/// What decides an edit condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditDecision {
    Levenshtein,
    Osa,
    Hamming,
    Jaro,
}

/// `Texts` of `strings.cu`: the columns of one side, as addresses.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct CodedStringsOnDevice {
    pub(crate) characters: u64,
    pub(crate) bigrams: u64,
    pub(crate) character_excess: u64,
    pub(crate) bigram_excess: u64,
    pub(crate) lengths: u64,
    pub(crate) prefixes: u64,
    pub(crate) groups: u64,
    pub(crate) rows: u64,
    pub(crate) starts: u64,
    pub(crate) symbols: u64,
    pub(crate) summaries: u64,
    pub(crate) count: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in strings.cu.
unsafe impl DeviceRepr for CodedStringsOnDevice {}

/// `EditCondition` of `measure/edit_measure.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct EditCondition {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) jaro: [f64; 5],
    /// The address of a [`Reach`] for each length.
    pub(crate) reach: u64,
    pub(crate) measure: u32,
    pub(crate) lower_inclusive: u32,
    pub(crate) upper_inclusive: u32,
    pub(crate) unused: u32,
}

// SAFETY: the layout is that of the structure in edit_measure.cuh.
unsafe impl DeviceRepr for EditCondition {}

/// `Reach` of `measure/edit_measure.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Reach {
    pub(crate) shortest: u32,
    pub(crate) longest: u32,
    pub(crate) edits: u32,
    pub(crate) characters: u32,
    pub(crate) bigrams: u32,
}

// SAFETY: the layout is that of the structure in edit_measure.cuh.
unsafe impl DeviceRepr for Reach {}

/// `Signer` of `strings.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SignerOnDevice {
    pub(crate) scalars: u64,
    pub(crate) character_bits: u64,
    pub(crate) bigram_bits: u64,
}

// SAFETY: the layout is that of the structure in strings.cu.
unsafe impl DeviceRepr for SignerOnDevice {}

/// `Summary` of `strings.cu`: ten numbers.
pub(crate) type TextSummary = [u32; 10];

/// Codes of characters, one a byte or four bytes each.
#[derive(Debug)]
pub(crate) enum SymbolBuffer {
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

    /// Address of the symbols, see [`Buffer::address`].
    pub(crate) fn address(&self, stream: &CudaStream) -> u64 {
        match self {
            Self::Small(symbols) => symbols.address(stream),
            Self::Large(symbols) => symbols.address(stream),
        }
    }
}

/// The strings of a side in the order of its rows.
pub(crate) struct TextRows {
    pub(crate) starts: Buffer<u64>,
    pub(crate) symbols: SymbolBuffer,
    /// None where all rows are of one group.
    pub(crate) groups: Option<Buffer<u32>>,
    /// The row numbers.
    pub(crate) rows: Buffer<u32>,
    pub(crate) count: u32,
}

/// Signatures of both bags, and how many occurrences share a bit of each.
#[derive(Debug)]
pub(crate) struct TextSignatures {
    pub(crate) characters: Buffer<u32>,
    pub(crate) bigrams: Buffer<u32>,
    pub(crate) character_excess: Buffer<u32>,
    pub(crate) bigram_excess: Buffer<u32>,
    /// The first symbols.
    pub(crate) prefixes: Buffer<u32>,
}

/// The strings of a side in the order of positions.
#[derive(Debug)]
pub(crate) struct TextPositions {
    pub(crate) signatures: TextSignatures,
    pub(crate) lengths: Buffer<u32>,
    pub(crate) groups: Buffer<u32>,
    pub(crate) rows: Buffer<u32>,
    pub(crate) starts: Buffer<u64>,
    pub(crate) summaries: Buffer<TextSummary>,
}

/// Two sides, and the condition.
#[derive(Clone, Copy)]
pub(crate) struct TextSides {
    pub(crate) probe: CodedStringsOnDevice,
    pub(crate) build: CodedStringsOnDevice,
    pub(crate) condition: EditCondition,
    pub(crate) decision: EditDecision,
    /// Whether the symbols are bytes.
    pub(crate) is_small: bool,
    /// Whether both are one side.
    pub(crate) self_join: bool,
}

impl StringKernels {
    pub(crate) fn load(context: &Arc<CudaContext>, tensor_cores: bool) -> Result<Self, DriverError> {
        let ptx = if tensor_cores {
            include_str!("../../../../kernels/ptx/strings.sm80.ptx")
        } else {
            include_str!("../../../../kernels/ptx/strings.sm75.ptx")
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
    pub(crate) fn signatures(
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
        launch.arg(&mut out.prefixes.slice).arg(&mut keys.slice).arg(&mut order.slice);
        // SAFETY: the arguments are those of edit_signatures_*, 8 rows a block; the addresses are of live tables.
        unsafe { launch.launch(grid(texts.count.div_ceil(8), 256)) }?;
        Ok(())
    }

    /// Columns in the order of `order`, with empty strings up to `padded` positions.
    pub(crate) fn gather(
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
        launch.arg(&signatures.prefixes.slice);
        match &texts.groups {
            Some(groups) => launch.arg(&groups.slice),
            None => launch.arg(&no_groups),
        };
        launch.arg(&texts.rows.slice).arg(&texts.starts.slice);
        let to = &mut out.signatures;
        launch.arg(&mut to.characters.slice).arg(&mut to.bigrams.slice);
        launch.arg(&mut to.character_excess.slice).arg(&mut to.bigram_excess.slice);
        launch.arg(&mut to.prefixes.slice).arg(&mut out.lengths.slice).arg(&mut out.groups.slice);
        launch.arg(&mut out.rows.slice).arg(&mut out.starts.slice);
        // SAFETY: the arguments are those of edit_gather; every output has `padded` positions.
        unsafe { launch.launch(grid_of_items(u64::from(padded) * 8, 256)) }?;
        Ok(())
    }

    /// What the strings of each block of positions have in common.
    pub(crate) fn summaries(&self, stream: &CudaStream, columns: &mut TextPositions, count: u32) -> Launched {
        let mut launch = stream.launch_builder(&self.summaries);
        launch.arg(&columns.lengths.slice).arg(&columns.signatures.character_excess.slice);
        launch.arg(&columns.signatures.bigram_excess.slice).arg(&columns.groups.slice).arg(&count);
        launch.arg(&mut columns.summaries.slice);
        // SAFETY: the arguments are those of edit_summaries, a thread a block of 64 positions.
        unsafe { launch.launch(grid(count.div_ceil(64 * 128), 128)) }?;
        Ok(())
    }

    /// The first and one past the last build block for each of `blocks` probe blocks.
    pub(crate) fn windows(
        &self,
        stream: &CudaStream,
        sides: &TextSides,
        blocks: u32,
        firsts: &mut Buffer<u32>,
        ends: &mut Buffer<u32>,
    ) -> Launched {
        let (self_join, first) = (u32::from(sides.self_join), 0u32);
        let mut launch = stream.launch_builder(&self.windows);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&first).arg(&blocks).arg(&self_join);
        launch.arg(&mut firsts.slice).arg(&mut ends.slice);
        // SAFETY: the arguments are those of edit_windows, a thread a block; the addresses are of live columns.
        unsafe { launch.launch(grid(blocks.div_ceil(128), 128)) }?;
        Ok(())
    }

    /// Appends the positions of pairs whose signatures allow a match, for the probe positions `range`.
    pub(crate) fn filter(
        &self,
        stream: &CudaStream,
        sides: &TextSides,
        (tasks, count): (&Buffer<Task>, u32),
        range: (u32, u32),
        out: &mut Appended<'_>,
    ) -> Launched {
        let self_join = u32::from(sides.self_join);
        let mut launch = stream.launch_builder(&self.filter);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition).arg(&tasks.slice).arg(&self_join);
        launch.arg(&range.0).arg(&range.1);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of edit_filter, a block of threads a task; the addresses are of live columns.
        unsafe { launch.launch(grid(count, 128)) }?;
        Ok(())
    }

    /// Appends the row numbers of the candidates that match.
    pub(crate) fn verify(
        &self,
        stream: &CudaStream,
        sides: &TextSides,
        candidates: &Appended<'_>,
        out: &mut Appended<'_>,
    ) -> Launched {
        let kernel = &self.verify[sides.decision as usize][usize::from(!sides.is_small)];
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&sides.probe).arg(&sides.build).arg(&sides.condition);
        launch.arg(&candidates.pairs.slice).arg(&candidates.count.slice).arg(&candidates.capacity);
        launch.arg(&mut out.pairs.slice).arg(&mut out.count.slice).arg(&out.capacity);
        // SAFETY: the arguments are those of edit_verify_*, whose threads share whatever number of candidates there is;
        // both sides' symbols are of the kernel's size.
        unsafe { launch.launch(grid(self.blocks, 128)) }?;
        Ok(())
    }
}
