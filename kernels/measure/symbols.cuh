// Where a symbol stands among 64, as crates/measures/src/symbols.rs: here by the bits of the symbols' codes, one word a
// bit, so that an alphabet of any size takes no table.
#pragma once

// Positions of a word of strings of any length; shorter strings may take half of it.
#define WORD 64

// What a kernel knows of the codes of an alphabet: their type and how many bits they have.
struct SmallAlphabet {
    using Symbol = u8;
    static constexpr int BITS = 8;
};
struct LargeAlphabet {
    using Symbol = u32;
    static constexpr int BITS = 21;
};

// All bits of a word as `bit`.
template <class Word>
__device__ __forceinline__ Word spread(u32 bit) {
    return (Word)(i64)(0 - (i32)bit);
}

// As many symbols as a word has bits; positions beyond them are of no account.
template <class Alphabet, class Word = u64>
struct Symbols {
    Word planes[Alphabet::BITS];

    __device__ __forceinline__ Symbols(const typename Alphabet::Symbol* symbols, u32 count) {
#pragma unroll
        for (int bit = 0; bit < Alphabet::BITS; bit++) planes[bit] = 0;
#pragma unroll 1
        for (u32 at = count; at-- > 0;) {
            u32 symbol = symbols[at];
#pragma unroll
            for (int bit = 0; bit < Alphabet::BITS; bit++) planes[bit] = planes[bit] << 1 | (symbol >> bit & 1);
        }
    }

    // The positions of `symbol`.
    __device__ __forceinline__ Word at(u32 symbol) const {
        Word differing = 0;
#pragma unroll
        for (int bit = 0; bit < Alphabet::BITS; bit++) differing |= planes[bit] ^ spread<Word>(symbol >> bit & 1);
        return ~differing;
    }
};
