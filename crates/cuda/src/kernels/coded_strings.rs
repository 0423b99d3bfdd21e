//! Launches of the kernels of `coded_strings.cu`.

use cudarc::driver::{CudaStream, DriverError};

use super::generated::arrow_strings::ArrowStrings as ArrowStringsOnDevice;
use super::generated::coded_strings::Kernels;
use super::generated::constants::coded_strings::SCALARS;
use super::grid::{Grid, Launched};
use super::strings::SymbolBuffer;
use crate::buffer::Buffer;
use crate::context::DeviceContext;
use crate::replicate::replicate;

/// The kernels of `coded_strings.cu`.
pub(crate) struct CodedStringKernels {
    kernels: Kernels,
}

/// Words of 32 bits that have a bit for each scalar value of Unicode.
pub(crate) const SCALAR_WORDS: usize = SCALARS as usize / 32;

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

/// The codes of all strings, and where those of each start.
#[derive(Debug)]
pub(crate) struct StringSymbols {
    pub(crate) starts: Buffer<u64>,
    pub(crate) symbols: SymbolBuffer,
}

replicate!(StringFeatures { lengths, signatures, classes });
replicate!(StringSymbols { starts, symbols });

impl CodedStringKernels {
    pub(crate) fn load(context: &DeviceContext) -> Result<Self, DriverError> {
        Ok(Self { kernels: Kernels::load(context)? })
    }

    /// Reads all strings of up to `most` characters; `occurs`, where it is there, gets a bit for each character,
    /// `numbers` the characters of all of them, and how many strings are longer.
    pub(crate) fn features(
        &self,
        stream: &CudaStream,
        strings: ArrowStringsOnDevice,
        most: u32,
        out: &mut StringFeatures,
        occurs: Option<&mut Buffer<u32>>,
        numbers: &mut Buffer<u64>,
    ) -> Launched {
        // SAFETY: the columns have an entry a row, `occurs` a bit for each scalar value.
        unsafe {
            self.kernels.text_features(
                stream,
                Grid::Threads(strings.count),
                strings,
                most,
                out.lengths.address_mut(stream),
                out.signatures.address_mut(stream),
                out.classes.address_mut(stream),
                occurs.map(|occurs| occurs.address_mut(stream)),
                numbers.address_mut(stream),
            )
        }
    }

    /// Adds what the views of a column say to the fingerprints of all rows. Other launches may add to them at the same
    /// time.
    pub(crate) fn prints(
        &self,
        stream: &CudaStream,
        strings: ArrowStringsOnDevice,
        column: u64,
        prints: &Buffer<u64>,
    ) -> Launched {
        let prints = prints.address(stream).as_mut();
        // SAFETY: there is a fingerprint a row, and other launches add to it as this one does.
        unsafe { self.kernels.text_prints(stream, Grid::Threads(strings.count), strings, column, prints) }
    }

    /// Writes the codes of all strings and where those of each start.
    pub(crate) fn symbols(
        &self,
        stream: &CudaStream,
        strings: ArrowStringsOnDevice,
        lengths: &Buffer<u32>,
        CodesOnDevice { codes, last }: CodesOnDevice<'_>,
        used: &mut Buffer<u64>,
        out: &mut StringSymbols,
    ) -> Launched {
        let (kernels, grid) = (&self.kernels, Grid::Threads(strings.count));
        let (lengths, codes) = (lengths.address(stream), codes.address(stream));
        let (used, starts) = (used.address_mut(stream), out.starts.address_mut(stream));
        match &mut out.symbols {
            SymbolBuffer::Small(symbols) => {
                let symbols = symbols.address_mut(stream);
                // SAFETY: `symbols` has room for all characters, the columns an entry a row.
                unsafe {
                    kernels.text_symbols_small(stream, grid, strings, lengths, codes, last, used, starts, symbols)
                }
            }
            SymbolBuffer::Large(symbols) => {
                let symbols = symbols.address_mut(stream);
                // SAFETY: as above.
                unsafe {
                    kernels.text_symbols_large(stream, grid, strings, lengths, codes, last, used, starts, symbols)
                }
            }
        }
    }
}
