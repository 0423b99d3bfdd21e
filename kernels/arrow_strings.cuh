// A column of strings in UTF-8, as StringViewArray has it.
//
// Assumes common.cuh.
#pragma once

struct ArrowStrings {
    // 16 bytes a row: the length, and either all bytes of up to 12 or the first four, the number of a buffer and a
    // place in it.
    const u8* NULLABLE views;
    // All buffers, one after the other, and where each starts.
    const u8* NULLABLE bytes;
    const u64* NULLABLE buffers;
    // A bit a row, from bit `first_bit` on; none where no row is NULL.
    const u8* NULLABLE valid;
    u64 first_bit;
    u32 count;
    u32 unused;
};

#define INLINE_BYTES 12

__device__ __forceinline__ bool is_valid(const ArrowStrings& strings, u32 row) {
    u64 bit = strings.first_bit + row;
    return !strings.valid || (strings.valid[bit / 8] >> (bit % 8) & 1);
}

// The bytes of a string, and how many they are.
__device__ __forceinline__ const u8* bytes_of(const ArrowStrings& strings, u32 row, u32* length) {
    const u8* view = strings.views + (u64)row * 16;
    const u32* words = (const u32*)view;
    *length = words[0];
    return words[0] <= INLINE_BYTES ? view + 4 : strings.bytes + strings.buffers[words[2]] + words[3];
}
