// ArrowStrings of a column as other kernels compare them: a code for each character, and what the first filter reads of
// each string.
//
//   views and bytes, as Arrow has them --text_features--> characters of each string, its signature and its class; the characters
//                                                         that occur
//                                      --(host)---------> a code for each of these
//                                      --text_symbols---> the codes of each string, those of a string side by side
//                                      --text_prints----> fingerprints of rows, those of crates/engine/src/cpu/fingerprints.rs
//
// Signatures are those of crates/engine/src/cpu/strings/pair_decider.rs: a bit for each character and each time that it
// occurs.
#include "common.cuh"
#include "arrow_strings.cuh"

#define THREADS 256

// Sizes from here on are one class, and that of a NULL.
#define LARGE 64
#define NOTHING 65
// The class of strings that are too long to be read.
#define UNKNOWN 66  // for the host
// Scalar values of Unicode.
#define SCALARS 0x110000  // for the host

// Calls `each` for the characters of a string, first to last.
template <class Each>
__device__ __forceinline__ void for_each_character(const ArrowStrings& strings, u32 row, Each each) {
    u32 length;
    const u8* text = bytes_of(strings, row, &length);
    for (u32 at = 0; at < length;) {
        u32 first = text[at++];
        if (first < 0x80) {
            each(first);
            continue;
        }
        // valid UTF-8: the first byte says how many follow, six bits each
        u32 following = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        u32 scalar = first & (0x3f >> following);
        for (; following > 0; following--) scalar = scalar << 6 | (text[at++] & 0x3f);
        each(scalar);
    }
}

// One thread a row: adds what the view of its string says, all of a short one, of a longer one the length and four
// bytes, to the fingerprint of the row. `column` is a number of the column: columns may be added in any order, and at
// the same time.
extern "C" __global__ void __launch_bounds__(THREADS) text_prints(ArrowStrings strings, u64 column, u64* prints) {
    u32 row = blockIdx.x * THREADS + threadIdx.x;
    if (row >= strings.count) return;
    const u64* view = (const u64*)(strings.views + (u64)row * 16);
    u64 low = view[0], high = (u32)low <= INLINE_BYTES ? view[1] : 0;
    atomicAdd(&prints[row], mix(mix(column, low), high));
}

// One thread a row. `occurs` has a bit for each scalar value, zero at first, and is none where nobody asks; `numbers`
// becomes the characters of all rows, and how many rows have more than `most`. These are UNKNOWN, and have no
// characters.
extern "C" __global__ void __launch_bounds__(THREADS) text_features(ArrowStrings strings, u32 most, u32* lengths,
                                                                    u64* signatures, u8* classes, u32* NULLABLE occurs,
                                                                    u64* numbers) {
    __shared__ u32 unknown;
    if (threadIdx.x == 0) unknown = 0;
    __syncthreads();
    u32 row = blockIdx.x * THREADS + threadIdx.x, length = 0;
    if (row < strings.count) {
        bool is_there = is_valid(strings, row);
        u64 signature = 0;
        u32 bytes = 0;
        if (is_there) bytes_of(strings, row, &bytes);
        // no character has more than four
        bool is_long = bytes / 4 > most;
        if (is_there && !is_long) {
            u8 times[64] = {};
            for_each_character(strings, row, [&](u32 scalar) {
                length++;
                u32 slot = scalar * 0x9e3779b1u >> 26;
                signature |= 1ull << (slot + 27 * times[slot]++) % 64;
                u32 bit = 1u << scalar % 32;
                if (occurs && !(occurs[scalar / 32] & bit)) atomicOr(&occurs[scalar / 32], bit);
            });
            is_long = length > most;
        }
        if (is_long) {
            length = 0;
            atomicAdd(&unknown, 1u);
        }
        lengths[row] = length;
        signatures[row] = signature;
        classes[row] = is_long ? (u8)UNKNOWN : is_there ? (u8)min(length, (u32)LARGE) : (u8)NOTHING;
    }
    u64 all;
    block_exclusive_sum<THREADS>((u64)length, &all);
    if (threadIdx.x != 0) return;
    atomicAdd(&numbers[0], all);
    atomicAdd(&numbers[1], (u64)unknown);
}

template <class Symbol>
__device__ __forceinline__ void symbols_of(const ArrowStrings& strings, const u32* lengths, const u32* codes, u32 last,
                                           u64* used, u64* starts, Symbol* symbols) {
    __shared__ u64 base;
    u32 row = blockIdx.x * THREADS + threadIdx.x;
    u64 all, before = block_exclusive_sum<THREADS>((u64)(row < strings.count ? lengths[row] : 0), &all);
    if (threadIdx.x == 0) base = atomicAdd(used, all);
    __syncthreads();
    if (row >= strings.count) return;
    starts[row] = base + before;
    if (lengths[row] == 0) return;
    Symbol* next = symbols + base + before;
    for_each_character(strings, row, [&](u32 scalar) { *next++ = (Symbol)(scalar < last ? codes[scalar] : 0); });
}

// One thread a row: its codes from starts[row] on. `used` is zero at first, and becomes how many there are. Characters
// from `last` on have the code 0.
#define SYMBOLS(name, Symbol)                                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) name(ArrowStrings strings, const u32* lengths,           \
                                                               const u32* codes, u32 last, u64* used, u64* starts, \
                                                               Symbol* symbols) {                                  \
        symbols_of(strings, lengths, codes, last, used, starts, symbols);                                          \
    }
SYMBOLS(text_symbols_small, u8)
SYMBOLS(text_symbols_large, u32)

#include "layout/coded_strings.cuh"
