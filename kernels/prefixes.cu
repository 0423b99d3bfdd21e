// Prefix filter of set similarity joins: pairs of sets by the rarest tokens that they share, where those are rare.
//
//   sets --prefix_lengths--> how many of its rarest tokens a set shares one of with every partner
//        --prefix_tokens---> these tokens, set by set, ascending
//        --(sort.cu)-------> postings: the build positions of each token, ascending
//        --prefix_starts---> where the postings of each token start
//        --prefix_ranges---> for each token of a probe prefix the postings that group and size allow, counted
//        --prefix_filter---> pairs whose signatures allow a match, each once
//        --(sets.cu)-------> those that match
//
// If a pair has a least overlap, then the rarest token that it shares is followed, in either set, by the rest of the
// overlap; so it is among the first tokens, all but least overlap - 1 of them (Chaudhuri, Ganti and Kaushik, 2006;
// Bayardo, Ma and Srikant, 2007; the shorter prefix of one side where its partners are no smaller: Xiao et al., PPJoin,
// 2008). A match is found by that token and by no other.
#include "common.cuh"
#include "postings.cuh"
#include "sets.cuh"

// The prefixes of one side, in the order of positions.
struct Prefixes {
    // Where the tokens of each position start; one more than positions.
    const u32* starts;
    const u32* tokens;
};

// What the tokens of the probe prefixes are compared with: for each of them some postings.
struct Ranges {
    // The first posting.
    const u32* firsts;
    // How many postings the tokens of the same block before this one have.
    const u32* offsets;
};

#define THREADS 128

// How many of the rarest tokens of a set, of the build or the probe side, hold the rarest one that it shares with a
// partner of at least `partner` tokens.
__device__ __forceinline__ u32 prefix_length(const Sets& sets, const SetCondition& test, bool is_build, u32 position,
                                             u32 partner) {
    SetSizes sizes;
    sizes.build = is_build ? sets.sizes[position] : partner;
    sizes.probe = is_build ? partner : sets.sizes[position];
    u32 known = sets.known[position], least = set_least_overlap(test, sizes);
    return known >= least ? known - least + 1 : 0;
}

// The least size of a partner of a set of the build or the probe side.
__device__ __forceinline__ u32 least_partner(const Sets& sets, const SetCondition& test, bool is_build, u32 position) {
    double share = is_build ? test.probe_of_build : test.build_of_probe;
    return (u32)max(floor(sets.sizes[position] * share * (1.0 - SLACK)), 1.0);
}

// The prefix length of a probe set: with `self_join` only partners that come after it, which are no smaller.
__device__ __forceinline__ u32 asked_length(const Sets& probe, const SetCondition& test, u32 self_join, u32 position) {
    u32 partner = self_join ? min(probe.sizes[position], MOST_SIZE) : least_partner(probe, test, false, position);
    return prefix_length(probe, test, false, position, partner);
}

// One thread a position of the build or the probe side.
extern "C" __global__ void __launch_bounds__(256) prefix_lengths(Sets sets, SetCondition test, u32 is_build,
                                                                 u32* lengths) {
    for (u64 at = thread_in_grid(); at < sets.count; at += threads_in_grid())
        lengths[at] =
            prefix_length(sets, test, is_build != 0, (u32)at, least_partner(sets, test, is_build != 0, (u32)at));
}

// One warp a position: its prefix by ascending rank; with `keys` also what to sort postings by.
extern "C" __global__ void __launch_bounds__(256) prefix_tokens(Sets sets, const u32* starts, u32* tokens,
                                                                u64* NULLABLE keys, u32* NULLABLE positions) {
    u32 lane = lane_of_thread();
    for (u64 at = thread_in_grid() / WARP_LANES; at < sets.count; at += threads_in_grid() / WARP_LANES) {
        const u32* set = sets.tokens + sets.starts[at];
        u32 first = starts[at], length = starts[at + 1] - first, known = sets.known[at];
        bool is_sorted = known > UNORDERED;
        for (u32 from = 0; length > 0 && from < (is_sorted ? length : known); from += WARP_LANES) {
            u32 token = from + lane < known ? set[from + lane] : 0xffffffffu;
            u32 place = from + lane;
            if (!is_sorted) {
                place = 0;
                for (u32 other = 0; other < known; other += WARP_LANES) {
                    u32 others = other + lane < known ? set[other + lane] : 0xffffffffu;
                    u32 held = min(known - other, WARP_LANES);
                    for (u32 l = 0; l < held; l++) place += __shfl_sync(ALL_LANES, others, l) < token;
                }
            }
            if (token == 0xffffffffu || place >= length) continue;
            tokens[first + place] = token;
            if (keys) {
                keys[first + place] = token;
                positions[first + place] = (u32)at;
            }
        }
    }
}

