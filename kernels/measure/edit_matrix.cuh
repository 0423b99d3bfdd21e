// The edit matrix in bit-parallel form, as src/measure/edit_matrix.rs: 64 rows of a column at a time, as differences of
// neighbouring cells (Myers 1999; transpositions after Hyyro 2003), in strips of 64 rows that cross the text one after the
// other and visit only the columns that a path within the bound can reach.
#pragma once

#include "symbols.cuh"

// The longest text, and the words of one bit a column of it.
#define LONGEST_TEXT 1024
#define TEXT_WORDS (LONGEST_TEXT / WORD)

// The bits of one column of 64 rows.
struct Column {
    // Rows one more than the row above, and one less.
    u64 more;
    u64 less;
    // Rows equal to the cell diagonally above left.
    u64 free;
    // Rows whose symbol is the column's symbol.
    u64 equal;
};

// The last row of a strip in a range of 64 columns, or the row above one: which cells are one more than their left
// neighbour, which one less, and after which a transposition may end in the next row.
struct Edge {
    u64 more;
    u64 less;
    u64 swaps;
};

// Steps to the next column, whose symbol stands in the rows `equal`, below the bits `above` of an edge. Leaves there those of
// the edge below row `last`.
template <bool SWAPS>
__device__ __forceinline__ void step(Column& column, u64 equal, Edge& above, u32 last) {
    u64 swaps = SWAPS ? ~column.free & equal : 0;
    u64 swapped = SWAPS ? (swaps << 1 | above.swaps) & column.equal : 0;
    u64 start = equal | above.less;
    u64 free = (((start & column.more) + column.more) ^ column.more) | start | column.less | swapped;
    u64 more_right = column.less | ~(free | column.more);
    u64 less_right = free & column.more;
    u64 more_shifted = more_right << 1 | above.more;
    u64 less_shifted = less_right << 1 | above.less;
    column.more = less_shifted | ~(free | more_shifted);
    column.less = more_shifted & free;
    column.free = free;
    column.equal = equal;
    above.more = more_right >> last & 1;
    above.less = less_right >> last & 1;
    above.swaps = SWAPS ? swaps >> last & 1 : 0;
}

// The edit distance if it is at most `most`, otherwise some larger number; with SWAPS, optimal string alignment. The pattern
// is the longer string, by no more than `most`; the text has no more than LONGEST_TEXT symbols.
//
// A path of cost `most` strays no farther than that from the main diagonal, and a transposition reads the column before the
// previous one, hence the margin. Left of the columns of a strip each row counts as one more than the row above, right of
// those of the strip above each cell as one more than its left neighbour: real paths, so that no cell is too low, and none
// within the bound is missed.
template <bool SWAPS, class Alphabet>
__device__ __forceinline__ u32 edit_distance_within(const typename Alphabet::Symbol* pattern, u32 rows, const typename Alphabet::Symbol* text, u32 columns,
                                    u32 most) {
    Edge edges[TEXT_WORDS];
    // The cell above the next strip's first row and before its first column, and where the row above is not known any more.
    u32 corner = 0, from = 0, known = 0;
    u32 reach = most + 2;
    for (u32 top = 0; top < rows; top += WORD) {
        u32 height = min(rows - top, (u32)WORD);
        bool is_last = top + WORD >= rows;
        u32 end = is_last ? columns : min(columns, (top + WORD + reach + WORD - 1) / WORD * WORD);
        Symbols<Alphabet> symbols(pattern + top, height);
        Column column = {~0ull, 0, 0, 0};
        u32 next = top + WORD > reach ? min((top + WORD - reach) / WORD * WORD, columns / WORD * WORD) : 0;
        u32 value = corner + height;
        corner = value;
        for (u32 first = from; first < end; first += WORD) {
            Edge above = {~0ull, 0, 0}, below = {0, 0, 0};
            if (first < known) above = edges[first / WORD];
            u32 last = min(end, first + WORD);
#pragma unroll 1
            for (u32 at = first; at < last; at++) {
                u32 bit = at - first;
                Edge edge = {above.more >> bit & 1, above.less >> bit & 1, above.swaps >> bit & 1};
                step<SWAPS>(column, symbols.at(text[at]), edge, height - 1);
                value += (u32)edge.more - (u32)edge.less;
                if (is_last) {
                    // each column to come lowers the distance by at most 1
                    if (value > most + (columns - 1 - at)) return most + 1;
                    continue;
                }
                below.more |= edge.more << bit;
                below.less |= edge.less << bit;
                below.swaps |= edge.swaps << bit;
            }
            if (!is_last) edges[first / WORD] = below;
            if (first + WORD == next) corner = value;
        }
        if (is_last) return value;
        known = end;
        from = next;
    }
    return 0;
}
