// Jaro-Winkler, as crates/measures/src/jaro_winkler.rs.
#pragma once

#include "jaro.cuh"

// The Jaro similarity above which a common prefix counts, how much each character of it adds, and how many do.
#define BOOST_ABOVE 0.7
#define PREFIX_WEIGHT 0.1
#define LONGEST_PREFIX 4

// The Jaro-Winkler similarity of two strings whose Jaro similarity is `jaro`.
template <class Symbol>
__device__ __forceinline__ double raised_by_prefix(double jaro, const Symbol* left, u32 lefts, const Symbol* right,
                                                   u32 rights) {
    if (jaro <= BOOST_ABOVE) return jaro;
    u32 most = min(min(lefts, rights), (u32)LONGEST_PREFIX), prefix = 0;
    while (prefix < most && left[prefix] == right[prefix]) prefix++;
    return min(jaro + PREFIX_WEIGHT * (double)prefix * (1.0 - jaro), 1.0);
}
