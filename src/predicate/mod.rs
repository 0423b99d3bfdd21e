//! The conditions that the engines know, recognised in a join's expression.

mod antipodal;
mod atom;
mod band;
mod conjunction;
mod coordinates;
mod facts;
mod implied;
mod interval;
mod lengths;
mod match_count;
mod minimal_sets;
mod normal_form;
mod nulls;
mod plain;
mod range;
mod recognise;
mod sides;
mod sums;
mod symmetric;
mod threshold;
mod truth;
mod weighted;

pub use atom::Atom;
pub use band::{Band, BandForm, End};
pub use conjunction::{Conjunction, EqualityKey, Refusal};
pub use match_count::{Counted, CountedScore, FoundConditions, counted};
pub use normal_form::{NormalForm, TooManyClauses};
pub use plain::plain_first;
pub use recognise::{is_measure, measured, mentions_measure};
pub use sides::{Side, Sides};
pub use similarity_engine::condition::{Bound, Bounds, Condition, VectorCondition};
pub use sums::with_clauses;
pub use symmetric::{is_symmetric, symmetric_to};
