//! The kernels of `coded_strings.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, PushKernelArg};
use cudarc::nvrtc::Ptx;

use super::{ArrowStringsOnDevice, Launched, SymbolBuffer, grid};
use crate::memory::Buffer;

/// The kernels of `coded_strings.cu`.
pub(crate) struct CodedStringKernels {
    features: CudaFunction,
    prints: CudaFunction,
    /// Kernels for small and large alphabets.
    symbols: [CudaFunction; 2],
}

/// Threads of a block of `coded_strings.cu`, one a row.
const THREADS: u32 = 256;

/// Words of 32 bits that have a bit for each scalar value of Unicode.
pub(crate) const SCALAR_WORDS: usize = 0x11_0000 / 32;

/// What is read of each string of a column.
#[derive(Debug)]
pub(crate) struct StringFeatures {
    /// In characters.
    pub(crate) lengths: Buffer<u32>,
    pub(crate) signatures: Buffer<u64>,
    pub(crate) classes: Buffer<u8>,
}

/// Codes by scalar value, for values below `last`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodesOnDevice<'a> {
    pub(crate) codes: &'a Buffer<u32>,
    pub(crate) last: u32,
}

impl CodedStringKernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        let module =
            context.load_module(Ptx::from_src(include_str!("../../../../kernels/ptx/coded_strings.sm75.ptx")))?;
        let symbols = |alphabet: &str| module.load_function(&format!("text_symbols_{alphabet}"));
        Ok(Self {
            features: module.load_function("text_features")?,
            prints: module.load_function("text_prints")?,
            symbols: [symbols("small")?, symbols("large")?],
        })
    }

    /// Reads all strings; `occurs`, where it is there, gets a bit for each character, `numbers` the characters of all
    /// strings and of the longest one.
    pub(crate) fn features(
        &self,
        stream: &CudaStream,
        (strings, most): (&ArrowStringsOnDevice, u32),
        features: &mut StringFeatures,
        occurs: Option<&mut Buffer<u32>>,
        numbers: &mut Buffer<u64>,
    ) -> Launched {
        let occurs = occurs.map_or(0, |occurs| occurs.address(stream));
        let StringFeatures { lengths, signatures, classes } = features;
        let mut launch = stream.launch_builder(&self.features);
        launch.arg(strings).arg(&most).arg(&mut lengths.slice).arg(&mut signatures.slice).arg(&mut classes.slice);
        launch.arg(&occurs).arg(&mut numbers.slice);
        // SAFETY: the arguments are those of text_features; the columns have an entry a row, `occurs` a bit for each
        // scalar value.
        unsafe { launch.launch(grid(strings.count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }

    /// Adds what the views of a column say to the fingerprints of all rows.
    pub(crate) fn prints(
        &self,
        stream: &CudaStream,
        strings: &ArrowStringsOnDevice,
        column: u64,
        prints: &Buffer<u64>,
    ) -> Launched {
        let mut launch = stream.launch_builder(&self.prints);
        launch.arg(strings).arg(&column).arg(&prints.slice);
        // SAFETY: the arguments are those of text_prints; there is a fingerprint a row, and other launches add to it as
        // this one does.
        unsafe { launch.launch(grid(strings.count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }

    /// Writes the codes of all strings and where those of each start.
    pub(crate) fn symbols(
        &self,
        stream: &CudaStream,
        (strings, lengths): (&ArrowStringsOnDevice, &Buffer<u32>),
        CodesOnDevice { codes, last }: CodesOnDevice<'_>,
        used: &mut Buffer<u64>,
        (starts, symbols): (&mut Buffer<u64>, &mut SymbolBuffer),
    ) -> Launched {
        let [small, large] = &self.symbols;
        let mut launch = stream.launch_builder(if matches!(symbols, SymbolBuffer::Small(_)) { small } else { large });
        launch.arg(strings).arg(&lengths.slice).arg(&codes.slice).arg(&last).arg(&mut used.slice);
        launch.arg(&mut starts.slice);
        match symbols {
            SymbolBuffer::Small(symbols) => launch.arg(&mut symbols.slice),
            SymbolBuffer::Large(symbols) => launch.arg(&mut symbols.slice),
        };
        // SAFETY: the arguments are those of text_symbols_*; `symbols` has room for all characters, the columns an
        // entry a row.
        unsafe { launch.launch(grid(strings.count.div_ceil(THREADS), THREADS)) }?;
        Ok(())
    }
}
