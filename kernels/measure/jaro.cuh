// Jaro, as crates/measures/src/jaro.rs: the greedy match, and the same operations on the same numbers in double
// precision.
#pragma once

#include "symbols.cuh"

// The longest string, and the words of one bit a position of it.
#define LONGEST_MATCHED 1024  // for the host
#define MATCHED_WORDS (LONGEST_MATCHED / WORD)

// The next position from `at` on whose bit is set; there must be one.
__device__ __forceinline__ u32 next_set(const u64* bits, u32 at) {
    u64 rest = bits[at / WORD] >> (at % WORD);
    if (rest != 0) return at + __ffsll((i64)rest) - 1;
    u32 word = at / WORD + 1;
    while (bits[word] == 0) word++;
    return word * WORD + __ffsll((i64)bits[word]) - 1;
}

// As `match`, for strings of no more symbols than a word has bits; the right one is not empty.
template <class Alphabet, class Word>
__device__ __forceinline__ u32 match_bits(const typename Alphabet::Symbol* left, u32 lefts,
                                          const typename Alphabet::Symbol* right, u32 rights, u32 window,
                                          u32& misplaced) {
    constexpr u32 MOST = sizeof(Word) * 8;
    Symbols<Alphabet, Word> symbols(right, rights);
    // the positions that have a symbol, and those within the window, which grows until its low end leaves 0
    Word held = (Word)~0ull >> (MOST - rights), within = (Word)~0ull >> (MOST - 1 - min(window, MOST - 1));
    Word matched_left = 0, matched_right = 0;
#pragma unroll 1
    for (u32 at = 0; at < lefts; at++) {
        Word open = symbols.at(left[at]) & within & held & ~matched_right;
        matched_right |= open & (0 - open);
        matched_left |= (Word)(open != 0) << at;
        within = within << 1 | (Word)(at < window);
    }
    misplaced = 0;
    u32 matches = 0;
    for (; matched_left != 0; matches++) {
        misplaced += left[__ffsll((i64)matched_left) - 1] != right[__ffsll((i64)matched_right) - 1];
        matched_left &= matched_left - 1;
        matched_right &= matched_right - 1;
    }
    return matches;
}

// As `match`, for strings of any length.
//
// A symbol of the left string takes the first free equal one within the window. The words of the right string are gone
// through one after the other, each with the symbols that have found none before: what is free in a word depends only
// on the symbols that came to it earlier, which are the same ones in either order.
template <class Alphabet>
__device__ __forceinline__ u32 match_words(const typename Alphabet::Symbol* left, u32 lefts,
                                           const typename Alphabet::Symbol* right, u32 rights, u32 window,
                                           u32& misplaced) {
    u64 matched_left[MATCHED_WORDS], matched_right[MATCHED_WORDS];
    for (u32 word = 0; word * WORD < lefts; word++) matched_left[word] = 0;
    u32 matches = 0;
    for (u32 first = 0; first < rights; first += WORD) {
        u32 count = min(rights - first, (u32)WORD);
        Symbols<Alphabet> symbols(right + first, count);
        u64 held = ~0ull >> (WORD - count), matched = 0;
        u32 end = min(lefts, first + count + window);
#pragma unroll 1
        for (u32 at = first > window ? first - window : 0; at < end; at++) {
            u64 bit = 1ull << (at % WORD);
            if (first > 0 && matched_left[at / WORD] & bit) continue;
            // the positions from `at - window` to `at + window`, as far as they are of this word
            u32 low = at > first + window ? at - window - first : 0, high = at + window - first;
            u64 within = ~0ull << low & ~0ull >> (WORD - 1 - min(high, (u32)WORD - 1));
            u64 open = symbols.at(left[at]) & within & held & ~matched;
            if (open == 0) continue;
            matched |= open & (0 - open);
            matched_left[at / WORD] |= bit;
            matches++;
        }
        matched_right[first / WORD] = matched;
    }
    misplaced = 0;
    u32 l = 0, r = 0;
    for (u32 seen = 0; seen < matches; seen++, l++, r++) {
        l = next_set(matched_left, l);
        r = next_set(matched_right, r);
        misplaced += left[l] != right[r];
    }
    return matches;
}

// The matches of two strings, and how many of them are out of order; the right string is no shorter, and not empty.
template <class Alphabet>
__device__ __forceinline__ u32 match(const typename Alphabet::Symbol* left, u32 lefts,
                                     const typename Alphabet::Symbol* right, u32 rights, u32 window, u32& misplaced) {
    if (rights <= 32) return match_bits<Alphabet, u32>(left, lefts, right, rights, window, misplaced);
    if (rights <= 64) return match_bits<Alphabet, u64>(left, lefts, right, rights, window, misplaced);
    return match_words<Alphabet>(left, lefts, right, rights, window, misplaced);
}

// Between 0 and 1; 1 for two empty strings, 0 if only one is empty. The right string is no shorter.
template <class Alphabet>
__device__ __forceinline__ double jaro_similarity(const typename Alphabet::Symbol* left, u32 lefts,
                                                  const typename Alphabet::Symbol* right, u32 rights) {
    if (rights == 0) return 1.0;
    u32 half = rights / 2, misplaced;
    u32 matched = match<Alphabet>(left, lefts, right, rights, half > 0 ? half - 1 : 0, misplaced);
    if (matched == 0) return 0.0;
    double in_order = (double)(matched - misplaced / 2), matches = (double)matched;
    return (matches / (double)lefts + matches / (double)rights + in_order / matches) / 3.0;
}
