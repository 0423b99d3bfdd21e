//! Strings on a device, as kernels compare them.

use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use cudarc::driver::CudaStream;

use super::arrow_strings::{ArrowStrings, has_many_bytes};
use super::buffer::Buffer;
use super::equality::codes_of_strings;
use super::fault::Fault;
use super::kernels::{CodesOnDevice, SCALAR_WORDS, StringFeatures, StringSymbols, SymbolBuffer};
use super::memory::Budget;
use super::replicate::replicate;
use super::wait::wait;
use similarity_engine::equality;

/// A code for each character of a build side, from 1 on in the order of the characters; 0 is any character that it
/// lacks.
#[derive(Debug)]
pub(super) struct Codes {
    codes: Buffer<u32>,
    last: u32,
    /// Whether a byte holds every code.
    pub(super) is_small: bool,
}

impl Codes {
    /// Codes of the characters that have a bit in `occurs`.
    fn of(budget: &Budget, stream: &Arc<CudaStream>, occurs: &[u32]) -> Result<Self, Fault> {
        let (mut codes, mut count) = (Vec::new(), 0);
        for (word, &bits) in occurs.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            for bit in (0..u32::BITS).filter(|bit| bits >> bit & 1 == 1) {
                count += 1;
                codes.resize(word * u32::BITS as usize + bit as usize, 0);
                codes.push(count);
            }
        }
        Ok(Self { codes: budget.upload(stream, &codes)?, last: codes.len() as u32, is_small: count < 256 })
    }
}

/// Strings as codes, with what the first filter reads of each.
#[derive(Debug)]
pub(super) struct CodedStrings {
    pub(super) features: StringFeatures,
    pub(super) symbols: StringSymbols,
    pub(super) codes: Arc<Codes>,
    /// Whether some rows are unknown: their strings are too long.
    pub(super) has_unknown: bool,
}

/// Number of rows of a column to each that may be unknown. The host decides their pairs, so few are worth it.
const ROWS_TO_AN_UNKNOWN: usize = 16;

/// Whether a column with so many unknown rows is brought.
pub(super) fn are_few(unknown: usize, rows: usize) -> bool {
    unknown <= rows / ROWS_TO_AN_UNKNOWN
}

replicate!(CodedStrings { features, symbols, codes; same has_unknown });
replicate!(Codes { codes; same last, is_small });

impl CodedStrings {
    /// The strings of a column by the codes of a build side, or else by codes of their own. Those of more than
    /// `longest` characters are unknown; `None` where these are many. Adds strings to fingerprints, where some are
    /// made.
    pub(super) fn try_new(
        budget: &Budget,
        values: &StringViewArray,
        build: Option<&Arc<Codes>>,
        longest: u32,
        prints: Option<PrintedAs<'_>>,
    ) -> Result<Option<Self>, Fault> {
        if has_many_long(values, longest) {
            return Ok(None);
        }
        let stream = &budget.device.stream()?;
        let strings = ArrowStrings::upload(budget, stream, values)?;
        print(budget, stream, &strings, prints)?;
        Self::of(budget, stream, (&strings, values.len()), build, longest)
    }

    /// Strings in codes of their own, with the codes of an equality over the same strings, where the device can tell
    /// these apart.
    pub(super) fn with_codes(
        budget: &Budget,
        values: &StringViewArray,
        longest: u32,
        null_equals_null: bool,
        prints: Option<PrintedAs<'_>>,
    ) -> Result<Option<(Self, Option<equality::Codes>)>, Fault> {
        if has_many_long(values, longest) {
            return Ok(None);
        }
        let (stream, rows) = (&budget.device.stream()?, values.len());
        let strings = ArrowStrings::upload(budget, stream, values)?;
        print(budget, stream, &strings, prints)?;
        let Some(texts) = Self::of(budget, stream, (&strings, rows), None, longest)? else { return Ok(None) };
        Ok(Some((texts, codes_of_strings(budget, stream, (&strings, values), null_equals_null)?)))
    }

