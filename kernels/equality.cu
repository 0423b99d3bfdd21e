// Dense numbers for the values of equality keys: equal values have one number, and rows of one number lie side by side.
//
//   strings as Arrow has them --key_strings--> a record of each row: a hash of its string, and the row
//   whole numbers             --key_numbers--> a record of each row: how far the number is above the least one, and the row
//   numbers of two keys       --key_pairs----> a record of each row: both, and the row
//                             --(sort.cu)----> records of equal keys side by side, rows ascending
//                             --key_heads----> how many records of each tile are the first of their key, and how many have a number
//                             --key_offsets--> how many there are before each tile
//                             --key_groups---> the number of each row, the rows by number, where those of each start, and its key
//   keys of other rows        --key_find-----> the number that each has among those
//
// A hash stands for its string: neighbours of one hash are compared, and where two differ nothing that comes after is
// of use.
#include "common.cuh"
#include "arrow_strings.cuh"

#define THREADS 256
// Records of a tile.
#define TILE 2048  // for the host

// What rows without a value have instead of a number.
#define NO_NUMBER 0xffffffffu

// Records in the order of their keys.
struct Records {
    const u64* keys;
    const u32* rows;
    // The key of rows without a value, greater than all others.
    u64 none;
    u32 count;
    // Whether rows without a value are a value's: they have a number like any other.
    u32 none_is_one;
    // Whether a row has a number only where another has the same key.
    u32 only_pairs;
    u32 unused;
};

// Keys that have a number: these, ascending, the one at n being of number n, and the rows of each, as key_groups writes
// them.
struct Known {
    const u64* keys;
    const u32* NULLABLE starts;
    const u32* NULLABLE rows;
    u32 count;
    u32 unused;
};

// What is counted of records: the numbers, the records that have one, those that have a value, and neighbours of one
// key whose strings differ.
struct Counted {
    u64 numbers;
    u64 records;
    u64 valued;
    u64 different;
};

// One thread a row. The key of a NULL is 2^63, all others are below.
extern "C" __global__ void __launch_bounds__(THREADS) key_strings(ArrowStrings strings, u64* keys, u32* rows) {
    u32 row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= strings.count) return;
    rows[row] = row;
    if (!is_valid(strings, row)) {
        keys[row] = 1ull << 63;
        return;
    }
    const u64* view = (const u64*)(strings.views + (u64)row * 16);
    u32 length;
    const u8* text = bytes_of(strings, row, &length);
    u64 hash = mix(0, view[0]);
    if (length <= INLINE_BYTES) {
        hash = mix(hash, view[1]);
    } else {
        for (u32 at = 4; at < length; at += 8) {
            u64 word = 0;
            for (u32 byte = 0; byte < min(8u, length - at); byte++) word |= (u64)text[at + byte] << 8 * byte;
            hash = mix(hash, word);
        }
    }
    keys[row] = hash >> 1;
}

// One thread a row. `valid` has a bit a row from bit `first_bit` on, and is none where no row is NULL. The key of a
// NULL is `none`; numbers that are `none` and more above `least`, or below it, have the one behind it.
extern "C" __global__ void __launch_bounds__(THREADS) key_numbers(const i64* numbers, const u8* NULLABLE valid,
                                                                  u64 first_bit, u32 count, i64 least, u64 none,
                                                                  u64* keys, u32* rows) {
    u32 row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= count) return;
    u64 bit = first_bit + row;
    bool is_there = !valid || (valid[bit / 8] >> (bit % 8) & 1);
    u64 above = (u64)numbers[row] - (u64)least;
    keys[row] = !is_there ? none : above < none ? above : none + 1;
    rows[row] = row;
}

// One thread a row: the number of `left`, and below it in `bits` bits that of `right`, if there is one; `none` also
// where that has more.
extern "C" __global__ void __launch_bounds__(THREADS) key_pairs(const u32* left, const u32* NULLABLE right, u32 count,
                                                                u32 bits, u64 none, u64* keys, u32* rows) {
    u32 row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= count) return;
    u32 high = left[row], low = right ? right[row] : 0;
    bool is_there = high != NO_NUMBER && low != NO_NUMBER && (u64)low >> bits == 0;
    keys[row] = is_there ? (u64)high << bits | low : none;
    rows[row] = row;
}

__device__ __forceinline__ bool is_first(const Records& records, u32 at) {
    return at == 0 || records.keys[at] != records.keys[at - 1];
}

__device__ __forceinline__ bool has_value(const Records& records, u32 at) {
    return records.keys[at] != records.none || records.none_is_one;
}

__device__ __forceinline__ bool has_number(const Records& records, u32 at) {
    if (!has_value(records, at)) return false;
    return !records.only_pairs || !is_first(records, at) || (at + 1 < records.count && !is_first(records, at + 1));
}

__device__ __forceinline__ bool are_equal(const ArrowStrings& strings, u32 one, const ArrowStrings& others, u32 other) {
    const u64 *left = (const u64*)(strings.views + (u64)one * 16),
              *right = (const u64*)(others.views + (u64)other * 16);
    // the length and the first bytes
    if (left[0] != right[0]) return false;
    u32 length, same;
    const u8 *text = bytes_of(strings, one, &length), *other_text = bytes_of(others, other, &same);
    if (length <= INLINE_BYTES) return left[1] == right[1];
    for (u32 at = 4; at < length; at++) {
        if (text[at] != other_text[at]) return false;
    }
    return true;
}

