//! The operator and the driver that runs a program on an engine.
//!
//! The data's journey: [`SimilarityJoinExec`] is what a plan shows; `build` collects one input and has the engine
//! index it; `stream` sends the other input through the index, batch by batch; `residual` checks what the index
//! does not know; `emission` does the bookkeeping of outer, semi and anti joins; `output` takes rows from pairs.

mod build;
mod emission;
mod equality;
mod join;
mod join_metrics;
mod output;
mod probe;
mod residual;
mod spec;
mod stream;

pub use join::SimilarityJoinExec;
pub use spec::{EqualityExprs, JoinInputs, JoinSpec};
