// Sizes of two sets and of their intersection, by the arguments of a measure, as crates/measures/src/set_measure.rs.
#pragma once

// Two sets that share at least one element.
struct Overlap {
    u32 common;
    u32 left;
    u32 right;
};
