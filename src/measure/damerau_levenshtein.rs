//! Unrestricted Damerau-Levenshtein: insertions, deletions, substitutions and transpositions of neighbours,
//! between which more may be inserted or deleted.
//!
//! Counted in Unicode scalar values. Time is the product of the lengths, memory the shorter length; up to 64
//! characters nothing is allocated.

use super::symbols::{Symbol, Symbols, WORD, without_common_affixes};

/// More than any distance, and so that sums of it and lengths do not overflow.
const NEVER: usize = usize::MAX / 2;

/// What the rows so far left behind in one column of the distance matrix.
#[derive(Clone, Copy)]
struct Column {
    /// The distance in the row above.
    above: usize,
    /// The distance two rows above.
    two_above: usize,
    /// The last row whose symbol is the column's, or 0.
    match_row: usize,
    /// The distance in the row above that one, two columns to the left.
    before_match: usize,
}

/// The Damerau-Levenshtein distance of `a` and `b`, in characters.
///
/// # Example
///
/// ```
/// use datafusion_similarity::measure::damerau_levenshtein::damerau_levenshtein;
///
/// assert_eq!(damerau_levenshtein("ca", "abc"), 2);
/// ```
pub fn damerau_levenshtein(a: &str, b: &str) -> usize {
    let (a, b) = without_common_affixes(a, b);
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => distance(a, b),
        Symbols::Decoded(a, b) => distance::<char>(&a, &b),
    }
}

fn distance<S: Symbol>(a: &[S], b: &[S]) -> usize {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.is_empty() {
        return long.len();
    }
    let first = |j| Column { above: j, two_above: NEVER, match_row: 0, before_match: NEVER };
    if short.len() <= WORD {
        let mut columns = [first(0); WORD];
        columns.iter_mut().zip(1..).for_each(|(column, j)| *column = first(j));
        fill(long, short, &mut columns[..short.len()])
    } else {
        let mut columns: Vec<_> = (1..=short.len()).map(first).collect();
        fill(long, short, &mut columns)
    }
}

/// Fills the matrix row by row and returns its last cell.
fn fill<S: Symbol>(rows: &[S], text: &[S], columns: &mut [Column]) -> usize {
    let mut distance = 0;
    for (&symbol, row) in rows.iter().zip(1..) {
        distance = fill_row(symbol, row, text, columns);
    }
    distance
}

/// Fills row `row` and returns its last cell.
///
/// A transposition ending in cell `(i, j)` swaps row `k`, the last before `i` with the column's symbol, and
/// column `l`, the last before `j` with the row's symbol. What stands between them is deleted and inserted,
/// and unless `k = i - 1` or `l = j - 1` that is no cheaper than doing without (Zhao and Sahni, "String
/// correction using the Damerau-Levenshtein distance", 2019). So the cell `(k - 1, l - 1)` before it stands
/// either two columns to the left, in the row above the column's last match, or two rows above, in the column
/// left of the row's last match: each is kept when that match is met.
fn fill_row<S: Symbol>(symbol: S, row: usize, text: &[S], columns: &mut [Column]) -> usize {
    // The cells beside the current one, beginning with column 0, which `columns` leaves out.
    let (mut left, mut above_left, mut above_two_left) = (row, row - 1, NEVER);
    let mut two_above_left = row.checked_sub(2).unwrap_or(NEVER);
    let mut last_match: Option<(usize, usize)> = None;
    for ((&other, column), j) in text.iter().zip(columns).zip(1..) {
        let swapped = match last_match {
            Some((l, _)) if l + 1 == j => column.before_match + (row - column.match_row),
            Some((l, before)) if column.match_row + 1 == row => before + (j - l),
            _ => NEVER,
        };
        let indel = column.above.min(left) + 1;
        let distance = if symbol == other {
            (column.match_row, column.before_match) = (row, above_two_left);
            last_match = Some((j, two_above_left));
            indel.min(above_left)
        } else {
            indel.min(above_left + 1).min(swapped)
        };
        (above_two_left, two_above_left) = (above_left, column.two_above);
        (above_left, column.two_above) = (column.above, column.above);
        (left, column.above) = (distance, distance);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::test_strings::{pairs, plain_damerau_levenshtein};

    #[test]
    fn agrees_with_the_definition_either_way_round() {
        for (a, b) in pairs() {
            let expected = plain_damerau_levenshtein(&a, &b);
            assert_eq!(damerau_levenshtein(&a, &b), expected, "{a:?} {b:?}");
            assert_eq!(damerau_levenshtein(&b, &a), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn a_transposition_may_enclose_other_edits() {
        assert_eq!(damerau_levenshtein("ca", "abc"), 2);
        assert_eq!(damerau_levenshtein("a cat", "an abct"), 3);
        assert_eq!(damerau_levenshtein("日本", "本x日"), 2);
    }

    #[test]
    fn empty_and_equal() {
        assert_eq!(damerau_levenshtein("", ""), 0);
        assert_eq!(damerau_levenshtein("", "é日"), 2);
        assert_eq!(damerau_levenshtein(&"ab".repeat(150), &"ab".repeat(150)), 0);
    }
}
