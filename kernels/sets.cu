// Set similarity joins: lossless signatures for all pairs of two sides, exact overlaps for what is left.
//
//   ranked tokens --set_signatures--> signature, size, bits set, sort key of each row
//                 --(sort.cu)-------> positions by (group, size, bits set)
//                 --set_gather------> columns in that order, padded to whole blocks of BLOCK positions
//                 --set_summaries---> what all rows of a block have in common
//                 --set_windows-----> which build blocks a probe block can match by group and size
//                 --set_filter------> pairs whose signatures allow a match
//                 --set_verify------> pairs that match, decided by the measure itself
//
// Where nearly all tokens are among the most frequent ones, as 2-grams are, set_frequent gives each of these a bit of its
// own, and set_verify_frequent counts common bits: one thread a candidate instead of a warp.
//
// A bit of a signature stands for several tokens. Two sets share at most as many tokens as bits, and beyond that at
// most as many as the smaller number of tokens that share a bit with another on either side:
//     overlap <= popcount(a & b) + min(tokens of a - bits of a, tokens of b - bits of b)
// so that a pair with fewer common bits than the least overlap less that excess cannot match (the bitmap filter of
// Sandes, Teodoro and Melo, 2017; blocks sorted by size as in sf-gSSJoin, section 6). With compute capability 8.0
// the bits are counted by binary tensor cores; otherwise by popcounts. Both keep the same pairs.

// targets: sm75, sm80
#include "common.cuh"
#include "sets.cuh"
#include "signature_tile.cuh"

// The bit of a token: the most frequent tokens, of the highest ranks, are dealt out first and share no bit.
__device__ __forceinline__ u32 bit_of(u32 rank, u32 ranks, u32 bits) {
    u32 from_top = ranks - 1 - rank;
    u32 place = from_top % bits;
    return (from_top / bits) % 2 == 0 ? place : bits - 1 - place;
}

// One warp a row: its signature of `words` words (at most 64), the bits it sets and its sort key.
extern "C" __global__ void __launch_bounds__(256) set_signatures(const u64* starts, const u32* tokens, const u32* sizes,
                                                                 const u32* NULLABLE groups, u32 count, u32 ranks,
                                                                 u32 words, u32* signatures, u32* ones, u64* keys,
                                                                 u32* order) {
    __shared__ u32 bits[8][64];
    u32 lane = lane_of_thread(), warp = threadIdx.x >> 5;
    u32 row = blockIdx.x * 8 + warp;
    for (u32 w = lane; w < words; w += 32) bits[warp][w] = 0;
    __syncwarp();
    if (row >= count) return;
    u64 end = starts[row + 1];
    for (u64 at = starts[row] + lane; at < end; at += 32) {
        u32 bit = bit_of(tokens[at], ranks, words * 32);
        atomicOr(&bits[warp][bit / 32], 1u << (bit % 32));
    }
    __syncwarp();
    u32 set = 0;
    for (u32 w = lane; w < words; w += 32) {
        signatures[(u64)row * words + w] = bits[warp][w];
        set += __popc(bits[warp][w]);
    }
    for (u32 offset = 16; offset > 0; offset /= 2) set += __shfl_xor_sync(ALL_LANES, set, offset);
    if (lane == 0) {
        ones[row] = set;
        u32 group = groups ? groups[row] : 0;
        keys[row] =
            (u64)group << (SIZE_BITS + ONES_BITS) | (u64)min(sizes[row], MOST_SIZE) << ONES_BITS | min(set, MOST_ONES);
        order[row] = row;
    }
}

