//! What one side has for each atom, by row.

use std::any::Any;
use std::sync::Arc;

use arrow::array::StringViewArray;
use arrow::buffer::BooleanBuffer;
use cudarc::driver::CudaStream;

use crate::buffer::Buffer;
use crate::coded_strings::{CodedStrings, PrintedAs, are_few};
use crate::equality::NumbersOnDevice;
use crate::fault::Fault;
use crate::kernels::{NearOnDevice, RuleSets, RuleTexts, RuleVectors, SpanOnDevice, UNKNOWN_VECTOR, spans};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate, replicate};
use crate::strings::LONGEST;
use crate::wait::wait;
use similarity_engine::accelerator::rules::DeviceColumns;
use similarity_engine::atoms::{AtomRows, BandColumn, PrefilterRows, RuleRows};
use similarity_engine::equality::Codes;
use similarity_engine::parallel::in_turn;

/// The columns of a side on a device.
#[derive(Debug)]
pub struct ColumnsOnDevice {
    /// Columns by atom; [`AtomOnDevice::None`] for atoms that are not asked on the device.
    pub(super) atoms: Vec<AtomOnDevice>,
    /// Codes of an equality over the same strings, by atom.
    pub(super) codes: Vec<Option<Codes>>,
}

impl Replicate for ColumnsOnDevice {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        let mut copies: Vec<AtomOnDevice> = Vec::with_capacity(self.atoms.len());
        for atom in &self.atoms {
            // atoms over the same column share one copy, too
            let shared = self.atoms.iter().zip(&copies).find_map(|(before, copy)| atom.shared(before, copy));
            copies.push(match shared {
                Some(copy) => copy,
                None => atom.replicate(to)?,
            });
        }
        Ok(Self { atoms: copies, codes: self.codes.iter().map(|_| None).collect() })
    }
}

