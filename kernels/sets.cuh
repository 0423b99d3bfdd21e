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

// How many tokens two sets share at most, by signatures of `words` words.
__device__ __forceinline__ u32 most_common(const Sets& probe, const Sets& build, int words, u32 p, u32 b) {
    const u32 *left = probe.signatures + (u64)p * (u32)words, *right = build.signatures + (u64)b * (u32)words;
    u32 common = min(excess(probe, p), excess(build, b));
#pragma unroll 1
    for (int w = 0; w < words; w++) common += __popc(left[w] & right[w]);
    return common;
}

// Whether two sets are of one group and may share as many tokens as a match takes, by signatures of `words` words.
__device__ __forceinline__ bool signatures_allow(const Sets& probe, const Sets& build, const SetCondition& test,
                                                 int words, u32 p, u32 b) {
    return probe.groups[p] == build.groups[b] &&
           most_common(probe, build, words, p, b) >= set_least_overlap(test, sizes_of(build, b, probe, p));
}

// Where a group and a size stand in the order of positions.
__device__ __forceinline__ u64 place(u32 group, u32 size) { return (u64)group << 32 | min(size, MOST_SIZE); }

// The tokens that two sets share, counted by a warp; the right one is no smaller.
__device__ __forceinline__ u32 overlap(const u32* left, u32 lefts, const u32* right, u32 rights) {
    u32 common = 0;
    for (u32 first = 0; first < lefts; first += 32) {
        u32 at = first + lane_of_thread();
        // ranks are smaller than this
        u32 token = at < lefts ? left[at] : 0xffffffffu;
        if (rights > UNORDERED) {
            u32 found = first_true(0, rights, [&](u32 r) { return right[r] >= token; });
            common += found < rights && right[found] == token;
            continue;
        }
        for (u32 r = 0; r < rights; r += 32) {
            u32 others = r + lane_of_thread() < rights ? right[r + lane_of_thread()] : 0xfffffffeu;
            u32 held = min(rights - r, 32u);
            for (u32 lane = 0; lane < held; lane++) common += token == __shfl_sync(ALL_LANES, others, lane);
        }
    }
    for (u32 offset = 16; offset > 0; offset /= 2) common += __shfl_xor_sync(ALL_LANES, common, offset);
    return common;
}

// The tokens that the sets at two positions share, counted by a warp.
__device__ __forceinline__ u32 overlap(const Sets& probe, u32 p, const Sets& build, u32 b) {
    const u32 *left = probe.tokens + probe.starts[p], *right = build.tokens + build.starts[b];
    u32 lefts = probe.known[p], rights = build.known[b];
    return lefts <= rights ? overlap(left, lefts, right, rights) : overlap(right, rights, left, lefts);
}