// One thread a word of a position: columns in the order of `order`. Positions from `count` to `padded` get empty sets.
extern "C" __global__ void __launch_bounds__(256) set_gather(const u32* order, u32 count, u32 padded, u32 words,
                                                             const u32* signatures, const u32* sizes, const u32* ones,
                                                             const u32* NULLABLE groups, const u32* rows,
                                                             const u64* starts, u32* out_signatures, u32* out_sizes,
                                                             u32* out_known, u32* out_ones, u32* out_groups,
                                                             u32* out_rows, u64* out_starts) {
    for (u64 at = thread_in_grid(); at < (u64)padded * words; at += threads_in_grid()) {
        u32 position = (u32)(at / words), word = (u32)(at % words);
        bool is_set = position < count;
        u32 row = is_set ? order[position] : 0;
        out_signatures[at] = is_set ? signatures[(u64)row * words + word] : 0;
        if (word != 0) continue;
        out_sizes[position] = is_set ? sizes[row] : 0;
        out_known[position] = is_set ? (u32)(starts[row + 1] - starts[row]) : 0;
        out_ones[position] = is_set ? ones[row] : 0;
        out_groups[position] = is_set && groups ? groups[row] : 0;
        out_rows[position] = is_set ? rows[row] : 0;
        out_starts[position] = is_set ? starts[row] : 0;
    }
}

// One thread a block of positions.
extern "C" __global__ void __launch_bounds__(128) set_summaries(const u32* sizes, const u32* known, const u32* ones,
                                                                const u32* groups, u32 count, Summary* summaries) {
    u32 block = blockIdx.x * blockDim.x + threadIdx.x;
    u32 first = block * BLOCK;
    if (first >= count) return;
    u32 end = min(count, first + BLOCK);
    Summary s;
    s.least_size = 0xffffffffu;
    s.most_size = s.most_excess = s.most_ones = 0;
    for (u32 at = first; at < end; at++) {
        s.least_size = min(s.least_size, sizes[at]);
        s.most_size = max(s.most_size, sizes[at]);
        s.most_excess = max(s.most_excess, known[at] - ones[at]);
        s.most_ones = max(s.most_ones, ones[at]);
    }
    s.first_group = groups[first];
    s.last_group = groups[end - 1];
    s.first_size = sizes[first];
    s.last_size = sizes[end - 1];
    summaries[block] = s;
}

// One thread a probe block from `first` on: the range of build blocks that hold all partners of its sets, by group and
// size. With `self_join` only those from the block itself on.
extern "C" __global__ void __launch_bounds__(128) set_windows(Sets probe, Sets build, SetCondition test, u32 first,
                                                              u32 end, u32 self_join, u32* firsts, u32* ends) {
    u32 block = first + blockIdx.x * blockDim.x + threadIdx.x;
    if (block >= end) return;
    Summary s = probe.summaries[block];
    u64 low = place(s.first_group, 0), high = place(s.last_group, MOST_SIZE);
    if (s.first_group == s.last_group) {
        double least = floor(s.least_size * test.build_of_probe * (1.0 - SLACK));
        // without a bound it is infinite
        double most = ceil(s.most_size / test.probe_of_build * (1.0 + SLACK));
        low = place(s.first_group, (u32)max(least, 0.0));
        high = place(s.first_group, most < MOST_SIZE ? (u32)most : MOST_SIZE);
    }
    const Summary* blocks = build.summaries;
    u32 all = blocks_of(build.count);
    u32 from = first_true(self_join ? block : 0, all,
                          [&](u32 b) { return place(blocks[b].last_group, blocks[b].last_size) >= low; });
    u32 to = first_true(from, all, [&](u32 b) { return place(blocks[b].first_group, blocks[b].first_size) > high; });
    firsts[block - first] = from;
    ends[block - first] = to;
}

// The common bits that two blocks' pairs need at least, or more than any has where none can match.
__device__ __forceinline__ int needed(const SetCondition& test, const Summary& probe, const Summary& build) {
    bool together = probe.first_group <= build.last_group && build.first_group <= probe.last_group;
    SetSizes least;
    least.build = build.least_size;
    least.probe = probe.least_size;
    int bits = (int)set_least_overlap(test, least) - (int)min(probe.most_excess, build.most_excess);
    bool reachable = bits <= (int)min(probe.most_ones, build.most_ones);
    return together && reachable ? bits : 0x7fffffff;
}

