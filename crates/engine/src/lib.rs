//! The engines: pairs of rows from key columns of a build and a probe side.
//!
//! An engine filters by bounds that lose nothing and decides by the measure itself. Nothing here knows SQL or
//! DataFusion: keys come as Arrow arrays, and whoever drives a join makes rows of the pairs.
//!
//! A build side becomes an [`Index`], which makes batches of the probe side ready. A [`PairIndex`] finds pairs with
//! them, a [`NearestIndex`](nearest::NearestIndex) ranks its rows for them.

#![deny(missing_docs)]

pub mod accelerator;
pub mod access_path;
pub mod atoms;
mod batch;
pub mod cache;
mod cancel;
pub mod choice;
pub mod concat;
pub mod condition;
mod context;
pub mod cpu;
mod cursor;
pub mod devices;
pub mod equality;
mod erased;
pub mod error;
mod explain;
mod fallback;
mod fetched;
pub mod gallop;
pub mod hash;
mod index;
#[doc(hidden)]
pub mod internals;
mod key_column;
pub mod links;
pub mod match_count;
pub mod metrics;
pub mod nearest;
pub mod numbering;
pub mod offered;
mod offload;
pub mod overrides;
mod pairs;
pub mod parallel;
pub mod plan;
pub mod ranking;
pub mod reason;
pub mod recall;
pub mod repeated;
pub mod rules;
pub mod sets;
pub mod stored;
pub mod strings;
#[cfg(test)]
mod test_oracle;
pub mod vectors;
pub mod views;
mod work;

pub use batch::{AnyBatch, Prepared, Probe};
pub use cancel::Cancel;
pub use context::{BuildContext, PrepareContext};
pub use cursor::{Cursor, Limit};
pub use erased::Erased;
pub use error::{Error, Result};
pub use index::{DynPairIndex, Index, IndexInfo, PairIndex, even_stretch};
pub use key_column::{KeyColumn, NO_GROUP};
pub use pairs::{ColumnPair, Counts, Pairs, RowPair};
