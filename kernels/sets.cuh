// The sets of one side as kernels read them, and what signatures say of a pair.
#pragma once

#include "common.cuh"
#include "measure/set_measure.cuh"

// Sort keys: group, size, bits set.
#define SIZE_BITS 22  // for the host
#define ONES_BITS 10  // for the host
#define MOST_SIZE ((1u << SIZE_BITS) - 1)
#define MOST_ONES ((1u << ONES_BITS) - 1)

// Sets of more tokens than this list them in ascending order; all others in any.
#define UNORDERED 128  // for the host

// The sets of one side in order; every column has a multiple of BLOCK entries, those after `count` are of no set.
struct Sets {
    const u32* signatures;
    const u32* sizes;
    // Tokens that may match.
    const u32* known;
    // Bits set in the signature.
    const u32* ones;
    const u32* groups;
    const u32* rows;
    const u64* starts;
    const u32* tokens;
    const struct Summary* summaries;
    u32 count;
    u32 unused;
};

// What is known of all sets of a block.
struct Summary {
    u32 least_size;
    u32 most_size;
    u32 first_group;
    u32 last_group;
    // The most tokens beyond the bits that they set.
    u32 most_excess;
    u32 most_ones;
    // The sizes of the first and the last position: a block may hold the end of one group and the start of the next.
    u32 first_size;
    u32 last_size;
};

// How many of the tokens that a row holds share a bit with another of them.
__device__ __forceinline__ u32 excess(const Sets& sets, u32 position) {
    return sets.known[position] - sets.ones[position];
}

// Sizes of the sets at a build and a probe position.
__device__ __forceinline__ SetSizes sizes_of(const Sets& build, u32 b, const Sets& probe, u32 p) {
    SetSizes sizes;
    sizes.build = build.sizes[b];
    sizes.probe = probe.sizes[p];
    return sizes;
}

// Whether two sets are of one group and may share as many tokens as a match takes, by signatures of `words` words.
__device__ __forceinline__ bool signatures_allow(const Sets& probe, const Sets& build, const SetCondition& test,
                                                 int words, u32 p, u32 b) {
    if (probe.groups[p] != build.groups[b]) return false;
    const u32 *left = probe.signatures + (u64)p * (u32)words, *right = build.signatures + (u64)b * (u32)words;
    u32 common = min(excess(probe, p), excess(build, b));
#pragma unroll 1
    for (int w = 0; w < words; w++) common += __popc(left[w] & right[w]);
    return common >= set_least_overlap(test, sizes_of(build, b, probe, p));
}