// One thread a token, and one more: where its postings start among `count` of them, in the order of `keys`.
extern "C" __global__ void __launch_bounds__(256) prefix_starts(const u64* keys, u32 count, u32 ranks, u32* starts) {
    for (u64 token = thread_in_grid(); token <= ranks; token += threads_in_grid())
        starts[token] = first_true(0, count, [&](u32 at) { return keys[at] >= token; });
}

// The position of a block whose prefix has the token at this place.
__device__ __forceinline__ u32 position_of(const Prefixes& prefixes, u32 block, u32 end, u32 place) {
    return first_true(block * BLOCK, end, [&](u32 position) { return prefixes.starts[position + 1] > place; });
}

// One block of threads a probe block: the postings of each token of its prefixes that lie in the build blocks
// `windows_first..windows_end` of the block, with `self_join` those of positions behind its own, and how many they are
// in all.
extern "C" __global__ void __launch_bounds__(THREADS) prefix_ranges(Sets probe, SetCondition test, Prefixes prefixes,
                                                                    Postings postings, const u32* window_firsts,
                                                                    const u32* window_ends, u32 self_join, u32* firsts,
                                                                    u32* offsets, u64* totals) {
    u32 block = blockIdx.x, end = min(probe.count, (block + 1) * BLOCK);
    u32 begin = window_firsts[block] * BLOCK, behind = window_ends[block] * BLOCK;
    u32 last = prefixes.starts[end];
    u64 before = 0, total;
    for (u32 from = prefixes.starts[block * BLOCK]; from < last; from += THREADS) {
        u32 place = from + threadIdx.x, first = 0, count = 0;
        if (place < last) {
            u32 position = position_of(prefixes, block, end, place);
            if (place - prefixes.starts[position] < asked_length(probe, test, self_join, position)) {
                u32 token = prefixes.tokens[place];
                u32 lowest = self_join ? max(begin, position + 1) : begin;
                u32 stop = postings.starts[token + 1];
                first =
                    first_true(postings.starts[token], stop, [&](u32 at) { return postings.positions[at] >= lowest; });
                count = first_true(first, stop, [&](u32 at) { return postings.positions[at] >= behind; }) - first;
            }
        }
        u64 offset = before + block_exclusive_sum<THREADS>((u64)count, &total);
        if (place < last) {
            firsts[place] = first;
            offsets[place] = (u32)offset;
        }
        before += total;
    }
    if (threadIdx.x == 0) totals[block] = before;
}

// Whether two prefixes share a token before the one at `place` of the probe side.
__device__ __forceinline__ bool share_a_rarer(const Prefixes& probe, const Prefixes& build, u32 p, u32 place, u32 b) {
    u32 from = build.starts[b], end = build.starts[b + 1];
    for (u32 at = probe.starts[p]; at < place; at++) {
        u32 token = probe.tokens[at];
        from = first_true(from, end, [&](u32 other) { return build.tokens[other] >= token; });
        if (from < end && build.tokens[from] == token) return true;
    }
    return false;
}

// One block of threads a task: the postings `first..end` of a probe block, of which those of probe positions in
// `begin..end` count. Appends the positions of pairs that signatures of `words` words let pass.
extern "C" __global__ void __launch_bounds__(THREADS) prefix_filter(Sets probe, Sets build, SetCondition test,
                                                                    Prefixes asked, Prefixes posted, Postings postings,
                                                                    Ranges ranges, const Task* tasks, u32 words,
                                                                    u32 begin, u32 end, Pair* pairs, u64* count,
                                                                    u64 capacity) {
    Task task = tasks[blockIdx.x];
    u32 behind = min(probe.count, (task.probe + 1) * BLOCK);
    u32 places = asked.starts[task.probe * BLOCK], places_end = asked.starts[behind];
    for (u32 number = task.first + threadIdx.x; number < task.end; number += THREADS) {
        u32 place = first_true(places, places_end, [&](u32 at) { return ranges.offsets[at] > number; }) - 1;
        Pair pair;
        pair.probe = position_of(asked, task.probe, behind, place);
        pair.build = postings.positions[ranges.firsts[place] + (number - ranges.offsets[place])];
        if (pair.probe < begin || pair.probe >= end) continue;
        if (!signatures_allow(probe, build, test, (int)words, pair.probe, pair.build)) continue;
        if (!share_a_rarer(asked, posted, pair.probe, place, pair.build)) append(pair, pairs, count, capacity);
    }
}

#include "layout/prefixes.cuh"
