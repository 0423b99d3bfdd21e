//! Unrestricted Damerau-Levenshtein: insertions, deletions, substitutions and transpositions of neighbours,
//! between which more may be inserted or deleted.
//!
//! Counted in Unicode scalar values. Time is the product of the lengths, or of a length and a bound on the
//! distance, memory the shorter length; up to 64 characters nothing is allocated.

use super::levenshtein::levenshtein_within_unless;
use super::symbols::{Symbol, Symbols, WORD, without_common_affixes};
use crate::FunctionDoc;
use crate::edit_descriptor::{EditCost, EditDescriptor, EditLimit, EditOperations, EditScale, EditSteps};

pub(crate) const MEASURE: EditDescriptor = EditDescriptor {
    name: "damerau_levenshtein",
    doc: Some(FunctionDoc {
        syntax: "damerau_levenshtein(a, b)",
        description: "Insertions, deletions, substitutions and swaps of neighbours, without restriction.",
        example: ("damerau_levenshtein('ca', 'abc')", "2"),
    }),
    parameters: &[],
    // a transposition that encloses others changes as many bigrams as two plain edits for each that it costs
    scale: EditScale::Distance(EditOperations { torn_bigrams: 4, gap: 1, shifts: true, plain_edits: 2 }),
    cost: EditCost { fixed: 40.0, step: 1.3, steps: EditSteps::Cells },
    kernel: None,
};

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
/// use similarity_measures::damerau_levenshtein::damerau_levenshtein;
///
/// assert_eq!(damerau_levenshtein("ca", "abc"), 2);
/// ```
pub fn damerau_levenshtein(a: &str, b: &str) -> usize {
    within(a, b, usize::MAX, &|| false).unwrap_or_default()
}

/// The Damerau-Levenshtein distance of `a` and `b` if it is at most `k`, otherwise `None`.
///
/// Gives up, with `None`, once `stop` is true; asked again and again while long strings are compared.
pub fn damerau_levenshtein_within_unless(a: &str, b: &str, k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    // Two plain edits do what a transposition does, and they are counted 64 at a time.
    levenshtein_within_unless(a, b, k.saturating_mul(2), stop)?;
    within(a, b, k, stop)
}

fn within(a: &str, b: &str, k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    let (a, b) = without_common_affixes(a, b);
    match Symbols::of(a, b) {
        Symbols::Ascii(a, b) => distance_within(a, b, k, stop),
        Symbols::Decoded(a, b) => distance_within::<char>(&a, &b, k, stop),
    }
}

fn distance_within<S: Symbol>(a: &[S], b: &[S], k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() - short.len() > k {
        return None;
    }
    if short.is_empty() {
        return Some(long.len());
    }
    let first = |j| Column { above: j, two_above: NEVER, match_row: 0, before_match: NEVER };
    let distance = if short.len() <= WORD {
        let mut columns = [first(0); WORD];
        columns.iter_mut().zip(1..).for_each(|(column, j)| *column = first(j));
        fill(long, short, &mut columns[..short.len()], k, stop)
    } else {
        let mut columns: Vec<_> = (1..=short.len()).map(first).collect();
        fill(long, short, &mut columns, k, stop)
    };
    distance.filter(|&d| d <= k)
}

/// Fills the matrix row by row and returns its last cell, `None` once `stop` is true.
///
/// Cells farther than `k` off the main diagonal are on no path of cost `k` or less and are left out. A cell that
/// has not been filled when it is looked at counts as more than it is, never less.
fn fill<S: Symbol>(rows: &[S], text: &[S], columns: &mut [Column], k: usize, stop: &dyn Fn() -> bool) -> Option<usize> {
    let mut distance = 0;
    for (&symbol, row) in rows.iter().zip(1usize..) {
        let first = row.saturating_sub(k).max(1);
        let last = text.len().min(row.saturating_add(k));
        distance = fill_row(symbol, row, first, &text[..last], columns);
        if stop() {
            return None;
        }
    }
    Some(distance)
}

/// Fills row `row` from column `first` to the last of `text` and returns its last cell.
///
/// A transposition ending in cell `(i, j)` swaps row `k`, the last before `i` with the column's symbol, and
/// column `l`, the last before `j` with the row's symbol. What stands between them is deleted and inserted,
/// and unless `k = i - 1` or `l = j - 1` that is no cheaper than doing without (Zhao and Sahni, "String
/// correction using the Damerau-Levenshtein distance", 2019). So the cell `(k - 1, l - 1)` before it stands
/// either two columns to the left, in the row above the column's last match, or two rows above, in the column
/// left of the row's last match: each is kept when that match is met.
fn fill_row<S: Symbol>(symbol: S, row: usize, first: usize, text: &[S], columns: &mut [Column]) -> usize {
    // The cells beside the current one, beginning with the column before `first`; `columns` leaves out column 0.
    let mut above_two_left = NEVER;
    let (mut left, mut above_left, mut two_above_left) = match first.checked_sub(2) {
        Some(before) => (NEVER, columns[before].above, columns[before].two_above),
        None => (row, row - 1, row.checked_sub(2).unwrap_or(NEVER)),
    };
    let mut last_match: Option<(usize, usize)> = None;
    for ((&other, column), j) in text[first - 1..].iter().zip(&mut columns[first - 1..]).zip(first..) {
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

pub(crate) fn score(a: &str, b: &str) -> Option<f64> {
    Some(damerau_levenshtein(a, b) as f64)
}

pub(crate) fn score_within(a: &str, b: &str, limit: EditLimit, stop: &dyn Fn() -> bool) -> Option<f64> {
    damerau_levenshtein_within_unless(a, b, limit.edits, stop).map(|d| d as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_strings::{pairs, plain_damerau_levenshtein};

    #[test]
    fn agrees_with_the_definition_either_way_round() {
        for (a, b) in pairs() {
            let expected = plain_damerau_levenshtein(&a, &b);
            assert_eq!(damerau_levenshtein(&a, &b), expected, "{a:?} {b:?}");
            assert_eq!(damerau_levenshtein(&b, &a), expected, "{b:?} {a:?}");
            for k in [0, 1, 2, 3, 4, 6, 9, 30, expected.saturating_sub(1), expected, expected + 1, usize::MAX] {
                let within = damerau_levenshtein_within_unless(&a, &b, k, &|| false);
                assert_eq!(within, (expected <= k).then_some(expected), "{a:?} {b:?} {k}");
            }
        }
    }

    #[test]
    fn a_transposition_may_enclose_other_edits() {
        assert_eq!(damerau_levenshtein("ca", "abc"), 2);
        assert_eq!(damerau_levenshtein("a cat", "an abct"), 3);
        assert_eq!(damerau_levenshtein("日本", "本x日"), 2);
    }

    #[test]
    fn long_strings_within_a_narrow_band_are_cheap() {
        let a = "abcdefghij".repeat(20_000);
        let b = format!("x{}ji{}", &a[..100_000], &a[100_002..]);
        let within = |k| damerau_levenshtein_within_unless(&a, &b, k, &|| false);
        assert_eq!((within(3), within(20), within(2)), (Some(3), Some(3), None));
        assert_eq!(damerau_levenshtein_within_unless(&a, &b, 3, &|| true), None);
    }

    #[test]
    fn empty_and_equal() {
        assert_eq!(damerau_levenshtein("", ""), 0);
        assert_eq!(damerau_levenshtein("", "é日"), 2);
        assert_eq!(damerau_levenshtein(&"ab".repeat(150), &"ab".repeat(150)), 0);
    }
}
