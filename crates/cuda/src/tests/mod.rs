//! What the engines do with a device, tested on one.

mod choice;
mod components;
mod concat;
mod devices;
mod equality;
mod found_pairs;
mod grouping;
mod long_strings;
pub(super) mod nearest;
mod prefiltered;
mod rules;
mod statistics;
pub(super) mod vectors;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use similarity_engine::atoms::{AtomColumn, AtomCondition, RuleCounters};
use similarity_engine::choice::Engine;
use similarity_engine::condition::Condition;
use similarity_engine::equality::Numberer;
use similarity_engine::rules::{PreparedRules, RuleIndex};
use similarity_engine::{BuildContext, Cancel, Cursor, KeyColumn, NO_GROUP, Pairs};

use crate::memory::Budget;

/// The engine of a device.
fn engine_of(budget: Budget) -> Engine {
    Engine::Devices(Arc::new(budget).into())
}
