//! What indexes are tested against: nested loops over the measures themselves. Other engines include these files.

use crate as engine;

pub mod links;
pub mod sets;
pub mod strings;
