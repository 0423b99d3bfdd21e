// Jaro-Winkler, as crates/measures/src/jaro_winkler.rs.
#pragma once

#include "jaro.cuh"

// The characters of a common prefix that count.
#define LONGEST_PREFIX 4

// The Jaro-Winkler similarity of two strings whose Jaro similarity is `jaro`. The weights are what each character of
// the prefix adds, and the Jaro similarity above which it does.
template <class Symbol>
__device__ __forceinline__ double raised_by_prefix(double jaro, const double* weights, const Symbol* left, u32 lefts,
                                                   const Symbol* right, u32 rights) {
    if (jaro <= weights[1]) return jaro;
    u32 most = min(min(lefts, rights), (u32)LONGEST_PREFIX), prefix = 0;
    while (prefix < most && left[prefix] == right[prefix]) prefix++;
    return min(jaro + weights[0] * (double)prefix * (1.0 - jaro), 1.0);
}
