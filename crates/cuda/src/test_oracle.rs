//! What indexes are tested against: the nested loops of the engine crate.

use similarity_engine as engine;

#[path = "../../engine/src/test_oracle/links.rs"]
pub mod links;
#[path = "../../engine/src/test_oracle/sets.rs"]
pub mod sets;
#[path = "../../engine/src/test_oracle/strings.rs"]
pub mod strings;
