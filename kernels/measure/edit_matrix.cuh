// The edit matrix in bit-parallel form, as crates/measures/src/edit_matrix.rs: 64 rows of a column at a time, as
// differences of neighbouring cells (Myers 1999; transpositions after Hyyro 2003), in strips of 64 rows that cross the
// text one after the other and visit only the columns that a path within the bound can reach.
#pragma once

#include "symbols.cuh"

// The columns of a row that are kept at once, and the words of one bit a column of them. A column stands where the one
// stands that is so many columns before it.
#define KEPT_COLUMNS 1024  // for the host
#define KEPT_WORDS (KEPT_COLUMNS / WORD)

// The bits of one column of as many rows as a word has bits.
template <class Word>
struct Column {
    // Rows one more than the row above, and one less.
    Word more;
    Word less;
    // Rows equal to the cell diagonally above left.
    Word free;
    // Rows whose symbol is the column's symbol.
    Word equal;

    // The column before the first: every row one more than the row above.
    static __device__ __forceinline__ Column first() { return {(Word)~0ull, 0, 0, 0}; }
};

// The cells of a row, one or a range of columns: which are one more than their left neighbour, which one less, and
// after which a transposition may end in the next row.
template <class Word>
struct Edge {
    Word more;
    Word less;
    Word swaps;
};

// Steps to the next column, whose symbol stands in the rows `equal`, below the cell `above`. Returns the cell in row
// `last`.
template <bool SWAPS, class Word>
__device__ __forceinline__ Edge<Word> step(Column<Word>& column, Word equal, Edge<Word> above, u32 last) {
    Word swaps = SWAPS ? ~column.free & equal : 0;
    Word swapped = SWAPS ? (swaps << 1 | above.swaps) & column.equal : 0;
    Word start = equal | above.less;
    Word free = (((start & column.more) + column.more) ^ column.more) | start | column.less | swapped;
    Word more_right = column.less | ~(free | column.more);
    Word less_right = free & column.more;
    Word more_shifted = more_right << 1 | above.more;
    Word less_shifted = less_right << 1 | above.less;
    column.more = less_shifted | ~(free | more_shifted);
    column.less = more_shifted & free;
    column.free = free;
    column.equal = equal;
    return {more_right >> last & 1, less_right >> last & 1, SWAPS ? swaps >> last & 1 : 0};
}

// As `edit_distance_within`, for a pattern of no more symbols than a word has bits.
template <bool SWAPS, class Alphabet, class Word>
__device__ __forceinline__ u32 one_strip(const typename Alphabet::Symbol* pattern, u32 rows,
                                         const typename Alphabet::Symbol* text, u32 columns, u32 most) {
    Symbols<Alphabet, Word> symbols(pattern, rows);
    Column<Word> column = Column<Word>::first();
    Edge<Word> above = {1, 0, 0};
    u32 value = rows;
#pragma unroll 1
    for (u32 left = columns; left-- > 0; text++) {
        Edge<Word> edge = step<SWAPS, Word>(column, symbols.at(*text), above, rows - 1);
        value += (u32)edge.more - (u32)edge.less;
        // each column to come lowers the distance by at most 1
        if (value > most + left) return most + 1;
    }
    return value;
}

// As `edit_distance_within`, for a pattern of any length.
//
// A path of cost `most` strays no farther than that from the main diagonal, and a transposition reads the column before
// the previous one, hence the margin. Left of the columns of a strip each row counts as one more than the row above,
// right of those of the strip above each cell as one more than its left neighbour: real paths, so that no cell is too
// low, and none within the bound is missed. What a strip reads of the one above, and what it leaves to the next one, is
// up to 2 * ceil((most + 2) / 64) words of columns each: all of either is kept at once, and a word takes the place of
// one that has been read, or that nobody reads any more.
template <bool SWAPS, class Alphabet>
__device__ __forceinline__ u32 strips(const typename Alphabet::Symbol* pattern, u32 rows,
                                      const typename Alphabet::Symbol* text, u32 columns, u32 most) {
    Edge<u64> edges[KEPT_WORDS];
    // The cell above the next strip's first row and before its first column, and where the row above is not known any
    // more.
    u32 corner = 0, from = 0, known = 0;
    u32 reach = most + 2;
    for (u32 top = 0; top < rows; top += WORD) {
        u32 height = min(rows - top, (u32)WORD);
        bool is_last = top + WORD >= rows;
        u32 end = is_last ? columns : min(columns, (top + WORD + reach + WORD - 1) / WORD * WORD);
        Symbols<Alphabet> symbols(pattern + top, height);
        Column<u64> column = Column<u64>::first();
        u32 next = top + WORD > reach ? min((top + WORD - reach) / WORD * WORD, columns / WORD * WORD) : 0;
        u32 value = corner + height;
        corner = value;
        for (u32 first = from; first < end; first += WORD) {
            Edge<u64> above = {~0ull, 0, 0}, below = {0, 0, 0};
            if (first < known) above = edges[first / WORD % KEPT_WORDS];
            u32 last = min(end, first + WORD);
#pragma unroll 1
            for (u32 at = first; at < last; at++) {
                u32 bit = at - first;
                Edge<u64> edge = {above.more >> bit & 1, above.less >> bit & 1, above.swaps >> bit & 1};
                edge = step<SWAPS, u64>(column, symbols.at(text[at]), edge, height - 1);
                value += (u32)edge.more - (u32)edge.less;
                if (is_last) {
                    if (value > most + (columns - 1 - at)) return most + 1;
                    continue;
                }
                below.more |= edge.more << bit;
                below.less |= edge.less << bit;
                below.swaps |= edge.swaps << bit;
            }
            if (!is_last) edges[first / WORD % KEPT_WORDS] = below;
            if (first + WORD == next) corner = value;
        }
        if (is_last) return value;
        known = end;
        from = next;
    }
    return 0;
}

// The edit distance if it is at most `most`, otherwise some larger number; with SWAPS, optimal string alignment. The
// pattern is the longer string, by no more than `most`; where the text has more than KEPT_COLUMNS symbols, `most` is
// KEPT_COLUMNS / 2 - 2 at most.
template <bool SWAPS, class Alphabet>
__device__ __forceinline__ u32 edit_distance_within(const typename Alphabet::Symbol* pattern, u32 rows,
                                                    const typename Alphabet::Symbol* text, u32 columns, u32 most) {
    if (rows <= 32) return one_strip<SWAPS, Alphabet, u32>(pattern, rows, text, columns, most);
    if (rows <= 64) return one_strip<SWAPS, Alphabet, u64>(pattern, rows, text, columns, most);
    return strips<SWAPS, Alphabet>(pattern, rows, text, columns, most);
}
