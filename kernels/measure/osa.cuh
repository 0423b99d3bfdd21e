// Optimal string alignment, as crates/measures/src/osa.rs.
#pragma once

#include "edit_matrix.cuh"

// The distance if it is at most `most`, otherwise some larger number; the left string is the longer one.
template <class Alphabet>
__device__ __forceinline__ u32 osa_within(const typename Alphabet::Symbol* left, u32 lefts,
                                          const typename Alphabet::Symbol* right, u32 rights, u32 most) {
    return edit_distance_within<true, Alphabet>(left, lefts, right, rights, most);
}
