// The strings of one side as kernels read them, and what signatures say of their pairs.
#pragma once

#include "common.cuh"
#include "measure/edit_measure.cuh"
#include "signature_tile.cuh"

// Sort keys: group, length, excess of the bag that is compared first.
#define LENGTH_BITS 16  // for the host
#define EXCESS_BITS 8   // for the host
#define MOST_EXCESS ((1u << EXCESS_BITS) - 1)

// The strings of one side in order; every column has a multiple of BLOCK entries, those after `count` are of no string.
struct CodedStrings {
    // Signatures, STEP words each, and how many occurrences share a bit with another.
    const u32* characters;
    const u32* bigrams;
    const u32* character_excess;
    const u32* bigram_excess;
    const u32* lengths;
    // The first four symbols, a byte each.
    const u32* prefixes;
    const u32* groups;
    const u32* rows;
    const u64* starts;
    const void* symbols;
    const struct Summary* summaries;
    u32 count;
    u32 unused;
};

// What is known of all strings of a block.
struct Summary {
    u32 least_length;
    u32 most_length;
    u32 first_group;
    u32 last_group;
    // The lengths of the first and the last position: a block may hold the end of one group and the start of the next.
    u32 first_length;
    u32 last_length;
    // The most of either bag.
    u32 character_excess;
    u32 bigram_excess;
    u32 character_bits;
    u32 bigram_bits;
};

// The occurrences in a string's bag of bigrams.
__device__ __forceinline__ u32 bigrams_of(u32 length) { return length > 0 ? length - 1 : 0; }

// Where a group and a length stand in the order of positions.
__device__ __forceinline__ u64 place(u32 group, u32 length) { return (u64)group << 32 | length; }

// The common bits that pairs need at least, in either signature.
struct Needed {
    int characters;
    int bigrams;
};

// How many characters two strings begin with in common at most.
__device__ __forceinline__ u32 common_prefix(const CodedStrings& probe, u32 p, const CodedStrings& build, u32 b) {
    u32 differing = probe.prefixes[p] ^ build.prefixes[b];
    return differing == 0 ? LONGEST_PREFIX : (__ffs((i32)differing) - 1) / 8;
}

// Bits that the signatures at two positions have in common.
__device__ __forceinline__ u32 common_bits(const u32* left, u32 p, const u32* right, u32 b) {
    const uint4 *l = (const uint4*)(left + (u64)p * STEP), *r = (const uint4*)(right + (u64)b * STEP);
    u32 bits = 0;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        uint4 x = l[part], y = r[part];
        bits += __popc(x.x & y.x) + __popc(x.y & y.y) + __popc(x.z & y.z) + __popc(x.w & y.w);
    }
    return bits;
}

// Which of a thread's pairs have as many bits in common as needed, a bit each.
__device__ __forceinline__ u32 reaching(const ProbeRows<1, 4>& held, const u32* columns, int needed) {
    int d[4][4];
    held.common(columns, needed, d);
    int all_negative = -1;
#pragma unroll
    for (int q = 0; q < 4; q++) all_negative &= d[q][0] & d[q][1] & d[q][2] & d[q][3];
    if (all_negative < 0) return 0;
    u32 hits = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) hits |= (u32)(d[i / 4][i % 4] >= 0) << i;
    return hits;
}

// Visits the pairs of a warp's 64 probe rows and a build block that have as many bits in common as needed: the place of
// the probe row among them, and the build position. Bigrams tell more, so they come first, unless they tell nothing.
// All lanes call it.
template <class Visit>
__device__ __forceinline__ void visit_hits(const ProbeRows<1, 4>& characters, const ProbeRows<1, 4>& bigrams,
                                           const CodedStrings& build, u32 block, const Needed& least, Visit visit) {
#pragma unroll 2
    for (u32 column = block * BLOCK; column < (block + 1) * BLOCK; column += 8) {
        u32 hits = 0xffff;
        if (least.bigrams > 0) {
            hits = reaching(bigrams, build.bigrams + (u64)column * STEP, least.bigrams);
            if (!__any_sync(ALL_LANES, hits != 0)) continue;
        }
        if (least.characters > 0) hits &= reaching(characters, build.characters + (u64)column * STEP, least.characters);
        u32 g = lane_of_thread() >> 2, t = lane_of_thread() & 3;
        for (; hits != 0; hits &= hits - 1) {
            u32 i = __ffs(hits) - 1;
            visit(i / 4 * 16 + g + (i % 4 >> 1) * 8, column + t * 2 + (i & 1));
        }
        __syncwarp();
    }
}
