//! The operators and the driver that runs a program on an engine.
//!
//! The data's journey: [`JoinExec`] is what a plan shows, as [`SimilarityJoinExec`], [`EpsilonJoinExec`],
//! [`MatchingDependencyBlockExec`] or [`NearestJoinExec`]; `build` collects one input and has `similarity`, `rules`
//! or `nearest` index it; `stream` sends the other input through that index, batch by batch; `residual` checks what
//! the index does not know, of a self-join `direction` says which way round its pairs count; `emission` does the
//! bookkeeping of outer, semi and anti joins, of which `settled` keeps rows that have a partner away from the index;
//! `output` takes rows from pairs. `order` says whose order a plan may count on, `in_order` keeps it.
//!
//! [`LinksExec`] follows a join: it reads the pairs that a join finds and makes clusters or one-to-one matches of them.
//! `nested_loops` refuses a join below it that would compare too many pairs.
//! [`RowNumbersExec`] comes before one: it ranks the rows for sorted neighbourhoods.
//! [`IndexedTopKExec`] is ORDER BY with LIMIT: a nearest join of one row below it, and stock's plan beside that.
//! [`CellsExec`] and [`OneCellExec`] divide a join among processes, [`EitherWayExec`] puts pairs of a divided self-join
//! the right way round, and [`GatherExec`] keeps in one partition what has to be.
//! [`DmlExec`] is no join: it deletes and updates rows that a query, often a join, says.

mod audit;
mod bands;
mod batch_bytes;
mod blocking;
mod build;
mod build_side;
mod cells;
mod chunks;
mod dealt_loop;
mod direction;
mod distinct;
mod dml;
mod either_way;
mod emission;
mod engine;
mod equality;
mod explain;
mod gather;
mod in_order;
mod index_file;
mod indexed_top_k;
mod join;
mod join_metrics;
mod kept;
mod links;
mod nearest;
mod nested_loops;
mod order;
mod output;
mod probe;
mod probe_input;
mod residual;
mod row_numbers;
mod rules;
mod same_rows;
mod settled;
mod similarity;
mod small_batches;
mod spec;
mod strategy;
mod stream;

pub use bands::BandExprs;
pub use cells::{CellsExec, OneCellExec, cells_of_partitions};
pub use dealt_loop::DealtLoopExec;
pub use dml::{Changes, DmlExec, Evaluated};
pub use either_way::EitherWayExec;
pub(crate) use either_way::either_way;
pub use explain::Explained;
pub use gather::GatherExec;
pub use indexed_top_k::IndexedTopKExec;
pub use join::{EpsilonJoinExec, JoinExec, MatchingDependencyBlockExec, NearestJoinExec, SimilarityJoinExec};
pub use kept::{IndexedTable, KeptIndex, KeptKey, KeptPart, KeptSummary, SimilarityIndex};
pub use links::{LinkTask, LinksExec};
pub use nearest::{CountedExprs, FoundByRules, IndexedScore, NearestStrategy};
pub(crate) use nested_loops::most_rows;
pub use row_numbers::{RowNumber, RowNumbersExec};
pub use rules::{AtomExprs, RuleStrategy};
pub use similarity::SimilarityStrategy;
pub use similarity_engine::links::{Assignment, Method};
pub use small_batches::SmallBatchesExec;
pub use spec::{EqualityExprs, JoinInputs, JoinSpec};
pub use strategy::{BuildRows, BuiltJoin, DynBuiltJoin, JoinStrategy, PartRanking, RegionKey, Run, StrategyInfo};
