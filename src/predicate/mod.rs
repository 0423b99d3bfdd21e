//! From a join's expression to the conditions that the engines know.

mod atom;
mod band;
mod bounds;
mod conjunction;
mod coordinates;
mod far;
mod normal_form;
mod recognise;
mod sides;
mod vector_test;

pub use atom::{Atom, Test};
pub use band::{Band, BandForm, End};
pub use bounds::{Bound, Bounds};
pub use conjunction::{Conjunction, EqualityKey, Refusal};
pub use normal_form::{NormalForm, TooManyClauses};
pub use recognise::{measured, mentions_measure};
pub use sides::{Side, Sides};
pub use vector_test::VectorTest;
