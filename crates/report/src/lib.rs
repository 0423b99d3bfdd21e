//! Reports of similarity joins: figures in, one HTML page with SVG charts out.
//!
//! The page holds its style and its charts, loads nothing and runs no script. Every chart is also a Vega-Lite
//! specification, for notebooks and for viewers that can be asked more. This crate knows no query engine: it takes
//! plain numbers and texts, and escapes all of them.

mod chart;
mod escape;
mod number;
mod page;
mod report;
mod svg;
mod vega;

pub use chart::{Chart, Form, Series};
pub use report::{Clause, Column, Explanation, Fact, Group, Histogram, Measures, Members, Part, Report, Step};
