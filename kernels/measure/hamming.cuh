// Hamming, as crates/measures/src/hamming.rs: the positions at which two strings of one length differ.
#pragma once

// The distance if it is at most `most`, otherwise some larger number.
template <class Symbol>
__device__ __forceinline__ u32 hamming_within(const Symbol* left, const Symbol* right, u32 count, u32 most) {
    u32 differing = 0;
    for (u32 at = 0; at < count && differing <= most; at++) differing += left[at] != right[at];
    return differing;
}
