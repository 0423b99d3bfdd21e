// Levenshtein, as crates/measures/src/levenshtein.rs.
#pragma once

#include "edit_matrix.cuh"

// The distance if it is at most `most`, otherwise some larger number; the left string is the longer one.
template <class Alphabet>
__device__ __forceinline__ u32 levenshtein_within(const typename Alphabet::Symbol* left, u32 lefts,
                                                  const typename Alphabet::Symbol* right, u32 rights, u32 most) {
    return edit_distance_within<false, Alphabet>(left, lefts, right, rights, most);
}

// The similarity of two strings at `distance`, the longer of `longest` characters.
__device__ __forceinline__ double similarity_of_distance(u32 distance, u32 longest) {
    return longest == 0 ? 1.0 : 1.0 - (double)distance / (double)longest;
}