// Keeps a pair that has passed for its blocks if it passes for itself.
template <int W>
__device__ __forceinline__ void keep(const Sets& probe, const Sets& build, const SetCondition& test, u32 self_join,
                                     u32 p, u32 b, Pair* pairs, u64* count, u64 capacity) {
    if (b >= build.count || (self_join && b <= p) || !signatures_allow(probe, build, test, W * STEP, p, b)) return;
    Pair pair;
    pair.build = b;
    pair.probe = p;
    append(pair, pairs, count, capacity);
}

// One block of 4 warps a task, each warp with Q * 16 probe rows.
template <int W, int Q>
__device__ __forceinline__ void filter(const Sets& probe, const Sets& build, const SetCondition& test,
                                       const Task* tasks, u32 self_join, u32 begin, u32 end, Pair* pairs, u64* count,
                                       u64 capacity) {
    Task task = tasks[blockIdx.x];
    u32 row = task.probe * BLOCK + (threadIdx.x >> 5) * (Q * 16);
    if (row >= end) return;
    Summary rows = probe.summaries[row / BLOCK];
    ProbeRows<W, Q> held;
    held.load(probe.signatures, row);
    u32 first = self_join ? max(task.first, row / BLOCK) : task.first;
    for (u32 block = first; block < task.end; block++) {
        int least = needed(test, rows, build.summaries[block]);
        if (least == 0x7fffffff) continue;
        visit_reaching(held, build.signatures, block, least, [&](u32 at, u32 b) {
            u32 p = row + at;
            if (p >= begin && p < end) keep<W>(probe, build, test, self_join, p, b, pairs, count, capacity);
        });
    }
}

// One block of 4 warps a task: appends the positions of pairs whose signatures of so many bits allow a match. Probe
// positions `begin..end` count.
#define FILTER(name, W, Q)                                                                                       \
    extern "C" __global__ void __launch_bounds__(128) name(Sets probe, Sets build, SetCondition test,            \
                                                           const Task* tasks, u32 self_join, u32 begin, u32 end, \
                                                           Pair* pairs, u64* count, u64 capacity) {              \
        filter<W, Q>(probe, build, test, tasks, self_join, begin, end, pairs, count, capacity);                  \
    }
FILTER(set_filter_256, 1, 4)
FILTER(set_filter_512, 2, 4)
FILTER(set_filter_1024, 4, 2)
FILTER(set_filter_2048, 8, 1)

// One warp a candidate, none where some have found no room: row numbers of those that match.
extern "C" __global__ void __launch_bounds__(256) set_verify(Sets probe, Sets build, SetCondition test,
                                                             const Pair* candidates, const u64* candidate_count,
                                                             u64 capacity, Pair* pairs, u64* count, u64 pair_capacity) {
    u64 all = all_of(candidate_count, capacity);
    for (u64 at = thread_in_grid() / 32; at < all; at += threads_in_grid() / 32) {
        Pair candidate = candidates[at];
        u32 p = candidate.probe, b = candidate.build;
        u32 common = overlap(probe, p, build, b);
        if (lane_of_thread() != 0 || common == 0) continue;
        if (!set_accepts(test, common, sizes_of(build, b, probe, p))) continue;
        Pair pair;
        pair.build = build.rows[b];
        pair.probe = probe.rows[p];
        append(pair, pairs, count, pair_capacity);
    }
}

// What is known of the most frequent tokens of a set: a bit each in FREQUENT_BITS words, then up to MOST_OTHERS of the
// other tokens, then how many others there are.
#define FREQUENT_BITS 32  // for the host
#define MOST_OTHERS 3
#define FREQUENT_WORDS (FREQUENT_BITS + MOST_OTHERS + 1)  // for the host

// The place of a token among the most frequent ones, or FREQUENT_BITS * 32 and more.
__device__ __forceinline__ u32 frequent_place(u32 rank, u32 ranks) { return ranks - 1 - rank; }

