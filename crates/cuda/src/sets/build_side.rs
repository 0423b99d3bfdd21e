//! The sets of a build side as ranks of their tokens.

use similarity_engine::error::Error;

use super::columns::{BYTES_OF_ROW, SetColumns};
use crate::fault::Fault;
use crate::memory::Budget;
use similarity_engine::sets::Dictionary;
use similarity_engine::sets::ranks::rank;
use similarity_engine::sets::tokenise::tokenise_build;
use similarity_engine::{BuildContext, KeyColumn};
use similarity_measures::Tokenizer;

/// Sets that are ready for a device.
#[derive(Debug)]
pub(super) struct BuildSide {
    /// Ranks of tokens; empty where nobody else asks for them.
    pub(super) dictionary: Dictionary,
    pub(super) columns: SetColumns,
    /// How many sets have the token of each rank.
    pub(super) frequencies: Vec<u32>,
}

impl BuildSide {
    /// Tokenises `keys`. A token of one row alone has a rank unless the rows are compared with each other only.
    ///
    /// # Errors
    /// A key type that the tokenizer cannot read, more rows or tokens than 32 bits can number, a refused reservation, a
    /// cancelled build.
    pub(super) fn try_new(
        budget: &Budget,
        tokenizer: Tokenizer,
        keys: &KeyColumn,
        self_join: bool,
        context: &BuildContext<'_>,
    ) -> Result<Self, Fault> {
        let mut ranges = tokenise_build(tokenizer, keys, context.threads, context.cancel, context.reserve)?;
        let ids: usize = ranges.iter().map(|range| range.ids.len()).sum();
        if u32::try_from(ids.max(keys.values.len())).is_err() {
            return Err(Error::Keys(
                "a set similarity join cannot index more than 2^32 tokens; join smaller parts".into(),
            )
            .into());
        }
        let (dictionary, tables, frequencies) = rank(&mut ranges, self_join)?;
        budget.metrics.keys_are_ready();
        (context.reserve)(keys.values.len() * BYTES_OF_ROW)?;
        let columns = SetColumns::pack(ranges, &tables, keys.groups.as_deref())?;
        context.cancel.check()?;
        Ok(Self { dictionary, columns, frequencies })
    }
}

/// What compares signatures of so many words on a device, for EXPLAIN ANALYZE.
pub(super) fn describe_tiles(budget: &Budget, words: u32) -> String {
    let unit = if budget.device.has_tensor_cores() { "binary tensor cores" } else { "popcounts" };
    format!("signature tiles ({}, {unit}, {} bits)", budget.device, 32 * words)
}