    fn of(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        (strings, rows): (&ArrowStrings, usize),
        build: Option<&Arc<Codes>>,
        longest: u32,
    ) -> Result<Option<Self>, Fault> {
        let kernels = budget.device.kernels().coded_strings()?;
        let on_device = strings.on_device(stream);
        let mut features = StringFeatures {
            lengths: budget.buffer(stream, rows)?,
            signatures: budget.buffer(stream, rows)?,
            classes: budget.buffer(stream, rows)?,
        };
        let mut occurs = build.is_none().then(|| budget.zeros(stream, SCALAR_WORDS)).transpose()?;
        let mut numbers = budget.zeros(stream, 2)?;
        kernels.features(stream, on_device, longest, &mut features, occurs.as_mut(), &mut numbers)?;
        let mut counted = [0; 2];
        budget.download(stream, &numbers, &mut counted)?;
        let mut characters = vec![0; if occurs.is_some() { SCALAR_WORDS } else { 0 }];
        if let Some(occurs) = &occurs {
            budget.download(stream, occurs, &mut characters)?;
        }
        wait(stream)?;
        let [all, unknown] = counted;
        if !are_few(unknown as usize, rows) {
            return Ok(None);
        }
        let codes = match build {
            Some(codes) => Arc::clone(codes),
            None => Arc::new(Codes::of(budget, stream, &characters)?),
        };
        let mut symbols = StringSymbols {
            starts: budget.buffer(stream, rows)?,
            symbols: match codes.is_small {
                true => SymbolBuffer::Small(budget.buffer(stream, all as usize)?),
                false => SymbolBuffer::Large(budget.buffer(stream, all as usize)?),
            },
        };
        let mut used = budget.zeros(stream, 1)?;
        let by = CodesOnDevice { codes: &codes.codes, last: codes.last };
        kernels.symbols(stream, on_device, &features.lengths, by, &mut used, &mut symbols)?;
        wait(stream)?;
        Ok(Some(Self { features, symbols, codes, has_unknown: unknown > 0 }))
    }
}

/// Fingerprints of rows, to which a column is added.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedAs<'a> {
    pub(super) prints: &'a Buffer<u64>,
    /// The number of the column.
    pub(super) column: u64,
}

fn print(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    strings: &ArrowStrings,
    prints: Option<PrintedAs<'_>>,
) -> Result<(), Fault> {
    let Some(PrintedAs { prints, column }) = prints else { return Ok(()) };
    budget.device.kernels().coded_strings()?.prints(stream, strings.on_device(stream), column, prints)?;
    // they are of another stream, on which they are given back where what follows here fails
    Ok(wait(stream)?)
}

/// Whether many strings have more characters for sure, as far as that is soon found out: the device finds out, too.
fn has_many_long(values: &StringViewArray, longest: u32) -> bool {
    // no character has more than four bytes
    let is_long = |&(row, &view): &(usize, &u128)| view as u32 / 4 > longest && values.is_valid(row);
    has_many_bytes(values) && !are_few(values.views().iter().enumerate().filter(is_long).count(), values.len())
}

#[cfg(test)]
mod tests {
    use arrow::array::ArrayRef;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::kernels::UNKNOWN;
    use crate::test_device::device;
    use similarity_engine::atoms::AtomRows;
    use similarity_engine::cpu::strings::StringColumn;

    fn download<T: cudarc::driver::DeviceRepr + Clone + Default>(
        stream: &Arc<CudaStream>,
        buffer: &Buffer<T>,
        length: usize,
    ) -> Vec<T> {
        let mut values = vec![T::default(); buffer.slice.len()];
        stream.memcpy_dtoh(&buffer.slice, &mut values).unwrap();
        wait(stream).unwrap();
        values.truncate(length);
        values
    }

    /// The codes of each string.
    fn codes(stream: &Arc<CudaStream>, texts: &CodedStrings, rows: usize) -> Vec<Vec<u32>> {
        let starts = download(stream, &texts.symbols.starts, rows);
        let lengths = download(stream, &texts.features.lengths, rows);
        let symbols: Vec<u32> = match &texts.symbols.symbols {
            SymbolBuffer::Small(symbols) => download(stream, symbols, usize::MAX).into_iter().map(u32::from).collect(),
            SymbolBuffer::Large(symbols) => download(stream, symbols, usize::MAX),
        };
        let text = |(start, length): (u64, u32)| symbols[start as usize..][..length as usize].to_vec();
        starts.into_iter().zip(lengths).map(text).collect()
    }

