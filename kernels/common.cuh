// What every kernel file uses: integer types, the append that never truncates, and warp-wide vocabulary.
// Assumes nothing; includes nothing. Compiles under NVRTC, nvcc and, through emulator/device.h, as plain C++.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

constexpr u32 WARP_LANES = 32;
constexpr u32 ALL_LANES = 0xffffffffu;

// Positions of a block.
#define BLOCK 64

__device__ __forceinline__ u32 blocks_of(u32 count) { return (count + BLOCK - 1) / BLOCK; }

// One block of threads' share: a run of probe blocks against a range of build blocks.
struct Task {
    u32 probe;
    u32 first;
    u32 end;
};

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

__device__ __forceinline__ u32 lane_of_thread() { return threadIdx.x % WARP_LANES; }

// The number of this thread in the whole grid, and how many there are: for loops over more items than threads.
__device__ __forceinline__ u64 thread_in_grid() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads_in_grid() { return (u64)gridDim.x * blockDim.x; }

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