impl DeviceColumns for ColumnsOnDevice {
    fn has_unknown(&self) -> bool {
        self.atoms.iter().any(AtomOnDevice::has_unknown)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What is brought for an atom.
struct Brought {
    column: AtomOnDevice,
    codes: Option<Codes>,
}

impl From<AtomOnDevice> for Brought {
    fn from(column: AtomOnDevice) -> Self {
        Self { column, codes: None }
    }
}

/// What a side has for an atom, on a device.
#[derive(Debug)]
pub(super) enum AtomOnDevice {
    Codes(Arc<NumbersOnDevice>),
    Band {
        places: Buffer<SpanOnDevice>,
        accepted: Buffer<SpanOnDevice>,
    },
    /// A byte a row of one side.
    Bits(Buffer<u8>),
    /// A byte a row of either side.
    EitherBits(Buffer<u8>),
    /// Strings in the codes of the build side.
    Texts(Arc<CodedStrings>),
    Sets(Arc<Sets>),
    Vectors(Arc<VectorRows>),
    None,
}

impl AtomOnDevice {
    /// Whether some rows have a value that no kernel takes.
    pub(super) fn has_unknown(&self) -> bool {
        match self {
            Self::Texts(texts) => texts.has_unknown,
            Self::Vectors(vectors) => vectors.has_unknown,
            Self::Codes(_) | Self::Band { .. } | Self::Bits(_) | Self::EitherBits(_) | Self::Sets(_) | Self::None => {
                false
            }
        }
    }

    /// The `copy` of another atom, where this one has the same column.
    fn shared(&self, other: &Self, copy: &Self) -> Option<Self> {
        match (self, other, copy) {
            (Self::Codes(own), Self::Codes(other), Self::Codes(copy)) if Arc::ptr_eq(own, other) => {
                Some(Self::Codes(Arc::clone(copy)))
            }
            (Self::Texts(own), Self::Texts(other), Self::Texts(copy)) if Arc::ptr_eq(own, other) => {
                Some(Self::Texts(Arc::clone(copy)))
            }
            (Self::Sets(own), Self::Sets(other), Self::Sets(copy)) if Arc::ptr_eq(own, other) => {
                Some(Self::Sets(Arc::clone(copy)))
            }
            (Self::Vectors(own), Self::Vectors(other), Self::Vectors(copy)) if Arc::ptr_eq(own, other) => {
                Some(Self::Vectors(Arc::clone(copy)))
            }
            _ => None,
        }
    }
}

impl Replicate for AtomOnDevice {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        Ok(match self {
            Self::Codes(codes) => Self::Codes(codes.replicate(to)?),
            Self::Band { places, accepted } => {
                Self::Band { places: places.replicate(to)?, accepted: accepted.replicate(to)? }
            }
            Self::Bits(bits) => Self::Bits(bits.replicate(to)?),
            Self::EitherBits(bits) => Self::EitherBits(bits.replicate(to)?),
            Self::Texts(texts) => Self::Texts(texts.replicate(to)?),
            Self::Sets(sets) => Self::Sets(sets.replicate(to)?),
            Self::Vectors(vectors) => Self::Vectors(vectors.replicate(to)?),
            Self::None => Self::None,
        })
    }
}

replicate!(Near { signatures, classes });
replicate!(Sets { near, starts, ranks, sizes });
replicate!(VectorRows { values, has; same dimension, has_unknown });

#[derive(Debug)]
struct Near {
    signatures: Buffer<u64>,
    classes: Buffer<u8>,
}

/// Sets, as ranks of tokens.
#[derive(Debug)]
pub(super) struct Sets {
    near: Near,
    starts: Buffer<u64>,
    ranks: Buffer<u32>,
    sizes: Buffer<u32>,
}

/// Strings as a step compares them.
pub(super) fn texts_on_device(texts: &CodedStrings, stream: &CudaStream) -> RuleTexts {
    RuleTexts {
        near: NearOnDevice {
            signatures: texts.features.signatures.address(stream),
            classes: texts.features.classes.address(stream),
        },
        starts: texts.symbols.starts.address(stream),
        lengths: texts.features.lengths.address(stream),
        symbols: texts.symbols.symbols.address(stream),
    }
}

impl Sets {
    pub(super) fn on_device(&self, stream: &CudaStream) -> RuleSets {
        RuleSets {
            near: NearOnDevice {
                signatures: self.near.signatures.address(stream),
                classes: self.near.classes.address(stream),
            },
            starts: self.starts.address(stream),
            ranks: self.ranks.address(stream),
            sizes: self.sizes.address(stream),
        }
    }
}

/// Vectors, as the query has them.
#[derive(Debug)]
pub(super) struct VectorRows {
    values: Buffer<f64>,
    /// Whether a row has a vector, none of whose elements is NULL.
    has: Buffer<u8>,
    /// Numbers a vector; 0 where there is none.
    pub(super) dimension: usize,
    /// Whether some rows are unknown: their numbers are too large or too small.
    has_unknown: bool,
}

impl VectorRows {
    pub(super) fn on_device(&self, stream: &CudaStream) -> RuleVectors {
        RuleVectors { values: self.values.address(stream), has: self.has.address(stream) }
    }
}

/// Whether neither the square of a number overflows nor that of one beside 0 vanishes, so that no score is NaN.
fn is_tame(x: f64) -> bool {
    x == 0.0 || (1e-140..1e140).contains(&x.abs())
}

/// Where columns are copied to.
pub(super) struct Uploading<'a> {
    pub(super) budget: &'a Budget,
    pub(super) stream: &'a Arc<CudaStream>,
    pub(super) threads: usize,
    /// Fingerprints of rows, to which strings are added.
    pub(super) prints: Option<&'a Buffer<u64>>,
}