    fn column(rows: usize, alphabet: &[char], rng: &mut StdRng) -> StringViewArray {
        let text = |rng: &mut StdRng| {
            let most = [3, 30, 80][rng.random_range(0..3)];
            let length = rng.random_range(0..most);
            (!rng.random_bool(0.1)).then(|| (0..length).map(|_| *alphabet.choose(rng).unwrap()).collect::<String>())
        };
        (0..rows).map(|_| text(rng)).collect()
    }

    #[test]
    fn strings_are_coded_as_the_cpu_reads_them() {
        let mut rng = StdRng::seed_from_u64(4);
        let budget = Budget::new(&device(), 0.5);
        let stream = budget.device.stream().unwrap();
        let many: Vec<char> = (0x3b1..0x4b1).chain(0x1f600..0x1f640).filter_map(char::from_u32).collect();
        for (rows, alphabet) in [(0, "ab"), (1, "a"), (900, "abc de"), (700, "a\u{e9}\u{4e2d}\u{1f600}"), (600, "")] {
            let alphabet: Vec<char> = if alphabet.is_empty() { many.clone() } else { alphabet.chars().collect() };
            let whole = column(rows + 7, &alphabet, &mut rng);
            let values = whole.slice(7, rows);
            let texts = CodedStrings::try_new(&budget, &values, None, 1024, None).unwrap().unwrap();
            let mut known: Vec<char> = values.iter().flatten().flat_map(str::chars).collect();
            known.sort_unstable();
            known.dedup();
            assert_eq!(texts.codes.is_small, known.len() < 256);
            let code = |c: char| known.binary_search(&c).map_or(0, |at| at as u32 + 1);
            let coded = |text: Option<&str>| text.unwrap_or_default().chars().map(code).collect::<Vec<_>>();
            assert_eq!(codes(&stream, &texts, rows), values.iter().map(coded).collect::<Vec<_>>());
            let probe = column(100, &['a', 'b', 'z', '\u{e9}', '\u{1f633}'], &mut rng);
            let probed = CodedStrings::try_new(&budget, &probe, Some(&texts.codes), 1024, None).unwrap().unwrap();
            assert_eq!(codes(&stream, &probed, 100), probe.iter().map(coded).collect::<Vec<_>>());
            let column = StringColumn::try_new(&(Arc::new(values) as ArrayRef), 1).unwrap();
            let (signatures, classes): (Vec<u64>, Vec<u8>) =
                (0..rows as u32).map(|row| column.near(row)).map(|(bits, class)| (bits, class as u8)).unzip();
            assert_eq!(download(&stream, &texts.features.signatures, rows), signatures);
            assert_eq!(download(&stream, &texts.features.classes, rows), classes);
            assert!(matches!(column.rows(), AtomRows::Strings { values } if values.len() == rows));
        }
    }

    #[test]
    fn a_string_that_is_too_long_is_unknown() {
        let budget = Budget::new(&device(), 0.5);
        let stream = budget.device.stream().unwrap();
        let brought = |longest: &str, copies: usize, most: u32| {
            let known = [Some("ab".repeat(6)), None].into_iter().cycle().take(32 - copies);
            let values: StringViewArray = known.chain((0..copies).map(|_| Some(longest.to_owned()))).collect();
            CodedStrings::try_new(&budget, &values, None, most, None).unwrap()
        };
        // also where that is known by the bytes alone
        for (character, longest) in [("x", 13), ("\u{1f600}", 13), ("\u{e9}", 13), ("x", 1000), ("\u{1f600}", 1000)] {
            let text = character.repeat(longest);
            assert!(!brought(&text, 2, longest as u32).unwrap().has_unknown, "{character} {longest}");
            let texts = brought(&text, 2, longest as u32 - 1).unwrap();
            let classes = download(&stream, &texts.features.classes, 32);
            assert!(texts.has_unknown, "{character} {longest}");
            let unknown = UNKNOWN as u8;
            assert_eq!(
                classes.iter().map(|&class| class == unknown).collect::<Vec<_>>(),
                [[false; 30].as_slice(), &[true; 2]].concat()
            );
            assert_eq!(download(&stream, &texts.features.lengths, 32)[30..], [0, 0]);
            assert!(brought(&text, 3, longest as u32 - 1).is_none(), "too many are");
        }
        assert!(brought(&"x".repeat(3 << 20), 2, 1024).unwrap().has_unknown);
        assert!(brought(&"x".repeat(3 << 20), 3, 1024).is_none());
    }
}
