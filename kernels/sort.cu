// One pass of a stable radix sort: (u64 key, u32 value) records ordered by one 8-bit digit of the key.
//
// A pass runs three kernels in turn: `radix_count` counts the digits of every tile, `radix_scan` turns the counts
// of a digit into offsets between its tiles, `radix_scatter` moves the records. Passes over the digits from the
// lowest to the highest sort by the whole key. README.md has the contracts.
//
// Assumes blocks of 256 threads and n < 2^32 (so at most 2^20 tiles, whose numbers never overflow). Guarantees that
// records of one digit keep their order, for any n. targets: sm75
#include "common.cuh"

constexpr u32 THREADS = 256;
constexpr u32 WARPS = THREADS / WARP_LANES;
constexpr u32 ITEMS = 16;
constexpr u32 TILE = THREADS * ITEMS;  // for the host
constexpr u32 DIGITS = 256;            // for the host
constexpr u32 SCAN_ITEMS = 8;

__device__ __forceinline__ u32 digit_of(u64 key, u32 shift) { return (u32)(key >> shift) & (DIGITS - 1); }

// How many of the `n` records the block's tile holds.
__device__ __forceinline__ u32 tile_length(u32 n) {
    u64 begin = (u64)blockIdx.x * TILE;
    return begin >= n ? 0 : (u32)min((u64)TILE, n - begin);
}

extern "C" __global__ void __launch_bounds__(THREADS) radix_count(const u64* __restrict__ keys, u32 n, u32 shift,
                                                                  u32* __restrict__ counts) {
    __shared__ u32 histogram[WARPS][DIGITS];
    u32 warp = threadIdx.x / WARP_LANES;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) histogram[w][threadIdx.x] = 0;
    __syncthreads();
    const u64* tile = keys + (u64)blockIdx.x * TILE;
    u32 length = tile_length(n);
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = item * THREADS + threadIdx.x;
        if (at < length) atomicAdd(&histogram[warp][digit_of(tile[at], shift)], 1u);
    }
    __syncthreads();
    u32 count = 0;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) count += histogram[w][threadIdx.x];
    counts[(u64)threadIdx.x * gridDim.x + blockIdx.x] = count;
}

// One warp a digit: its row of counts becomes the exclusive sums, its sum goes to `totals`. Each round loads
// SCAN_ITEMS counts a lane before it adds, so that the loads overlap.
extern "C" __global__ void __launch_bounds__(THREADS) radix_scan(u32* __restrict__ counts, u32* __restrict__ totals,
                                                                 u32 tiles) {
    u32 lane = threadIdx.x % WARP_LANES, digit = blockIdx.x * WARPS + threadIdx.x / WARP_LANES;
    u32* row = counts + (u64)digit * tiles;
    u32 running = 0;
    for (u32 begin = 0; begin < tiles; begin += SCAN_ITEMS * WARP_LANES) {
        u32 loaded[SCAN_ITEMS];
#pragma unroll
        for (u32 item = 0; item < SCAN_ITEMS; item++) {
            u32 at = begin + item * WARP_LANES + lane;
            loaded[item] = at < tiles ? row[at] : 0;
        }
#pragma unroll
        for (u32 item = 0; item < SCAN_ITEMS; item++) {
            if (begin + item * WARP_LANES >= tiles) break;
            u32 at = begin + item * WARP_LANES + lane;
            u32 inclusive = warp_inclusive_sum(loaded[item]);
            if (at < tiles) row[at] = running + inclusive - loaded[item];
            running += __shfl_sync(ALL_LANES, inclusive, WARP_LANES - 1);
        }
    }
    if (lane == 0) totals[digit] = running;
}

// The rank of each of the thread's items among the warp's items of the same digit, in the order of memory;
// `histogram` is the warp's self_join and ends as its digit counts. Items beyond the tile have digit DIGITS.
__device__ __forceinline__ void rank_in_warp(const u32 (&digits)[ITEMS], u32 (&ranks)[ITEMS], u32* histogram) {
    u32 lanes_below = (1u << threadIdx.x % WARP_LANES) - 1;
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 peers = __match_any_sync(ALL_LANES, digits[item]);
        u32 before = __popc(peers & lanes_below);
        u32 seen = histogram[digits[item]];
        __syncwarp();
        if (before == 0) histogram[digits[item]] = seen + __popc(peers);
        __syncwarp();
        ranks[item] = seen + before;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) radix_scatter(
    const u64* __restrict__ keys_in, const u32* __restrict__ values_in, u64* __restrict__ keys_out,
    u32* __restrict__ values_out, u32 n, u32 shift, const u32* __restrict__ counts, const u32* __restrict__ totals) {
    __shared__ u64 sorted_keys[TILE];
    __shared__ u32 histogram[WARPS][DIGITS + 1];
    __shared__ u32 target[DIGITS];
    u32* sorted_values = (u32*)sorted_keys;
    u32 warp = threadIdx.x / WARP_LANES, digit = threadIdx.x;
    u32 length = tile_length(n);
    u64 tile = (u64)blockIdx.x * TILE;
    // A warp takes consecutive records, its lanes neighbours, so that the order of (item, lane) is that of memory.
    u32 first = warp * (ITEMS * WARP_LANES) + threadIdx.x % WARP_LANES;

    u64 keys[ITEMS];
    u32 digits[ITEMS], ranks[ITEMS];
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = first + item * WARP_LANES;
        keys[item] = at < length ? keys_in[tile + at] : 0;
        digits[item] = at < length ? digit_of(keys[item], shift) : DIGITS;
    }
    for (u32 i = threadIdx.x % WARP_LANES; i <= DIGITS; i += WARP_LANES) histogram[warp][i] = 0;
    __syncwarp();
    rank_in_warp(digits, ranks, histogram[warp]);
    __syncthreads();

    // The thread's digit: where each warp's share of it begins in the sorted tile, and the tile's share in the output.
    u32 in_tile = 0;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) in_tile += histogram[w][digit];
    u32 total;
    u32 begin = block_exclusive_sum<THREADS>(in_tile, &total);
    u32 smaller = block_exclusive_sum<THREADS>(totals[digit], &total);
    target[digit] = smaller + counts[(u64)digit * gridDim.x + blockIdx.x] - begin;
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) {
        u32 share = histogram[w][digit];
        histogram[w][digit] = begin;
        begin += share;
    }
    __syncthreads();

#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        if (digits[item] == DIGITS) continue;
        ranks[item] += histogram[warp][digits[item]];
        sorted_keys[ranks[item]] = keys[item];
    }
    __syncthreads();

    u32 places[ITEMS];
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = item * THREADS + threadIdx.x;
        if (at >= length) continue;
        u64 key = sorted_keys[at];
        places[item] = target[digit_of(key, shift)] + at;  // modulo 2^32: the sum itself is below n
        keys_out[places[item]] = key;
    }
    __syncthreads();

    // The values take the same way through the same memory.
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        if (digits[item] != DIGITS) sorted_values[ranks[item]] = values_in[tile + first + item * WARP_LANES];
    }
    __syncthreads();
#pragma unroll
    for (u32 item = 0; item < ITEMS; item++) {
        u32 at = item * THREADS + threadIdx.x;
        if (at < length) values_out[places[item]] = sorted_values[at];
    }
}

#include "layout/sort.cuh"