// One block of threads a tile: its first records of a key, and behind those of all tiles its records that have a
// number. `strings` has none where keys are not hashes.
extern "C" __global__ void __launch_bounds__(THREADS) key_heads(Records records, ArrowStrings strings, u32* tiles,
                                                                Counted* counted) {
    u32 begin = blockIdx.x * TILE, end = min(records.count, begin + TILE);
    u32 heads = 0, numbered = 0, valued = 0, different = 0;
    for (u32 at = begin + threadIdx.x; at < end; at += THREADS) {
        bool first = is_first(records, at);
        if (!first && strings.views && records.keys[at] != records.none)
            different += !are_equal(strings, records.rows[at - 1], strings, records.rows[at]);
        valued += has_value(records, at);
        if (!has_number(records, at)) continue;
        heads += first;
        numbered++;
    }
    u32 in_tile, numbered_in_tile, valued_in_tile;
    block_exclusive_sum<THREADS>(heads, &in_tile);
    block_exclusive_sum<THREADS>(valued, &valued_in_tile);
    block_exclusive_sum<THREADS>(numbered, &numbered_in_tile);
    if (different > 0) atomicAdd(&counted->different, (u64)different);
    if (threadIdx.x != 0) return;
    atomicAdd(&counted->valued, (u64)valued_in_tile);
    tiles[blockIdx.x] = in_tile;
    tiles[gridDim.x + blockIdx.x] = numbered_in_tile;
}

// Two blocks of threads: the sums before each tile, and over all.
extern "C" __global__ void __launch_bounds__(THREADS) key_offsets(u32* tiles, u32 count, Counted* counted) {
    u32* sums = tiles + (u64)blockIdx.x * count;
    u32 before = 0;
    for (u32 begin = 0; begin < count; begin += THREADS) {
        u32 at = begin + threadIdx.x, all;
        u32 offset = block_exclusive_sum<THREADS>(at < count ? sums[at] : 0, &all);
        if (at < count) sums[at] = before + offset;
        before += all;
    }
    if (threadIdx.x == 0) (blockIdx.x == 0 ? counted->numbers : counted->records) = before;
}

// One block of threads a tile. `starts` has an entry more than there are numbers, `grouped` one a record that has a
// number; `known` has one a number, and is none where nobody asks for their keys.
extern "C" __global__ void __launch_bounds__(THREADS) key_groups(Records records, const u32* tiles,
                                                                 const Counted* counted, u32* numbers, u32* starts,
                                                                 u32* grouped, u64* NULLABLE known) {
    u32 begin = blockIdx.x * TILE, end = min(records.count, begin + TILE);
    u32 heads = tiles[blockIdx.x], places = tiles[gridDim.x + blockIdx.x];
    for (u32 from = begin; from < end; from += THREADS) {
        u32 at = from + threadIdx.x, all_heads, all_places;
        bool numbered = at < end && has_number(records, at), head = numbered && is_first(records, at);
        u32 number = heads + block_exclusive_sum<THREADS>((u32)head, &all_heads) + head - 1;
        u32 place = places + block_exclusive_sum<THREADS>((u32)numbered, &all_places);
        if (at < end) numbers[records.rows[at]] = numbered ? number : NO_NUMBER;
        if (numbered) grouped[place] = records.rows[at];
        if (head) starts[number] = place;
        if (head && known) known[number] = records.keys[at];
        heads += all_heads;
        places += all_places;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) starts[counted->numbers] = (u32)counted->records;
}

// One thread a row: the number of its key, if it is known. Where keys are hashes, `strings` are what they stand for,
// and `others` what those do that are known; else both have none. Adds the rows that have a number to `found`.
extern "C" __global__ void __launch_bounds__(THREADS) key_find(const u64* keys, u32 count, Known known,
                                                               ArrowStrings strings, ArrowStrings others, u32* numbers,
                                                               u64* found) {
    u32 row = blockIdx.x * THREADS + threadIdx.x, number = NO_NUMBER;
    if (row < count) {
        u64 key = keys[row];
        u32 at = first_true(0, known.count, [&](u32 n) { return known.keys[n] >= key; });
        bool is_known = at < known.count && known.keys[at] == key;
        if (is_known && strings.views && is_valid(strings, row))
            is_known = are_equal(strings, row, others, known.rows[known.starts[at]]);
        if (is_known) number = at;
        numbers[row] = number;
    }
    u32 in_block;
    block_exclusive_sum<THREADS>((u32)(number != NO_NUMBER), &in_block);
    if (threadIdx.x == 0 && in_block > 0) atomicAdd(found, (u64)in_block);
}

// One thread a place: the value there.
extern "C" __global__ void __launch_bounds__(THREADS) key_gather(const u32* values, const u32* places, u32 count,
                                                                 u32* out) {
    u32 at = blockIdx.x * THREADS + threadIdx.x;
    if (at < count) out[at] = values[places[at]];
}

#include "layout/equality.cuh"
