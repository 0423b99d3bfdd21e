//! Points from list columns: where every engine's vector joins begin.
//!
//! ```text
//! lists ----points----> vectors, and rows that no filter tells apart
//!       ----frame-----> points: shifted to where most are, the telling dimensions first
//! ```
//!
//! `reach` says by how much a filter in `precision` has to look farther than the condition, so that no match is lost;
//! `decision` decides by the measure's own arithmetic. What the engines do with the points is their own.

pub mod decision;
pub mod frame;
pub mod points;
pub mod precision;
pub mod reach;

pub use points::Vectors;
