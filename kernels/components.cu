// Connected components over ids of 64 bits, while their links still come.
//
//   links     --link_ids-----> ids in a hash table, and trees over its slots
//   the table --move_ids-----> the ids in a larger table, and the slot there of each
//             --move_trees---> the trees over the slots of that
//             --find_least---> the least id of each tree
//             --write_least--> each id with the least one of its tree
//
// A link hangs the root with the greater slot below the one with the smaller slot. Slots are hashes, so that trees stay
// low whatever the order of the ids is (randomised linking: Goel and others, 2014). Threads need no lock: a root
// changes by compare-and-swap alone, and is never a root again (Anderson and Woll, 1991). A walk to a root halves the
// path behind it (ECL-CC: Jaiganesh and Burtscher, 2018).
#include "common.cuh"

#define THREADS 256

// What a slot without an id holds. The id of this value has a slot of its own behind all others, which holds 1.
#define NO_ID 0ull

// A hash table that probes one slot after the other, and a tree of slots for each component.
struct IdTable {
    // Id of each slot.
    u64* ids;
    // The slot above each, and 1; 0 for a root.
    u32* above;
    // Slots that hashes lead to, a power of two, less 1.
    u32 mask;
    u32 unused;
};

// What other threads write meanwhile is read past the first cache, which would keep what was.
__device__ __forceinline__ u64 id_in(const IdTable& table, u32 slot) { return __ldcg(&table.ids[slot]); }

__device__ __forceinline__ u32 above_of(const IdTable& table, u32 slot) { return __ldcg(&table.above[slot]); }

__device__ __forceinline__ bool is_in_table(const IdTable& table, u32 slot) {
    return slot <= table.mask + 1 && id_in(table, slot) != NO_ID;
}

__device__ __forceinline__ u64 id_of(const IdTable& table, u32 slot) {
    return slot > table.mask ? NO_ID : id_in(table, slot);
}

// The slot of an id. An id that has none takes one, and is counted.
__device__ __forceinline__ u32 slot_of(const IdTable& table, u64 id, u32* added) {
    if (id == NO_ID) {
        u32 slot = table.mask + 1;
        if (id_in(table, slot) == NO_ID) *added += atomicCAS(&table.ids[slot], NO_ID, 1ull) == NO_ID;
        return slot;
    }
    for (u32 slot = (u32)mix(0, id) & table.mask;; slot = (slot + 1) & table.mask) {
        u64 there = id_in(table, slot);
        if (there == NO_ID) {
            there = atomicCAS(&table.ids[slot], NO_ID, id);
            if (there == NO_ID) {
                (*added)++;
                return slot;
            }
        }
        if (there == id) return slot;
    }
}

// The root above a slot. What is written may be older than what another thread has written there, and is above the slot
// all the same.
__device__ __forceinline__ u32 root_of(const IdTable& table, u32 slot) {
    for (u32 above = above_of(table, slot); above != 0; above = above_of(table, slot)) {
        u32 next = above_of(table, above - 1);
        if (next == 0) return above - 1;
        table.above[slot] = next;
        slot = next - 1;
    }
    return slot;
}

// Makes one tree of two.
__device__ __forceinline__ void join_trees(const IdTable& table, u32 left, u32 right) {
    while (true) {
        left = root_of(table, left);
        right = root_of(table, right);
        if (left == right) return;
        u32 low = min(left, right), high = max(left, right);
        if (atomicCAS(&table.above[high], 0u, low + 1) == 0) return;
    }
}

// Adds `count` links: the ids of one end, then those of the other end. The table has room for all of them. Adds those
// that are new to `known`.
extern "C" __global__ void __launch_bounds__(THREADS) link_ids(IdTable table, const u64* ends, u32 count, u64* known) {
    u32 added = 0, all;
    for (u64 at = thread_in_grid(); at < count; at += threads_in_grid()) {
        u32 left = slot_of(table, ends[at], &added), right = slot_of(table, ends[count + at], &added);
        if (left != right) join_trees(table, left, right);
    }
    block_exclusive_sum<THREADS>(added, &all);
    if (threadIdx.x == 0 && all > 0) atomicAdd(known, (u64)all);
}

// One thread a slot of `from`: its id takes a slot of `to`, which is written to `moved`.
extern "C" __global__ void __launch_bounds__(THREADS) move_ids(IdTable from, IdTable to, u32* moved) {
    u32 slot = blockIdx.x * THREADS + threadIdx.x, added = 0;
    if (is_in_table(from, slot)) moved[slot] = slot_of(to, id_of(from, slot), &added);
}

// One thread a slot of `from`: where its id has moved, it hangs below its root.
extern "C" __global__ void __launch_bounds__(THREADS) move_trees(IdTable from, IdTable to, const u32* moved) {
    u32 slot = blockIdx.x * THREADS + threadIdx.x;
    if (!is_in_table(from, slot)) return;
    u32 root = root_of(from, slot);
    if (root != slot) to.above[moved[slot]] = moved[root] + 1;
}

// One thread a slot: it hangs below its root, and `least`, zeros at first, has the complement of the least id of each
// root. The order of ids is that of `id ^ sign` without a sign.
extern "C" __global__ void __launch_bounds__(THREADS) find_least(IdTable table, u64 sign, u64* least) {
    u32 slot = blockIdx.x * THREADS + threadIdx.x;
    if (!is_in_table(table, slot)) return;
    u32 root = root_of(table, slot);
    if (root != slot) table.above[slot] = root + 1;
    u64 place = ~(id_of(table, slot) ^ sign);
    // most ids of a large tree see that they are not the least one, and do not wait for each other
    if (place > __ldcg(&least[root])) atomicMax(&least[root], place);
}

// One thread a slot, whose id comes with the least one of its tree; `written` counts them, from 0 on.
extern "C" __global__ void __launch_bounds__(THREADS) write_least(IdTable table, u64 sign, const u64* least, u64* ids,
                                                                  u64* clusters, u64* written) {
    __shared__ u64 first;
    u32 slot = blockIdx.x * THREADS + threadIdx.x, all;
    bool is_one = is_in_table(table, slot);
    u32 before = block_exclusive_sum<THREADS>((u32)is_one, &all);
    if (threadIdx.x == 0) first = atomicAdd(written, (u64)all);
    __syncthreads();
    if (!is_one) return;
    ids[first + before] = id_of(table, slot);
    clusters[first + before] = ~least[root_of(table, slot)] ^ sign;
}

#include "layout/components.cuh"