impl Uploading<'_> {
    /// The columns of the atoms that are `asked`; with those of a `build` side strings become codes of its alphabets.
    /// Of a build side also the codes of `equalities` over the strings of some atoms, whose NULLs are said to be equal
    /// or not. `None` where many strings are too long, or many numbers too large or too small.
    pub(super) fn columns(
        &self,
        rows: &dyn RuleRows,
        (asked, equalities): (&[bool], &[Option<bool>]),
        build: Option<&ColumnsOnDevice>,
    ) -> Result<Option<ColumnsOnDevice>, Fault> {
        // a column is brought once, for the first of the atoms that read it
        let first = |atom: usize| {
            let of_key = rows.first_of_key(atom);
            (of_key..=atom).find(|&other| asked[other] && rows.first_of_key(other) == of_key).unwrap_or(atom)
        };
        let is_brought = |atom: usize| asked[atom] && first(atom) == atom;
        let brought = in_turn(asked.len(), self.threads, |atom| {
            if !is_brought(atom) {
                return Ok(Ok(Some(AtomOnDevice::None.into())));
            }
            let number = (0..atom).filter(|&before| is_brought(before)).count() as u64;
            let prints = self.prints.map(|prints| PrintedAs { prints, column: number });
            Ok(match (rows.of(atom), equalities.get(atom).copied().flatten()) {
                (AtomRows::Strings { values }, Some(null_equals_null)) => {
                    self.texts_with_codes(values, null_equals_null, prints)
                }
                (rows, _) => {
                    let column = self.column(rows, build.map(|build| &build.atoms[atom]), prints);
                    column.map(|column| column.map(Brought::from))
                }
            })
        })?;
        let mut columns = ColumnsOnDevice { atoms: Vec::with_capacity(asked.len()), codes: Vec::new() };
        for (atom, brought) in brought.into_iter().enumerate() {
            let Some(Brought { column, codes }) = brought? else { return Ok(None) };
            columns.codes.push(codes);
            let column = match (asked[atom], columns.atoms.get(first(atom))) {
                (true, Some(AtomOnDevice::Texts(texts))) => AtomOnDevice::Texts(Arc::clone(texts)),
                (true, Some(AtomOnDevice::Sets(sets))) => AtomOnDevice::Sets(Arc::clone(sets)),
                (true, Some(AtomOnDevice::Vectors(vectors))) => AtomOnDevice::Vectors(Arc::clone(vectors)),
                _ => column,
            };
            columns.atoms.push(column);
        }
        wait(self.stream)?;
        Ok(Some(columns))
    }

    fn texts_with_codes(
        &self,
        values: &StringViewArray,
        null_equals_null: bool,
        prints: Option<PrintedAs<'_>>,
    ) -> Result<Option<Brought>, Fault> {
        let brought = CodedStrings::with_codes(self.budget, values, LONGEST as u32, null_equals_null, prints)?;
        Ok(brought.map(|(texts, codes)| Brought { column: AtomOnDevice::Texts(Arc::new(texts)), codes }))
    }

    fn upload<T: cudarc::driver::DeviceRepr + Sync>(&self, values: &[T]) -> Result<Buffer<T>, Fault> {
        self.budget.upload(self.stream, values)
    }

    /// A byte for each bit.
    fn bytes(&self, bits: &BooleanBuffer) -> Result<Buffer<u8>, Fault> {
        self.upload(&bits.iter().map(u8::from).collect::<Vec<u8>>())
    }

    fn near(&self, near: &PrefilterRows) -> Result<Near, Fault> {
        Ok(Near { signatures: self.upload(&near.signatures)?, classes: self.upload(&near.classes)? })
    }

    fn column(
        &self,
        rows: AtomRows<'_>,
        build: Option<&AtomOnDevice>,
        prints: Option<PrintedAs<'_>>,
    ) -> Result<Option<AtomOnDevice>, Fault> {
        Ok(Some(match rows {
            AtomRows::Codes(codes) => AtomOnDevice::Codes(NumbersOnDevice::of(self.budget, self.stream, codes)?),
            AtomRows::Band(BandColumn { places, accepted }) => {
                AtomOnDevice::Band { places: self.upload(spans(places))?, accepted: self.upload(spans(accepted))? }
            }
            AtomRows::Bits(bits) => AtomOnDevice::Bits(self.bytes(bits)?),
            AtomRows::EitherBits(bits) => AtomOnDevice::EitherBits(self.bytes(bits)?),
            AtomRows::Strings { values } => {
                let codes = match build {
                    Some(AtomOnDevice::Texts(texts)) => Some(&texts.codes),
                    _ => None,
                };
                match CodedStrings::try_new(self.budget, values, codes, LONGEST as u32, prints)? {
                    Some(texts) => AtomOnDevice::Texts(Arc::new(texts)),
                    None => return Ok(None),
                }
            }
            AtomRows::Sets { near, starts, ranks, sizes } => {
                let (near, starts) = (self.near(&near)?, self.upload(&starts)?);
                let (ranks, sizes) = (self.upload(ranks)?, self.upload(&sizes)?);
                AtomOnDevice::Sets(Arc::new(Sets { near, starts, ranks, sizes }))
            }
            AtomRows::Vectors { vectors, dimension } => {
                let dimension = dimension.unwrap_or(0);
                let rows: Vec<Option<&[f64]>> = (0..vectors.len()).map(|row| vectors.at(row)).collect();
                let has = |row: &Option<&[f64]>| match row {
                    None => 0,
                    Some(vector) if vector.iter().all(|&x| is_tame(x)) => 1,
                    Some(_) => UNKNOWN_VECTOR,
                };
                let has: Vec<u8> = rows.iter().map(has).collect();
                let unknown = has.iter().filter(|&&has| has == UNKNOWN_VECTOR).count();
                if !are_few(unknown, rows.len()) {
                    return Ok(None);
                }
                let values = match vectors.matrix(dimension) {
                    Some(matrix) => self.upload(matrix)?,
                    None => {
                        let none = vec![0.0; dimension];
                        let packed: Vec<f64> = rows.iter().flat_map(|row| row.unwrap_or(&none)).copied().collect();
                        self.upload(&packed)?
                    }
                };
                let (has, has_unknown) = (self.upload(&has)?, unknown > 0);
                AtomOnDevice::Vectors(Arc::new(VectorRows { values, has, dimension, has_unknown }))
            }
            AtomRows::None => AtomOnDevice::None,
        }))
    }
}
