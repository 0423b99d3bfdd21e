// What every kernel file uses: integer types, the append that never truncates, and warp-wide vocabulary.
// Assumes nothing; includes nothing. Compiles under NVRTC, nvcc and, through emulator/device.h, as plain C++.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

// A pointer that the host may leave null; build.py reads it.
#define NULLABLE

// Where a field lies in its structure, for the checks in layout/.
#if defined(__CUDACC_RTC__)
#define OFFSET_OF(Struct, field) __INTADDR__(&((Struct*)0)->field)
#else
#define OFFSET_OF(Struct, field) __builtin_offsetof(Struct, field)
#endif

constexpr u32 WARP_LANES = 32;  // for the host
constexpr u32 ALL_LANES = 0xffffffffu;

// Positions of a block.
#define BLOCK 64  // for the host

__device__ __forceinline__ u32 blocks_of(u32 count) { return (count + BLOCK - 1) / BLOCK; }

// One block of threads' share: a run of probe blocks against a range of build blocks.
struct Task {
    u32 probe;
    u32 first;
    u32 end;
};

// A hash of one word more. Every step can be undone, so that hashes of what differs in one word differ.
__device__ __forceinline__ u64 mix(u64 hash, u64 word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
    return hash ^ hash >> 29;
}

// Two row numbers.
struct Pair {
    u32 build;
    u32 probe;
};

// Appends `pair` to `pairs`: always counted, written only below `capacity`. Whoever launches sees the count, and where
// it exceeds the capacity launches again with less work.
__device__ __forceinline__ void append(Pair pair, Pair* pairs, u64* count, u64 capacity) {
    u64 at = atomicAdd(count, (u64)1);
    if (at < capacity) pairs[at] = pair;
}

// How many of the pairs that were appended are worth a look: none where some are missing, as all of them are found
// again.
__device__ __forceinline__ u64 all_of(const u64* count, u64 capacity) { return *count <= capacity ? *count : 0; }

__device__ __forceinline__ u32 lane_of_thread() { return threadIdx.x % WARP_LANES; }

// The number of this thread in the whole grid, and how many there are: for loops over more items than threads.
__device__ __forceinline__ u64 thread_in_grid() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads_in_grid() { return (u64)gridDim.x * blockDim.x; }

// A number that is no smaller, in single precision.
__device__ __forceinline__ float above(double x) { return (float)(x + fabs(x) * 1e-6 + 1e-37); }

// The first of `low..high` for which `holds` is true, if it stays true once it is; else `high`.
template <class Holds>
__device__ __forceinline__ u32 first_true(u32 low, u32 high, Holds holds) {
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (holds(middle)) high = middle;
        else low = middle + 1;
    }
    return low;
}

// The sum of `value` over the lanes up to and including the caller's.
template <class Number>
__device__ __forceinline__ Number warp_inclusive_sum(Number value) {
#pragma unroll
    for (u32 step = 1; step < WARP_LANES; step *= 2) {
        Number below = __shfl_up_sync(ALL_LANES, value, step);
        if (lane_of_thread() >= step) value += below;
    }
    return value;
}

// The sum of `value` over the threads before the caller; `total` receives the sum over the block's THREADS threads, all
// of which call it.
template <u32 THREADS, class Number>
__device__ __forceinline__ Number block_exclusive_sum(Number value, Number* total) {
    __shared__ Number sums[THREADS / WARP_LANES];
    u32 lane = lane_of_thread(), warp = threadIdx.x / WARP_LANES;
    Number inclusive = warp_inclusive_sum(value);
    __syncthreads();
    if (lane == WARP_LANES - 1) sums[warp] = inclusive;
    __syncthreads();
    Number before = 0, all = 0;
#pragma unroll
    for (u32 w = 0; w < THREADS / WARP_LANES; w++) {
        if (w == warp) before = all;
        all += sums[w];
    }
    *total = all;
    return before + inclusive - value;
}
