//! The kernels of `kernels/`: the only place where something is launched.
//!
//! `generated` has a function for each kernel, whose arguments have the kernel's types. The files beside it, one for
//! each kernel file, say what the host decides of a launch: how many blocks of threads there are, which variant runs,
//! and which buffers it is given. Buffers are at least as long as the contracts in `kernels/README.md` say, which
//! callers see to. What is launched on one stream runs in order.

mod coded_strings;
mod components;
mod equality;
mod generated;
mod grid;
mod launch;
mod match_count;
mod nearest;
mod nearest_counts;
mod nearest_sets;
mod nearest_strings;
mod nearest_vectors;
mod prefixes;
mod rules;
mod sets;
mod sort;
mod strings;
mod vectors;

pub(super) use coded_strings::*;
pub(super) use components::{ComponentKernels, IdTable, LeastIds};
pub(super) use equality::*;
pub(super) use generated::arrow_strings::ArrowStrings as ArrowStringsOnDevice;
pub(super) use generated::common::{Pair, Task};
pub(super) use generated::constants;
pub(super) use generated::edit_measure::{EditCondition, Reach};
pub(super) use generated::equality::{Counted, Known as KnownOnDevice, Records as RecordsOnDevice};
pub(super) use generated::match_count::{
    CountedColumn, CountedRows as CountedRowsOnDevice, CountingRows as CountingRowsOnDevice,
};
pub(super) use generated::nearest::{Neighbour as FoundNeighbour, Round, Searched};
pub(super) use generated::nearest_sets::SetRanking;
pub(super) use generated::nearest_strings::EditRanking;
pub(super) use generated::postings::Postings as PostingsOnDevice;
pub(super) use generated::prefixes::{Prefixes as PrefixesOnDevice, Ranges as RangesOnDevice};
pub(super) use generated::rules::{
    Batch as BatchOnDevice, Items as ItemsOnDevice, Near as NearOnDevice, RuleSets, RuleTexts, RuleVectors,
    Span as SpanOnDevice, Step as RuleStep,
};
pub(super) use generated::set_measure::SetCondition;
pub(super) use generated::sets::Sets as SetsOnDevice;
pub(super) use generated::strings::{CodedStrings as CodedStringsOnDevice, Signer as SignerOnDevice};
pub(super) use generated::vector_measure::VectorCondition;
pub(super) use generated::vectors::{Frame as FrameOnDevice, Vectors as VectorsOnDevice};
pub(super) use launch::{Appended, BLOCK, KeyedRows, Positions, TaskList, Windows};
pub(super) use match_count::*;
pub(super) use nearest::{NearestKernels, neighbours, neighbours_mut};
pub(super) use nearest_counts::*;
pub(super) use nearest_sets::*;
pub(super) use nearest_strings::*;
pub(super) use nearest_vectors::*;
pub(super) use prefixes::*;
pub(super) use rules::*;
pub(super) use sets::*;
pub(super) use sort::{DigitCounts, SortKernels};
pub(super) use strings::*;
pub(super) use vectors::*;
