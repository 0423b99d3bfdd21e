//! The strings of a build side on their way to a device.

use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use cudarc::driver::CudaStream;
use similarity_engine::error::Error;

use super::alphabet::Alphabet;
use super::columns::{StringColumns, StringPacking};
use super::sorted::{Signer, SortedStrings};
use crate::device::Device;
use crate::fault::Fault;
use crate::memory::Budget;
use crate::replicate::replicate;
use similarity_engine::strings::features::{self, Feature};
use similarity_engine::views::string_views;
use similarity_engine::{BuildContext, KeyColumn};

/// How a build side is arranged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrangement {
    /// Strings of more characters are too long for the device.
    pub(super) most: usize,
    /// Whether characters tell strings apart, not bigrams.
    pub(super) by_characters: bool,
}

/// Strings of a build side on the device, and how those of a probe side are brought there.
#[derive(Debug)]
pub(super) struct BuildSide {
    pub(super) values: StringViewArray,
    pub(super) alphabet: Arc<Alphabet>,
    pub(super) signer: Signer,
    pub(super) texts: SortedStrings,
    /// Characters of the longest string, and of a typical one.
    pub(super) longest: usize,
    pub(super) mean_length: usize,
}

replicate!(BuildSide { signer, texts; same values, alphabet, longest, mean_length });

impl BuildSide {
    /// Brings the strings of `keys` to the device; `None` where some are too long for it.
    ///
    /// # Errors
    /// Keys that are no strings, more rows than 32 bits can number, a refused reservation, a cancelled build, a
    /// device that fails.
    pub(super) fn try_new(
        budget: &Budget,
        stream: &Arc<CudaStream>,
        keys: &KeyColumn,
        Arrangement { most, by_characters }: Arrangement,
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        if u32::try_from(keys.values.len()).is_err() {
            return Err(Error::Keys("an edit join cannot index more than 2^32 rows; join smaller parts".into()).into());
        }
        budget.metrics.keys_are_ready();
        let values = string_views(&keys.values)?;
        let alphabet = Alphabet::of(&values, context.threads)?;
        (context.reserve)(packed_size(&values, &alphabet))?;
        let packing = StringPacking { alphabet: &alphabet, most };
        let columns = StringColumns::pack(&values, keys.groups.as_deref(), packing, context.threads)?;
        context.cancel.check()?;
        if !columns.long.is_empty() {
            return Ok(None);
        }
        let signer = signer(budget, stream, &alphabet, (&values, &columns), by_characters)?;
        let texts = SortedStrings::try_new(budget, stream, &columns, &signer)?;
        let (longest, mean_length) = (columns.longest, columns.symbols() / columns.rows.len().max(1));
        Ok(Some(Self { values, alphabet: Arc::new(alphabet), signer, texts, longest, mean_length }))
    }

    /// How it is compared, for EXPLAIN ANALYZE.
    pub(super) fn describe(&self, device: &Device) -> String {
        describe(device, &self.signer, "")
    }
}

/// How signatures are compared on a device, and what is not done there.
pub(super) fn describe(device: &Device, signer: &Signer, but: &str) -> String {
    let unit = if device.has_tensor_cores() { "binary tensor cores" } else { "popcounts" };
    let bags = if signer.by_characters { "characters" } else { "bigrams and characters" };
    format!("signature tiles ({device}, {unit}, 256 bits of {bags}{but})")
}

/// Bytes of a side that is packed, what a row has beside its symbols once more as one.
fn packed_size(values: &StringViewArray, alphabet: &Alphabet) -> usize {
    let symbols: usize = values.lengths().map(|length| length as usize).sum();
    let symbol = if alphabet.is_small() { size_of::<u8>() } else { size_of::<u32>() };
    let row = 2 * size_of::<u32>() + size_of::<u64>();
    alphabet.memory() + symbols * symbol + 2 * values.len() * row
}

/// Learns from a build side which bits its strings set.
fn signer(
    budget: &Budget,
    stream: &Arc<CudaStream>,
    alphabet: &Alphabet,
    (values, columns): (&StringViewArray, &StringColumns),
    by_characters: bool,
) -> Result<Signer, Fault> {
    let learn = |feature| {
        let signer = features::Signer::learn(feature, columns.rows.len(), |n| values.value(columns.rows[n] as usize));
        budget.upload(stream, signer.bits())
    };
    Ok(Signer {
        scalars: budget.upload(stream, alphabet.scalars())?,
        character_bits: learn(Feature::Characters)?,
        bigram_bits: learn(Feature::Bigrams)?,
        by_characters,
    })
}