// One warp a position: which of the most frequent tokens its set has, and the others.
extern "C" __global__ void __launch_bounds__(256) set_frequent(const u64* starts, const u32* known, const u32* tokens,
                                                               u32 count, u32 ranks, u32* frequent) {
    __shared__ u32 found[8][FREQUENT_WORDS];
    u32 lane = lane_of_thread(), warp = threadIdx.x >> 5;
    u32 position = blockIdx.x * 8 + warp;
    for (u32 w = lane; w < FREQUENT_WORDS; w += 32) found[warp][w] = 0;
    __syncwarp();
    if (position >= count) return;
    const u32* own = tokens + starts[position];
    u32 all = known[position];
    for (u32 at = lane; at < all; at += 32) {
        u32 token = own[at], place = frequent_place(token, ranks);
        if (place < FREQUENT_BITS * 32) {
            atomicOr(&found[warp][place / 32], 1u << (place % 32));
            continue;
        }
        u32 other = atomicAdd(&found[warp][FREQUENT_WORDS - 1], 1u);
        if (other < MOST_OTHERS) found[warp][FREQUENT_BITS + other] = token;
    }
    __syncwarp();
    for (u32 w = lane; w < FREQUENT_WORDS; w += 32) frequent[(u64)position * FREQUENT_WORDS + w] = found[warp][w];
}

// Sixteen bytes, read at once.
struct __align__(16) FourWords { u32 words[4]; };

// The tokens that two sets share which are none of the most frequent ones, where one set has more than are listed.
__device__ __forceinline__ u32 other_overlap(const Sets& left, u32 l, const Sets& right, u32 r, u32 ranks) {
    const u32 *lefts = left.tokens + left.starts[l], *rights = right.tokens + right.starts[r];
    u32 common = 0;
    for (u32 at = 0; at < left.known[l]; at++) {
        u32 token = lefts[at];
        if (frequent_place(token, ranks) < FREQUENT_BITS * 32) continue;
        for (u32 other = 0; other < right.known[r]; other++) common += rights[other] == token;
    }
    return common;
}

// The tokens that the sets at two positions share.
__device__ __forceinline__ u32 frequent_overlap(const Sets& probe, const u32* of_probe, u32 p, const Sets& build,
                                                const u32* of_build, u32 b, u32 ranks) {
    const FourWords* left = (const FourWords*)(of_probe + (u64)p * FREQUENT_WORDS);
    const FourWords* right = (const FourWords*)(of_build + (u64)b * FREQUENT_WORDS);
    u32 common = 0;
#pragma unroll
    for (int at = 0; at < FREQUENT_BITS / 4; at++) {
        FourWords x = left[at], y = right[at];
#pragma unroll
        for (int w = 0; w < 4; w++) common += __popc(x.words[w] & y.words[w]);
    }
    FourWords x = left[FREQUENT_BITS / 4], y = right[FREQUENT_BITS / 4];
    u32 lefts = x.words[MOST_OTHERS], rights = y.words[MOST_OTHERS];
    if (lefts == 0 || rights == 0) return common;
    if (lefts > MOST_OTHERS || rights > MOST_OTHERS) return common + other_overlap(probe, p, build, b, ranks);
#pragma unroll
    for (u32 l = 0; l < MOST_OTHERS; l++) {
#pragma unroll
        for (u32 r = 0; r < MOST_OTHERS; r++) common += l < lefts && r < rights && x.words[l] == y.words[r];
    }
    return common;
}

// One thread a candidate, none where some have found no room: row numbers of those that match.
extern "C" __global__ void __launch_bounds__(256) set_verify_frequent(Sets probe, Sets build, SetCondition test,
                                                                      const u32* of_probe, const u32* of_build,
                                                                      u32 ranks, const Pair* candidates,
                                                                      const u64* candidate_count, u64 capacity,
                                                                      Pair* pairs, u64* count, u64 pair_capacity) {
    u64 all = all_of(candidate_count, capacity);
    for (u64 at = thread_in_grid(); at < all; at += threads_in_grid()) {
        Pair candidate = candidates[at];
        u32 p = candidate.probe, b = candidate.build;
        u32 common = frequent_overlap(probe, of_probe, p, build, of_build, b, ranks);
        if (common == 0 || !set_accepts(test, common, sizes_of(build, b, probe, p))) continue;
        Pair pair;
        pair.build = build.rows[b];
        pair.probe = probe.rows[p];
        append(pair, pairs, count, pair_capacity);
    }
}

#include "layout/sets.cuh"
